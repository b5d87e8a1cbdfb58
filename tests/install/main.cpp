// What a user's first program does: a small network, a few training steps, an error that is caught. Exits 1 where
// something is wrong.
#include <cstdio>
#include <string>

#include "tandem/autograd/graph_printer.h"
#include "tandem/core/ops/random_fill.h"
#include "tandem/models/model_zoo.h"
#include "tandem/nn/activation.h"
#include "tandem/nn/linear.h"
#include "tandem/nn/loss.h"
#include "tandem/nn/sequential.h"
#include "tandem/optim/sgd.h"

using namespace tandem;

int main() {
  core::Generator random(0);
  nn::Sequential net;
  net.add<nn::Linear>(16, 32, random).add<nn::ReLU>().add<nn::Linear>(32, 10, random);
  optim::Sgd sgd(net.parameters(), {.lr = 0.1, .momentum = 0.9});

  core::Tensor input = core::Tensor::empty({8, 16});
  core::fill_uniform(input, -1, 1, random.next());
  const core::Tensor target = core::Tensor::arange(8);

  double first = 0, last = 0;
  for (int step = 0; step < 50; ++step) {
    const auto loss = nn::cross_entropy(net.forward(input), target);
    loss.backward();
    sgd.step();
    sgd.zero_grad();
    last = loss.data().item();
    if (step == 0) {
      first = last;
      std::printf("%s", autograd::print_graph(loss).c_str());
    }
  }
  std::printf("loss %.4f -> %.4f\n", first, last);

  std::string error;
  try {
    models::make_model("no such model");
  } catch (const core::Error& e) {
    error = e.what();
    std::printf("%s\n", e.what());
  }
  return first > 2 && last < 0.5 && error.find("convnet") != std::string::npos ? 0 : 1;
}
