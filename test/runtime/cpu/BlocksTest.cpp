// Every element of a block lies where its order says.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/Blocks.h"
#include "runtime/cpu/CPUFeatures.h"

#include <gtest/gtest.h>
#include <vector>

using namespace mpc::runtime;

namespace {

int64_t placeOf(BlockOrder order, int64_t row, int64_t column) {
  switch (order) {
  case BlockOrder::Turned:
    return column * 32 + row;
  case BlockOrder::PairedRows:
    return (row / 2 * 32 + column) * 2 + row % 2;
  case BlockOrder::PairedColumns:
    return (column / 2 * 32 + row) * 2 + column % 2;
  }
  return -1;
}

TEST(Blocks, EveryOrderFromRowsFarApart) {
  if (!hostHasAVX512())
    GTEST_SKIP() << "the CPU has no AVX-512";
  constexpr int64_t kLeading = 37;
  std::vector<uint16_t> source(32 * kLeading), result(1024);
  for (size_t i = 0; i < source.size(); ++i)
    source[i] = static_cast<uint16_t>(i);
  for (BlockOrder order : {BlockOrder::Turned, BlockOrder::PairedRows,
                           BlockOrder::PairedColumns}) {
    packBlock(order, source.data(), kLeading, result.data());
    for (int64_t row = 0; row < 32; ++row)
      for (int64_t column = 0; column < 32; ++column)
        ASSERT_EQ(result[size_t(placeOf(order, row, column))],
                  source[size_t(row * kLeading + column)])
            << static_cast<int>(order) << ": " << row << ", " << column;
  }
}

} // namespace
