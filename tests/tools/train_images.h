// `train` on a folder of photographs.
#pragma once

#include <string>

#include "tests/data/images.h"
#include "tests/tools/train_ranks.h"

namespace tandem::train {

class TrainImages : public TrainRanks {
 protected:
  /// data/train and data/val: two classes of two photographs each, in colour, grey and CMYK.
  void write_photographs() const {
    data::GoldenImages golden;
    const auto put = [&](const std::string& split, const std::string& label, const std::string& kind) {
      const fs::path folder = folder_ / "data" / split / label;
      fs::create_directories(folder);
      std::ofstream(folder / (kind + ".jpg"), std::ios::binary) << golden.file(kind);
    };
    for (const std::string split : {"train", "val"})
      for (const auto& [label, kind] : {std::pair{"a", "photo"}, {"a", "420"}, {"b", "grey"}, {"b", "cmyk"}})
        put(split, label, kind);
  }

  core::Shape shape_of(const std::string& file, const std::string& name) const {
    return core::load_safetensors(folder_ / file).at(name).shape();
  }

  static constexpr const char* kFolder =
      "--model resnet18 --data imagefolder:data --image-size 32 --threads 1 --batch-size 2 --progress none ";
};

}  // namespace tandem::train
