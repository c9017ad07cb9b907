// Tests gathers and scatters against index arithmetic.
//
// SPDX-License-Identifier: Apache-2.0
#include "test/passes/Codegen/KernelHarness.h"

#include <gtest/gtest.h>

namespace mpc::test {
namespace {

class Indexed : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Targets, Indexed,
                         testing::ValuesIn(runnableTargets()));

// Rows of whole vectors and a remainder. Indices count from both ends, and some
// name no row.
constexpr int64_t kRows = 11, kColumns = 37;
const std::vector<int64_t> kIndices = {3, -1, 0, 10, -11, 3, 11, -12, 7};

int64_t rowOf(int64_t index) { return index < 0 ? index + kRows : index; }
bool namesRow(int64_t index) { return index >= -kRows && index < kRows; }

TEST_P(Indexed, GathersRowsAndZerosWhereThereIsNone) {
  CompiledKernel kernel(R"(
    func.func private @kernel(%table: tensor<11x37xf32>, %ids: tensor<9xi64>, %x: tensor<9x37xf32>) -> tensor<9x37xf32>
        attributes {mpc.kernel = #mpc.kernel<pointwise>} {
      %0 = mpc.gather %table, %ids {axis = 0 : i64} : (tensor<11x37xf32>, tensor<9xi64>) -> tensor<9x37xf32>
      %1 = mpc.sub %0, %x : (tensor<9x37xf32>, tensor<9x37xf32>) -> tensor<9x37xf32>
      return %1 : tensor<9x37xf32>
    })",
                        GetParam());
  ASSERT_EQ(kernel.getError(), "");
  std::vector<float> table = randomFloats(kRows * kColumns);
  std::vector<float> x = randomFloats(kIndices.size() * kColumns), y(x.size());
  std::vector<int64_t> ids = kIndices;
  kernel.launch({table.data(), ids.data(), x.data(), y.data()});
  for (size_t i = 0; i < ids.size(); ++i)
    for (int64_t column = 0; column < kColumns; ++column) {
      size_t at = i * kColumns + column;
      float row =
          namesRow(ids[i]) ? table[rowOf(ids[i]) * kColumns + column] : 0.0f;
      EXPECT_EQ(y[at], row - x[at]) << i << " " << column;
    }
}

TEST_P(Indexed, GathersAnElementPerLane) {
  CompiledKernel kernel(R"(
    func.func private @kernel(%table: tensor<5x11xbf16>, %ids: tensor<5x37xi32>) -> tensor<5x37xf32>
        attributes {mpc.kernel = #mpc.kernel<pointwise>} {
      %0 = mpc.gather_elements %table, %ids {axis = 1 : i64} : (tensor<5x11xbf16>, tensor<5x37xi32>) -> tensor<5x37xf32>
      return %0 : tensor<5x37xf32>
    })",
                        GetParam());
  ASSERT_EQ(kernel.getError(), "");
  std::vector<uint16_t> table;
  for (float value : randomFloats(5 * 11))
    table.push_back(toBF16(value));
  std::vector<int32_t> ids(5 * 37);
  for (size_t i = 0; i < ids.size(); ++i)
    ids[i] = static_cast<int32_t>(i * 7 % 24) - 12;
  std::vector<float> y(ids.size());
  kernel.launch({table.data(), ids.data(), y.data()});
  for (size_t i = 0; i < ids.size(); ++i)
    EXPECT_EQ(y[i], namesRow(ids[i])
                        ? fromBF16(table[i / 37 * 11 + rowOf(ids[i])])
                        : 0.0f)
        << i;
}

