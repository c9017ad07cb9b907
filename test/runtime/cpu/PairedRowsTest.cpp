// Tests the paired order of elements, from matrices stored in rows or in
// columns. Padding of blocks is zero.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/PairedRows.h"
#include "runtime/cpu/onednn/OneDNNProvider.h"
#include "runtime/cpu/onednn/SlicedReorder.h"
#include "test/runtime/ArtifactBuilder.h"

#include <gtest/gtest.h>
#include <vector>

using namespace mpc::runtime;

namespace {

/// The position of an element by the definition of the order.
size_t placeOf(const PairedLayout &layout, int64_t row, int64_t column) {
  const int64_t block = column / layout.width * layout.rowBlocks() + row / 32;
  const int64_t pair = row % 32 / 2;
  return size_t(block * layout.blockElements() + pair * 2 * layout.width +
                column % layout.width * 2 + row % 2);
}

// Different normal positive bf16 numbers. Without instructions for bf16 the
// library reorders through f32 and may flush subnormals to zero.
std::vector<uint16_t> numbered(int64_t count) {
  constexpr size_t kSmallest = 0x0080, kNumbers = 0x7f80 - kSmallest;
  std::vector<uint16_t> result(static_cast<size_t>(count));
  for (size_t i = 0; i < result.size(); ++i)
    result[i] = static_cast<uint16_t>(kSmallest + i * 7 % kNumbers);
  return result;
}

void expectPaired(PairedLayout layout, bool inColumns) {
  SCOPED_TRACE(std::to_string(layout.rows) + " x " +
               std::to_string(layout.columns) + " in blocks of " +
               std::to_string(layout.width) +
               (inColumns ? ", in columns" : ", in rows"));
  // Rows, or columns, have gaps between them.
  const int64_t leading = (inColumns ? layout.rows : layout.columns) + 3;
  const std::vector<uint16_t> stored =
      numbered(leading * (inColumns ? layout.columns : layout.rows));
  const StoredMatrix source{stored.data(), leading, inColumns};
  constexpr uint16_t kUntouched = 0xabcd;
  std::vector<uint16_t> result(
      size_t(layout.rowBlocks() * layout.columnBlocks() *
             layout.blockElements()),
      kUntouched);

  // Two parts, the later first.
  const int64_t middle = layout.rowBlocks() / 2;
  pairRows(source, layout, middle, layout.rowBlocks(), result.data());
  pairRows(source, layout, 0, middle, result.data());
  for (int64_t row = 0; row < layout.rowBlocks() * 32; ++row)
    for (int64_t column = 0; column < layout.columnBlocks() * layout.width;
         ++column) {
      const bool inside = row < layout.rows && column < layout.columns;
      ASSERT_EQ(result[placeOf(layout, row, column)],
                inside ? *source.at(row, column) : 0)
          << row << ", " << column;
    }
}

TEST(PairedRows, PacksMatricesOfAnySize) {
  for (int64_t rows : {1, 2, 31, 32, 77, 96})
    for (int64_t columns : {1, 3, 16, 50, 64, 130})
      for (int64_t width : {16, 48, 64})
        for (bool inColumns : {false, true})
          expectPaired({rows, columns, width}, inColumns);
}

/// The library's name for the order, and its own reorder, agree with ours.
TEST(PairedRows, AreWhatTheLibraryReads) {
  // The library's first use fixes its instruction set for the process.
  ASSERT_TRUE(OneDNNProvider::create(test::testFeatures()).ok());
  using dnnl::memory;
  constexpr int64_t kRows = 70, kColumns = 90;
  const memory::desc to({kRows, kColumns}, memory::data_type::bf16,
                        memory::format_tag::BA16a64b2a);
  for (bool inColumns : {false, true}) {
    const memory::desc from({kRows, kColumns}, memory::data_type::bf16,
                            inColumns ? memory::format_tag::ba
                                      : memory::format_tag::ab);
    const std::optional<PairedLayout> layout = findPairedLayout(from, to);
    ASSERT_TRUE(layout);
    std::vector<uint16_t> stored = numbered(kRows * kColumns);
    std::vector<uint16_t> expected(to.get_size() / 2), result(expected.size());
    dnnl::stream stream(dnnlEngine());
    memory source(from, dnnlEngine(), stored.data());
    memory target(to, dnnlEngine(), expected.data());
    dnnl::reorder(source, target).execute(stream, source, target);
    stream.wait();
    pairRows({stored.data(), inColumns ? kRows : kColumns, inColumns}, *layout,
             0, layout->rowBlocks(), result.data());
    EXPECT_EQ(result, expected);
  }
}

TEST(PairedRows, OtherOrdersAreTheLibrarys) {
  using dnnl::memory;
  const memory::desc rows({64, 64}, memory::data_type::bf16,
                          memory::format_tag::ab);
  const memory::desc floats({64, 64}, memory::data_type::f32,
                            memory::format_tag::ab);
  auto order = [](memory::data_type type, memory::format_tag tag) {
    return memory::desc({64, 64}, type, tag);
  };
  EXPECT_FALSE(findPairedLayout(rows, rows));
  EXPECT_FALSE(findPairedLayout(
      rows, order(memory::data_type::bf16, memory::format_tag::BA16a16b)));
  EXPECT_FALSE(findPairedLayout(
      floats, order(memory::data_type::bf16, memory::format_tag::BA16a64b2a)));
  EXPECT_FALSE(findPairedLayout(
      floats, order(memory::data_type::f32, memory::format_tag::BA16a64b)));
}

} // namespace
