// Random masks that a program drops values with by itself, without a Dropout.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_REPAIR_RANDOMMASKS_H
#define MPC_FRONTENDS_ONNX_REPAIR_RANDOMMASKS_H

#include "frontends/ONNX/Model/Model.h"

namespace mpc::onnx_frontend {

/// Nodes that choose by random numbers, with a constant probability p, which of
/// two multiples of x a result is: 0 or x / p, as DropPath and Dropout2d; 0 or
/// x for whole samples, as DropPath without a scale; or what has the mean and
/// the variance of a normal x, as AlphaDropout. In place of the mask comes a
/// Dropout of ones, so that what the result is in training is as before, and x
/// where a Dropout does nothing. So for DropBlock, 1 - max_pool(mask), whose
/// mask is 0 then. Bodies and functions are looked at, too. Masks that anything
/// else reads stay. Returns what was done, as a note; empty where nothing was.
std::string replaceRandomMasks(Model &model);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_REPAIR_RANDOMMASKS_H