TEST_P(Indexed, GathersBeforeItReduces) {
  CompiledKernel kernel(R"(
    func.func private @kernel(%table: tensor<11x37xf32>, %ids: tensor<9xi64>) -> tensor<9x1xf32>
        attributes {mpc.kernel = #mpc.kernel<row_reduce>} {
      %0 = mpc.gather %table, %ids {axis = 0 : i64} : (tensor<11x37xf32>, tensor<9xi64>) -> tensor<9x37xf32>
      %1 = mpc.reduce_max %0 {axes = array<i64: 1>, keepdims = true} : (tensor<9x37xf32>) -> tensor<9x1xf32>
      return %1 : tensor<9x1xf32>
    })",
                        GetParam());
  ASSERT_EQ(kernel.getError(), "");
  std::vector<float> table = randomFloats(kRows * kColumns), y(9);
  std::vector<int64_t> ids = kIndices;
  kernel.launch({table.data(), ids.data(), y.data()});
  for (size_t i = 0; i < ids.size(); ++i) {
    auto row = table.begin() + rowOf(ids[i]) * kColumns;
    EXPECT_EQ(y[i],
              namesRow(ids[i]) ? *std::max_element(row, row + kColumns) : 0.0f);
  }
}

// Additions follow the order of the updates, so that the bits are the same in
// any order of slices.
TEST_P(Indexed, AddsUpdatesInTheirOrder) {
  CompiledKernel kernel(R"(
    func.func private @kernel(%data: tensor<11x37xf32>, %ids: tensor<9xi64>, %u: tensor<9x37xf32>, %v: tensor<9x37xf32>) -> tensor<11x37xf32>
        attributes {mpc.kernel = #mpc.kernel<scatter>} {
      %0 = mpc.mul %u, %v : (tensor<9x37xf32>, tensor<9x37xf32>) -> tensor<9x37xf32>
      %1 = mpc.scatter %data, %ids, %0 {axis = 0 : i64, reduction = #mpc.scatter<add>}
          : (tensor<11x37xf32>, tensor<9xi64>, tensor<9x37xf32>) -> tensor<11x37xf32>
      return %1 : tensor<11x37xf32>
    })",
                        GetParam());
  ASSERT_EQ(kernel.getError(), "");
  std::vector<float> data = randomFloats(kRows * kColumns);
  std::vector<float> u = randomFloats(9 * kColumns),
                     v = randomFloats(9 * kColumns, -3, 1);
  std::vector<int64_t> ids = kIndices;
  std::vector<float> expected = data;
  for (size_t i = 0; i < u.size(); ++i)
    if (int64_t id = ids[i / kColumns]; namesRow(id)) {
      float product = u[i] * v[i];
      expected[rowOf(id) * kColumns + i % kColumns] += product;
    }
  for (bool backwards : {false, true}) {
    std::vector<float> y(data.size());
    kernel.launch({data.data(), ids.data(), u.data(), v.data(), y.data()},
                  backwards);
    EXPECT_EQ(y, expected);
  }
}

// More updates than a block lists at once. Most go to one row, with others in
// between. Rows have several axes, and updates are broadcast along one.
TEST_P(Indexed, AddsManyUpdatesInTheirOrder) {
  CompiledKernel kernel(R"(
    func.func private @kernel(%data: tensor<2100x3x8xf32>, %ids: tensor<25x101xi32>, %u: tensor<25x101x3x8xbf16>, %v: tensor<8xf32>, %w: tensor<25x101x3x1xf32>) -> tensor<2100x3x8xf32>
        attributes {mpc.kernel = #mpc.kernel<scatter>} {
      %0 = mpc.mul %u, %v : (tensor<25x101x3x8xbf16>, tensor<8xf32>) -> tensor<25x101x3x8xf32>
      %1 = mpc.mul %0, %w : (tensor<25x101x3x8xf32>, tensor<25x101x3x1xf32>) -> tensor<25x101x3x8xf32>
      %2 = mpc.scatter %data, %ids, %1 {axis = 0 : i64, reduction = #mpc.scatter<add>}
          : (tensor<2100x3x8xf32>, tensor<25x101xi32>, tensor<25x101x3x8xf32>) -> tensor<2100x3x8xf32>
      return %2 : tensor<2100x3x8xf32>
    })",
                        GetParam());
  ASSERT_EQ(kernel.getError(), "");
  constexpr size_t updates = 25 * 101, row = 3 * 8;
  std::vector<float> data = randomFloats(2100 * row), v = randomFloats(8),
                     w = randomFloats(updates * 3);
  std::vector<uint16_t> u;
  for (float value : randomFloats(updates * row))
    u.push_back(toBF16(value));
  std::vector<int32_t> ids(updates);
  for (size_t i = 0; i < updates; ++i)
    ids[i] = i % 5 ? 1234 : static_cast<int32_t>(i * 7919 % 4400) - 2200;
  std::vector<float> expected = data;
  for (size_t i = 0; i < updates * row; ++i) {
    int64_t id = ids[i / row] < 0 ? ids[i / row] + 2100 : ids[i / row];
    float product = fromBF16(u[i]) * v[i % 8];
    product *= w[i / 8];
    if (id >= 0 && id < 2100)
      expected[id * row + i % row] += product;
  }
  for (bool backwards : {false, true}) {
    std::vector<float> y(data.size());
    kernel.launch(
        {data.data(), ids.data(), u.data(), v.data(), w.data(), y.data()},
        backwards);
    EXPECT_EQ(y, expected);
  }
}

