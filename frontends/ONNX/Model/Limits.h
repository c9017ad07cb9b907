// Limits on what untrusted files may declare. Readers of files check these
// limits, so that later code needs no checks.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_MODEL_LIMITS_H
#define MPC_FRONTENDS_ONNX_MODEL_LIMITS_H

#include <cstdint>

namespace mpc::onnx_frontend {

/// The largest rank of a tensor, the same as for array files.
inline constexpr int64_t kMostDimensions = 32;

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_MODEL_LIMITS_H
