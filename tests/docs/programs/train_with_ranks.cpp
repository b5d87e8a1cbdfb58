// A rank that trains with README's loop: train_with_ranks BATCH_SIZE FILE. Rank 0 writes the model's fingerprint.
#include <cstdlib>
#include <fstream>

#include "tandem/core/random.h"
#include "tandem/data/loader.h"
#include "tandem/distributed/distributed_data_parallel.h"
#include "tandem/distributed/world.h"
#include "tandem/models/mlp.h"
#include "tandem/nn/loss.h"
#include "tandem/optim/sgd.h"
#include "tests/docs/readme_training.h"

using namespace tandem;

int main(int, char** argv) {
  const std::int64_t batch_size = std::atoi(argv[1]);
  const auto dataset = docs::make_dataset();
  core::Generator random(/*seed=*/0);
  models::Mlp model(random);
  optim::Sgd sgd(model.parameters(), {.lr = 0.1, .momentum = 0.9});

#include "README/what_it_looks_like_3.cpp"

  if (world.rank() != 0) return 0;
  std::ofstream file(argv[2]);
  file.precision(17);
  for (const double number : docs::fingerprint(model)) file << number << '\n';
}
