// Tests that bytes of a calling program become arrays of samples.
//
// SPDX-License-Identifier: Apache-2.0
#include "test/runtime/train/Support.h"

#include "runtime/train/data/InputBytes.h"

namespace mpc::runtime::train {
namespace {

/// Inputs of a model whose samples lie along different axes: x [2, batch, 3],
/// an edge list without samples, and labels that are the array of x.
FunctionPorts makePorts() {
  FunctionPorts ports;
  ports.inputs = {{"x", Role::Data, DType::F32, {2, 4, 3}, {}, 1},
                  {"edges", Role::Data, DType::I64, {5}, {}, -1},
                  {"x.target", Role::Label, DType::F32, {4, 3}},
                  {"learning_rate", Role::Scalar, DType::F32, {}}};
  return ports;
}

class InputBytesTest : public testing::Test {
protected:
  std::vector<float> x = std::vector<float>(2 * 2 * 3);
  std::vector<int64_t> edges = std::vector<int64_t>(5);
  const FunctionPorts ports = makePorts();
  InputBytes samples{"x", x.data(), x.size() * sizeof(float)};
  InputBytes places{"edges", edges.data(), edges.size() * sizeof(int64_t)};
};

TEST_F(InputBytesTest, CountsSamplesAlongTheirAxis) {
  const auto arrays = toArrays({places, samples}, ports);
  ASSERT_TRUE(arrays.ok()) << arrays.status().message();
  ASSERT_EQ(arrays->size(), 2u);
  EXPECT_EQ((*arrays)[0].shape, Shape{5});
  EXPECT_EQ((*arrays)[0].type, ElementType::I64);
  EXPECT_EQ((*arrays)[1].shape, (Shape{2, 2, 3}));
  EXPECT_EQ((*arrays)[1].data, static_cast<const void *>(x.data()));
}

TEST_F(InputBytesTest, RefusesWhatFitsNoInput) {
  const auto refuse = [&](const std::vector<InputBytes> &given, StatusCode code,
                          const char *text) {
    expectFailure(toArrays(given, ports).status(), code, text);
  };
  refuse({samples}, StatusCode::Usage,
         "'edges' has no samples, expected 'x', "
         "'edges'");
  refuse({samples, places, {"x.target", x.data(), 4}}, StatusCode::Usage,
         "no input of samples is called 'x.target'");
  refuse({samples, places, {"learning_rate", x.data(), 4}}, StatusCode::Usage,
         "'learning_rate'");
  refuse({samples, places, places}, StatusCode::Usage, "given twice");
  places.size = 8;
  refuse({samples, places}, StatusCode::InvalidInput, "has 40 bytes, got 8");
  samples.size = 23;
  refuse({samples, places}, StatusCode::InvalidInput,
         "has 24 bytes a sample, as f32, expected a multiple, got 23");
}

TEST(CopySamples, CutsAlongAnyAxis) {
  const Array array = makeArray<float>("x", ElementType::F32, {2, 3, 2},
                                       {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
  const auto copy = [&](int64_t axis, int64_t begin, int64_t end) {
    const Array part = copySamples(array, axis, begin, end);
    const auto *values = reinterpret_cast<const float *>(part.data);
    EXPECT_NE(part.data, array.data);
    return std::pair(part.shape,
                     std::vector<float>(values, values + part.size()));
  };
  using Part = std::pair<Shape, std::vector<float>>;
  EXPECT_EQ(copy(1, 1, 3), Part({2, 2, 2}, {2, 3, 4, 5, 8, 9, 10, 11}));
  EXPECT_EQ(copy(0, 1, 2), Part({1, 3, 2}, {6, 7, 8, 9, 10, 11}));
  EXPECT_EQ(copy(2, 0, 1), Part({2, 3, 1}, {0, 2, 4, 6, 8, 10}));
  EXPECT_EQ(copy(1, 1, 1), Part({2, 0, 2}, {}));
  EXPECT_EQ(copy(-1, 0, 1).second.size(), 12u);
}

} // namespace
} // namespace mpc::runtime::train
