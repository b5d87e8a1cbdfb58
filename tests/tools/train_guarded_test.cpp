// `train` on the guarded device (core/device.h), whose memory the programs may not touch: it gives the CPU's bits, and
// a place of the loader, the loop, the groups or the files that takes the host's memory for granted ends it.
#include "tests/tools/train_process.h"

namespace tandem::train {
namespace {

struct Case {
  const char* name;
  const char* flags;
  int ranks = 1;
};

class TrainGuarded : public TrainTest, public ::testing::WithParamInterface<Case> {
 protected:
  void run(const std::string& device) const {
    const std::string launch = "'" TANDEM_LAUNCH "' -n " + std::to_string(GetParam().ranks) + " -- ";
    const Outcome outcome =
        shell((GetParam().ranks > 1 ? launch : "") + "'" TANDEM_TRAIN "' " + GetParam().flags +
              " --threads 1 --progress none --steps 4 --checkpoint-every 2 --eval-every 2 --clip-grad-norm 1 --out " +
              device + " --save-weights " + device + ".safetensors --save-grads " + device +
              ".grads.safetensors --save-outputs " + device + ".outputs.safetensors --device " + device);
    ASSERT_EQ(outcome.code, 0) << outcome.errors;
  }
};

TEST_P(TrainGuarded, gives_the_bits_of_the_cpu) {
  run("cpu");
  run("guarded");
  for (const char* file : {".safetensors", ".grads.safetensors", ".outputs.safetensors"})
    EXPECT_TRUE(read_text(path(std::string("cpu") + file)) == read_text(path(std::string("guarded") + file))) << file;
  const auto here = metrics("cpu/metrics.jsonl"), there = metrics("guarded/metrics.jsonl");
  ASSERT_EQ(here.size(), there.size());
  for (std::size_t i = 0; i < here.size(); ++i)
    for (const char* key : {"step", "loss", "grad_norm", "eval_loss", "eval_accuracy", "weights_hash"})
      EXPECT_EQ(here[i].value(key, nlohmann::json()), there[i].value(key, nlohmann::json())) << key << " of line " << i;
  EXPECT_EQ(train(std::string(GetParam().flags) + " --summary --device guarded --check-collectives").code, 0);
  const Outcome resumed = train("--config guarded/config.json --steps 5 --resume --threads 1 --progress none");
  EXPECT_EQ(resumed.code, GetParam().ranks > 1 ? 1 : 0) << resumed.errors;  // one rank does not continue two
}

INSTANTIATE_TEST_SUITE_P(
    Train, TrainGuarded,
    ::testing::Values(
        Case{"convnet", "--model convnet --data synthetic --synthetic-samples 40 --batch-size 8"},
        Case{"convnet_two_ranks",
             "--model convnet --data synthetic --synthetic-samples 40 --batch-size 4 --accumulation-steps 2", 2},
        Case{"bert",
             "--model bert-tiny --data synthetic --synthetic-samples 40 --seq-length 16 --batch-size 4 "
             "--sentence-pairs --accumulation-steps 2 --optimizer lamb"},
        Case{"bert_two_ranks",
             "--model bert-tiny --data synthetic --synthetic-samples 40 --seq-length 16 "
             "--batch-size 4 --precision bf16 --comm-hook bf16 --check-collectives",
             2},
        Case{"resnet", "--model resnet18 --data synthetic --synthetic-samples 12 --image-size 32 --batch-size 4"}),
    [](const auto& instance) { return std::string(instance.param.name); });

}  // namespace
}  // namespace tandem::train
