// The C++ of the pages in docs/, as it is printed there, and that no snippet is without a test.
#include <gtest/gtest.h>

#include <atomic>

#include "tandem/core/random.h"
#include "tandem/data/text/text_data.h"
#include "tandem/data/text/wordnet.h"
#include "tandem/distributed/distributed_data_parallel.h"
#include "tandem/distributed/world.h"
#include "tandem/models/mlp.h"
#include "tandem/nn/linear.h"
#include "tandem/nn/loss.h"
#include "tests/docs/text_files.h"

namespace tandem::docs {
namespace {

namespace fs = std::filesystem;
using namespace distributed;  // NOLINT: the page is about it

std::atomic<int> ranks_with_input = 0;

core::Tensor input_of(int rank) {
  ++ranks_with_input;
  return core::Tensor::full({2, 784}, rank);
}
core::Tensor target_of(int rank) { return core::Tensor::from<std::int64_t>({rank, 9}); }

TEST(Pages, RanksAsThreads) {
#include "distributed/ranks_as_threads_1.cpp"
  EXPECT_EQ(ranks_with_input, 4);
}

/// Scores of documents for queries, [N, 2].
class Matcher final : public nn::Module {
 public:
  explicit Matcher(core::Generator& random) : query_(784, 2, random), document_(784, 2, random) {
    register_module("query", query_);
    register_module("document", document_);
  }
  using nn::Module::forward;
  Variable forward(const Variable& queries, const Variable& documents) {
    return query_.forward(queries) + document_.forward(documents);
  }

 private:
  nn::Linear query_, document_;
};

TEST(Pages, SeveralInputs) {
  run_as_threads(1, [](World& world) {
    core::Generator random(0);
    Matcher model(random);
    DistributedDataParallel ddp(model, world.make_group("world"));
    const Variable queries(core::Tensor::full({2, 784}, 1)), documents(core::Tensor::full({2, 784}, 2));
    const core::Tensor target = core::Tensor::from<std::int64_t>({0, 1});
#include "distributed/from_loss_backward_to_the_last_averaged_gradient_1.cpp"
    loss.backward();
    EXPECT_EQ(loss.data().item(), nn::cross_entropy(scores, target).data().item());
    EXPECT_GT(ddp.reducer().last_iteration().forward.ms(), 0);
    world.leave();
  });
}

TEST(Pages, TextInOneCall) {
  const std::vector<std::int64_t> indices{0, 1, 2};

#include "text/text_1.cpp"

  EXPECT_EQ(batch.input.shape(), (core::Shape{3, 128}));
  const std::vector<std::int64_t> target = batch.target.to_vector<std::int64_t>();
  const auto places = std::count_if(target.begin(), target.end(), [](auto t) { return t != data::kNotPredicted; });
  EXPECT_GT(places, 3 * 128 / 10);
  EXPECT_LT(places, 3 * 128 / 5);
}

/// Sources that may include a snippet.
std::string texts_of_tests() {
  std::string all;
  for (const char* folder : {TANDEM_SOURCE "/tests/docs", TANDEM_SOURCE "/tests/install"})
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder))
      if (entry.is_regular_file()) all += text_of(entry.path());
  return all;
}

TEST(Pages, EverySnippetHasATest) {
  const std::string tests = texts_of_tests();
  int snippets = 0;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(TANDEM_SNIPPETS)) {
    if (!entry.is_regular_file()) continue;
    ++snippets;
    const std::string name = fs::relative(entry.path(), TANDEM_SNIPPETS).string();
    EXPECT_NE(tests.find(name), std::string::npos) << name << " is compiled by no test of tests/docs or tests/install";
  }
  EXPECT_GE(snippets, 7) << "the pages were not understood";
}

}  // namespace
}  // namespace tandem::docs
