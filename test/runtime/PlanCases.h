// Valid plans, and the parser's messages if one value is wrong.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TEST_RUNTIME_PLANCASES_H
#define MPC_TEST_RUNTIME_PLANCASES_H

#include "test/runtime/ArtifactBuilder.h"

#include <gtest/gtest.h>

namespace mpc::runtime::test {

/// A plan with every kind of step, buffer and kernel.
ArtifactBuilder fullPlan();

/// A GPU's plan with the same steps.
ArtifactBuilder gpuPlan();

/// Returns the parser's status for the plan.
Status check(const ArtifactBuilder &builder);

/// Returns the message for `builder` with the value at a JSON pointer replaced.
std::string refusal(ArtifactBuilder builder, const std::string &pointer,
                    const Json &value);

inline const std::string kStep = "/functions/step";
inline const std::string kFused = "/functions/fused/steps/0";

} // namespace mpc::runtime::test

#define EXPECT_REFUSED_IN(plan, pointer, value, expected)                      \
  EXPECT_NE(refusal(plan, pointer, value).find(expected), std::string::npos)   \
      << refusal(plan, pointer, value)
#define EXPECT_REFUSED(pointer, value, expected)                               \
  EXPECT_REFUSED_IN(fullPlan(), pointer, value, expected)
#define EXPECT_GPU_REFUSED(pointer, value, expected)                           \
  EXPECT_REFUSED_IN(gpuPlan(), pointer, value, expected)

#endif // MPC_TEST_RUNTIME_PLANCASES_H
