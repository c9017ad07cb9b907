// Bounds on what a file may declare, so that nothing behind them needs one.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_MODEL_LIMITS_H
#define MPC_FRONTENDS_ONNX_MODEL_LIMITS_H

#include <cstdint>

namespace mpc::onnx_frontend {

/// As many as files of arrays may have.
inline constexpr int64_t kMostDimensions = 32;

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_MODEL_LIMITS_H
