// Builds an artifact whose optimizer is sharded, for tests.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TEST_RUNTIME_OWNEDPLAN_H
#define MPC_TEST_RUNTIME_OWNEDPLAN_H

#include "test/runtime/ArtifactBuilder.h"

namespace mpc::runtime::test {

/// The number of elements of each variable.
inline constexpr int64_t kOwnedSize = 4;

inline Json copyStep(size_t from, size_t to) {
  return {{"op", "copy"}, {"name", "copy"}, {"src", from}, {"dst", to}};
}

inline Json withOwner(Json step, size_t owner) {
  step["owner"] = owner;
  return step;
}

/// Returns an artifact with two parameters, v (state 0) and w (state 2), and
/// the moments v.m and w.m of their owners. `step` makes each moment the mean
/// of x over the ranks, each parameter the new moment, and gives all ranks the
/// parameters. `derive` makes v the moment v.m.
inline ArtifactBuilder ownedPlan() {
  ArtifactBuilder builder;
  const Shape shape = {kOwnedSize};
  builder.filledState("v", DType::F32, shape, 0);
  builder.filledState("v.m", DType::F32, shape, 5, "optimizer_state");
  builder.filledState("w", DType::F32, shape, 0);
  builder.filledState("w.m", DType::F32, shape, 6, "optimizer_state");
  builder.plan["state"][1]["owner"] = 0;
  builder.plan["state"][3]["owner"] = 2;
  FunctionBuilder step = builder.function("step");
  const size_t x = step.input("x", DType::F32, shape);
  const size_t a = step.arena(DType::F32, shape);
  const size_t b = step.arena(DType::F32, shape);
  const size_t v = step.state("v"), vm = step.state("v.m");
  const size_t w = step.state("w"), wm = step.state("w.m");
  step.step(copyStep(x, a));
  step.step(copyStep(x, b));
  step.step({{"op", "reduce_scatter"},
             {"kind", "mean"},
             {"parts",
              {{{"buffer", a}, {"owner", 0}}, {{"buffer", b}, {"owner", 2}}}}});
  step.step(withOwner(copyStep(a, vm), 0));
  step.step(withOwner(copyStep(vm, v), 0));
  step.step(withOwner(copyStep(b, wm), 2));
  step.step(withOwner(copyStep(wm, w), 2));
  step.step({{"op", "all_gather"},
             {"parts",
              {{{"buffer", v}, {"owner", 0}}, {{"buffer", w}, {"owner", 2}}}}});
  FunctionBuilder derive = builder.function("derive");
  const size_t from = derive.state("v.m"), to = derive.state("v");
  derive.step(withOwner(copyStep(from, to), 0));
  derive.step(
      {{"op", "all_gather"}, {"parts", {{{"buffer", to}, {"owner", 0}}}}});
  builder.describeKernels();
  return builder;
}

} // namespace mpc::runtime::test

#endif // MPC_TEST_RUNTIME_OWNEDPLAN_H
