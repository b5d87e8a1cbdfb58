// The program `train`. Start reading at run.cpp, then trainer.cpp: the training loop.
#include "tools/train/program.h"

int main(int argc, char** argv) { return tandem::train::train_main(argc, argv); }
