// Tests transposition: elements at the ends of squares and blocks, and no
// writes beside the result.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/Transpose.h"

#include <gtest/gtest.h>
#include <vector>

using namespace mpc::runtime;

namespace {

template <typename T>
void expectTurned(int64_t rows, int64_t columns) {
  SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(columns));
  // The rows of both matrices have gaps between them.
  const int64_t from = columns + 3, to = rows + 5;
  constexpr T kUntouched = 0xabcd;
  std::vector<T> source(size_t(rows * from));
  for (size_t i = 0; i < source.size(); ++i)
    source[i] = static_cast<T>(i * 7);
  std::vector<T> result(size_t(columns * to), kUntouched);
  transpose(source.data(), from, result.data(), to, rows, columns);
  for (int64_t column = 0; column < columns; ++column)
    for (int64_t row = 0; row < to; ++row) {
      const T expected =
          row < rows ? source[size_t(row * from + column)] : kUntouched;
      ASSERT_EQ(result[size_t(column * to + row)], expected)
          << column << ", " << row;
    }
}

TEST(Transpose, TurnsMatricesOfAnySize) {
  for (int64_t rows : {1, 7, 8, 33, 72})
    for (int64_t columns : {1, 5, 16, 31, 64}) {
      expectTurned<uint16_t>(rows, columns);
      expectTurned<uint32_t>(rows, columns);
    }
}

} // namespace
