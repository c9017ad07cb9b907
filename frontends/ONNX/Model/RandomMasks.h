// Random masks that a program drops values with by itself, without a Dropout.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_MODEL_RANDOMMASKS_H
#define MPC_FRONTENDS_ONNX_MODEL_RANDOMMASKS_H

#include "frontends/ONNX/Model/Model.h"

namespace mpc::onnx_frontend {

/// Nodes that choose by random numbers, with a constant probability p, which of
/// two multiples of x a result is: 0 or x / p, as DropPath and Dropout2d, or
/// what has the mean and the variance of a normal x, as AlphaDropout. In place
/// of the mask comes a Dropout of ones, so that what the result is in training
/// is as before, and x where a Dropout does nothing. Masks that anything else
/// reads stay, and opsets before 12 have no Dropout that tells its mode.
/// Returns what was done, as a note; empty where nothing was.
std::string replaceRandomMasks(Model &model);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_MODEL_RANDOMMASKS_H
