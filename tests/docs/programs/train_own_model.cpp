// README's program with a model of its own, as it is printed there.
#include "tandem/data/synthetic.h"
#include "tandem/nn/linear.h"
#include "tandem/optim/sgd.h"
#include "tandem/train/classification.h"
#include "tandem/train/train_model.h"

using namespace tandem;

#include "README/a_training_run_of_your_own_1.cpp"
