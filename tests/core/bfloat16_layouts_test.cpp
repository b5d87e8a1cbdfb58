#include "tandem/core/cpu/bfloat16_layouts.h"

#include <gtest/gtest.h>

#include <vector>

namespace tandem::core::cpu {
namespace {

// Element (i, j) of a matrix, different from its neighbours and not a bfloat16.
float value(std::int64_t i, std::int64_t j) { return static_cast<float>((i * 131 + j * 7) % 1000) / 3 - 100; }

Tensor matrix(std::int64_t rows, std::int64_t columns, DType dtype) {
  Tensor made = Tensor::empty({rows, columns}, {.dtype = DType::float32, .device = kCpu});
  float* to = made.mutable_data<float>();
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j) to[i * columns + j] = value(i, j);
  return made.to(dtype);
}

struct Size {
  std::int64_t rows, columns;
};
constexpr Size kSizes[] = {{1, 1},   {2, 1},   {1, 2},     {16, 16}, {17, 15}, {31, 64},   {32, 63},
                           {33, 65}, {64, 32}, {100, 200}, {3, 129}, {129, 3}, {96, 1000}, {1000, 70}};

TEST(Bfloat16Layouts, Transposes) {
  for (const auto& [rows, columns] : kSizes) {
    const Tensor x = matrix(rows, columns, DType::bfloat16);
    EXPECT_EQ(transposed_bfloat16(x).to_vector<float>(), x.transpose(0, 1).contiguous().to_vector<float>())
        << rows << " x " << columns;
  }
}

TEST(Bfloat16Layouts, TransposesRowsThatLieApart) {
  const Tensor wide = matrix(50, 90, DType::bfloat16), x = wide.slice(1, 5, 75);
  EXPECT_EQ(transposed_bfloat16(x).to_vector<float>(), x.transpose(0, 1).contiguous().to_vector<float>());
}

// By the layout's definition, element by element.
void check_panels(const Tensor& b) {
  const std::int64_t rows = b.shape()[0], columns = b.shape()[1];
  const std::int64_t all_rows = (rows + kPanelRows - 1) / kPanelRows * kPanelRows;
  const std::int64_t panels = (columns + kPanelColumns - 1) / kPanelColumns;
  const Tensor rounded = b.to(DType::bfloat16).contiguous();
  std::vector<bfloat16> packed(static_cast<std::size_t>(all_rows * panels * kPanelColumns) + 1);
  for (bfloat16& element : packed) element.bits = 0x1234;
  pack_panels(b, packed.data());
  for (std::int64_t panel = 0; panel < panels; ++panel)
    for (std::int64_t i = 0; i < all_rows; ++i)
      for (std::int64_t j = 0; j < kPanelColumns; ++j) {
        const std::int64_t column = panel * kPanelColumns + j;
        const std::int64_t at = ((panel * all_rows + i / 2 * 2) * kPanelColumns) + 2 * j + i % 2;
        const bool inside = i < rows && column < columns;
        ASSERT_EQ(packed[static_cast<std::size_t>(at)].bits,
                  inside ? rounded.data<bfloat16>()[i * columns + column].bits : 0)
            << rows << " x " << columns << " at " << i << ", " << column;
      }
  EXPECT_EQ(packed.back().bits, 0x1234) << "wrote beyond the end";
}

TEST(Bfloat16Layouts, PanelsFromRows) {
  for (const DType dtype : {DType::float32, DType::bfloat16})
    for (const auto& [rows, columns] : kSizes) check_panels(matrix(rows, columns, dtype));
}

TEST(Bfloat16Layouts, PanelsFromColumns) {
  for (const DType dtype : {DType::float32, DType::bfloat16})
    for (const auto& [rows, columns] : kSizes) check_panels(matrix(columns, rows, dtype).transpose(0, 1));
}

TEST(Bfloat16Layouts, PanelsOfPartOfAMatrix) {
  const Tensor wide = matrix(100, 200, DType::float32);
  check_panels(wide.slice(1, 3, 150));
  check_panels(wide.slice(1, 3, 150).transpose(0, 1));
  check_panels(wide.slice(0, 0, 100, 2).slice(1, 7, 8));  // one column, its elements apart
  check_panels(wide.slice(1, 0, 200, 3).slice(0, 5, 6).transpose(0, 1));
}

}  // namespace
}  // namespace tandem::core::cpu
