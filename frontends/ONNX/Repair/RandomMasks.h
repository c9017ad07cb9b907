// Replaces random masks that a program computes without Dropout.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_REPAIR_RANDOMMASKS_H
#define MPC_FRONTENDS_ONNX_REPAIR_RANDOMMASKS_H

#include "frontends/ONNX/Model/Model.h"

namespace mpc::onnx_frontend {

/// Finds results that a random number with constant probability p chooses from
/// two multiples of x:
///   - 0 or x / p: DropPath, Dropout2d;
///   - 0 or x for whole samples: DropPath without a scale;
///   - two values that keep the mean and variance of a normal x: AlphaDropout;
///   - DropBlock, x * (1 - max_pool(mask)).
/// Replaces each mask by a Dropout of ones. Training computes the same; where
/// Dropout does nothing, the result is x, and the mask of a DropBlock is 0.
/// Searches bodies and functions too. Masks with other readers stay. Returns a
/// note of the changes; empty if there are none.
std::string replaceRandomMasks(Model &model);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_REPAIR_RANDOMMASKS_H
