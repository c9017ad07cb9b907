// Helpers of contraction tests: random operands, and the error bound of a
// result against the float64 reference.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TEST_RUNTIME_CPU_REFERENCE_H
#define MPC_TEST_RUNTIME_CPU_REFERENCE_H

#include "runtime/Session.h"
#include "test/runtime/ArtifactBuilder.h"

#include <cmath>
#include <gtest/gtest.h>

namespace mpc::runtime::test {

/// Values in (-1, 1), rounded to `type`.
Tensor randomTensor(DType type, const Shape &shape, unsigned seed);

inline std::vector<double> toDoubles(const Tensor &tensor) {
  Tensor wide = *convert(tensor, DType::F64);
  return {wide.as<double>(), wide.as<double>() + wide.size()};
}

/// Half a unit in the last place, relative.
inline double unitRoundoff(DType type) {
  return type == DType::BF16 ? 0x1p-8 : type == DType::F16 ? 0x1p-11 : 0x1p-24;
}

/// A sum of products: the value, and the sum of magnitudes, which bounds the
/// rounding errors of any order of summation.
struct DotProduct {
  double value = 0, magnitude = 0;
  int64_t terms = 0;

  void add(double a, double b) {
    value += a * b;
    magnitude += std::fabs(a * b);
    ++terms;
  }
  /// The largest error of a result that was accumulated in fp32 and then
  /// rounded to `type`.
  double bound(DType type) const {
    double accumulated = static_cast<double>(terms + 3) * 0x1p-24 * magnitude;
    return accumulated + unitRoundoff(type) * (std::fabs(value) + accumulated) +
           1e-30;
  }
};

inline void expectClose(const Tensor &result,
                        const std::vector<DotProduct> &expected) {
  std::vector<double> values = toDoubles(result);
  ASSERT_EQ(values.size(), expected.size());
  for (size_t i = 0; i < values.size(); ++i)
    ASSERT_NEAR(values[i], expected[i].value, expected[i].bound(result.type))
        << "element " << i;
}

/// Runs `function` once on `threads` threads and returns `output`.
inline Tensor runOnce(const std::shared_ptr<const Artifact> &artifact,
                      const std::string &output, int threads) {
  SessionOptions options;
  options.threads = threads;
  auto session = Session::create(artifact, options);
  EXPECT_TRUE(session.ok()) << session.status().message();
  if (!session.ok())
    return {};
  // A second run shows effects that a first run leaves behind.
  for (int i = 0; i < 2; ++i) {
    Status status = (*session)->run("step");
    EXPECT_TRUE(status.ok()) << status.message();
  }
  auto result = (*session)->output("step", output);
  EXPECT_TRUE(result.ok()) << result.status().message();
  return result.ok() ? *result : Tensor();
}

/// Runs on 1, 2 and 3 threads, expects equal bits, and returns the result.
inline Tensor runOnThreads(const ArtifactBuilder &builder,
                           const std::string &output) {
  std::shared_ptr<const Artifact> artifact = builder.open();
  Tensor result = runOnce(artifact, output, 1);
  for (int threads : {2, 3})
    EXPECT_EQ(runOnce(artifact, output, threads).bytes, result.bytes)
        << threads << " threads give other bits than one";
  return result;
}

} // namespace mpc::runtime::test

#endif // MPC_TEST_RUNTIME_CPU_REFERENCE_H