// With zero updates, no code reads their memory.
TEST_P(Indexed, AddsNoUpdates) {
  CompiledKernel kernel(R"(
    func.func private @kernel(%data: tensor<4x8xf32>, %ids: tensor<0xi64>, %u: tensor<0x8xf32>) -> tensor<4x8xf32>
        attributes {mpc.kernel = #mpc.kernel<scatter>} {
      %0 = mpc.scatter %data, %ids, %u {axis = 0 : i64, reduction = #mpc.scatter<add>}
          : (tensor<4x8xf32>, tensor<0xi64>, tensor<0x8xf32>) -> tensor<4x8xf32>
      return %0 : tensor<4x8xf32>
    })",
                        GetParam());
  ASSERT_EQ(kernel.getError(), "");
  std::vector<float> data = randomFloats(4 * 8), u = randomFloats(8), y(32);
  std::vector<int64_t> ids = {2};
  kernel.launch({data.data(), ids.data(), u.data(), y.data()});
  EXPECT_EQ(y, data);
}

// The last of many updates stays. Rows are too short for a vector.
TEST_P(Indexed, KeepsTheLastOfManyUpdates) {
  CompiledKernel kernel(R"(
    func.func private @kernel(%data: tensor<40x3xi32>, %ids: tensor<3000xi64>, %u: tensor<3000x3xi32>) -> tensor<40x3xi32>
        attributes {mpc.kernel = #mpc.kernel<scatter>} {
      %0 = mpc.scatter %data, %ids, %u {axis = 0 : i64, reduction = #mpc.scatter<none>}
          : (tensor<40x3xi32>, tensor<3000xi64>, tensor<3000x3xi32>) -> tensor<40x3xi32>
      return %0 : tensor<40x3xi32>
    })",
                        GetParam());
  ASSERT_EQ(kernel.getError(), "");
  std::vector<int32_t> data(40 * 3, -5), u(3000 * 3), y(data.size());
  std::vector<int64_t> ids(3000);
  std::vector<int32_t> expected = data;
  for (size_t i = 0; i < u.size(); ++i) {
    ids[i / 3] = static_cast<int64_t>(i / 3) * 17 % 41;
    u[i] = static_cast<int32_t>(i);
    if (ids[i / 3] < 40)
      expected[ids[i / 3] * 3 + i % 3] = u[i];
  }
  kernel.launch({data.data(), ids.data(), u.data(), y.data()});
  EXPECT_EQ(y, expected);
}

// Unique updates overwrite the data. Other rows, and updates that name no row,
// change nothing.
TEST_P(Indexed, WritesUniqueUpdatesInPlace) {
  CompiledKernel kernel(R"(
    func.func private @kernel(%data: tensor<5000x37xf32>, %ids: tensor<900xi64>, %u: tensor<900x37xf32>) -> tensor<5000x37xf32>
        attributes {mpc.kernel = #mpc.kernel<scatter>} {
      %0 = mpc.neg %u : (tensor<900x37xf32>) -> tensor<900x37xf32>
      %1 = mpc.scatter %data, %ids, %0 {axis = 0 : i64, reduction = #mpc.scatter<none>, unique_indices = true}
          : (tensor<5000x37xf32>, tensor<900xi64>, tensor<900x37xf32>) -> tensor<5000x37xf32>
      return %1 : tensor<5000x37xf32>
    })",
                        GetParam());
  ASSERT_EQ(kernel.getError(), "");
  EXPECT_EQ(kernel.getPartition().extent, 900);
  EXPECT_LT(kernel.getPartition().grain, 900);
  std::vector<float> data = randomFloats(5000 * 37), u = randomFloats(900 * 37);
  std::vector<float> expected = data;
  std::vector<int64_t> ids(900);
  for (int64_t i = 0; i < 900; ++i)
    ids[i] = i % 9 == 4 ? 5000 : i % 2 ? 5 * i : 5 * i - 5000;
  for (size_t i = 0; i < u.size(); ++i)
    if (int64_t id = ids[i / 37]; id < 5000)
      expected[(id < 0 ? id + 5000 : id) * 37 + i % 37] = -u[i];
  kernel.launch({data.data(), ids.data(), u.data(), data.data()});
  EXPECT_EQ(data, expected);
}

