// --freeze: the part of a model that is not trained.
#pragma once

#include <string>
#include <vector>

#include "tandem/nn/module.h"

namespace tandem::train {

/// Parameters that `patterns` name require no gradient from now on: no optimizer and no DistributedDataParallel takes
/// them. Patterns have commas between them; each is the name of a parameter or of a module, whose parameters are then
/// all meant, and may hold *, ? and [abc] as in a shell (* is any text, dots included). Batch norms of which nothing is
/// trained keep their statistics, too, so that the frozen part computes what its weights' file did. Throws Error naming
/// a pattern that names nothing, with names that are near, or if nothing is left to train.
void freeze(nn::Module& model, const std::string& patterns);

}  // namespace tandem::train