// Rows lie within an outer axis, so that slices begin and end inside an element
// of it.
TEST_P(Indexed, ScattersAlongAMiddleAxisFromZeros) {
  CompiledKernel kernel(R"(
    func.func private @kernel(%ids: tensor<3x6xi64>, %u: tensor<3x6x5xf32>) -> tensor<3x4100x5xf32>
        attributes {mpc.kernel = #mpc.kernel<scatter>} {
      %zero = mpc.constant dense<0.0> : tensor<3x4100x5xf32>
      %0 = mpc.scatter %zero, %ids, %u {axis = 1 : i64, batch_dims = 1 : i64, reduction = #mpc.scatter<max>}
          : (tensor<3x4100x5xf32>, tensor<3x6xi64>, tensor<3x6x5xf32>) -> tensor<3x4100x5xf32>
      return %0 : tensor<3x4100x5xf32>
    })",
                        GetParam());
  ASSERT_EQ(kernel.getError(), "");
  EXPECT_LT(kernel.getPartition().grain, kernel.getPartition().extent);
  std::vector<int64_t> ids(3 * 6);
  for (size_t i = 0; i < ids.size(); ++i)
    ids[i] = (static_cast<int64_t>(i) * 1733) % 9000 - 4100;
  std::vector<float> u = randomFloats(3 * 6 * 5), y(3 * 4100 * 5, -1);
  std::vector<float> expected(y.size());
  for (size_t i = 0; i < u.size(); ++i) {
    int64_t id = ids[i / 5];
    if (id < 0)
      id += 4100;
    if (id >= 0 && id < 4100) {
      float &to = expected[(i / 30 * 4100 + id) * 5 + i % 5];
      to = std::max(to, u[i]);
    }
  }
  kernel.launch({ids.data(), u.data(), y.data()});
  EXPECT_EQ(y, expected);
}

// Every update has its own index. Covers integers.
TEST_P(Indexed, ScattersElementsOfIntegers) {
  CompiledKernel kernel(R"(
    func.func private @kernel(%data: tensor<11x7xi64>, %ids: tensor<9x7xi64>, %u: tensor<9x7xi64>) -> tensor<11x7xi64>
        attributes {mpc.kernel = #mpc.kernel<scatter>} {
      %0 = mpc.scatter_elements %data, %ids, %u {axis = 0 : i64, reduction = #mpc.scatter<none>}
          : (tensor<11x7xi64>, tensor<9x7xi64>, tensor<9x7xi64>) -> tensor<11x7xi64>
      return %0 : tensor<11x7xi64>
    })",
                        GetParam());
  ASSERT_EQ(kernel.getError(), "");
  std::vector<int64_t> data(11 * 7, -5), ids(9 * 7), u(9 * 7), y(data.size());
  for (size_t i = 0; i < ids.size(); ++i) {
    ids[i] = kIndices[(i * 5) % kIndices.size()];
    u[i] = static_cast<int64_t>(i) << 33;
  }
  std::vector<int64_t> expected = data;
  for (size_t i = 0; i < u.size(); ++i)
    if (namesRow(ids[i]))
      expected[rowOf(ids[i]) * 7 + i % 7] = u[i];
  kernel.launch({data.data(), ids.data(), u.data(), y.data()});
  EXPECT_EQ(y, expected);
}

} // namespace
} // namespace mpc::test
