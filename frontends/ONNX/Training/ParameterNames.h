// Uses the names of initializers as evidence, in files without metadata.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_TRAINING_PARAMETERNAMES_H
#define MPC_FRONTENDS_ONNX_TRAINING_PARAMETERNAMES_H

#include "frontends/ONNX/Model/Model.h"

namespace mpc::onnx_frontend {

/// True for names that a tool made up, like "val_12", "onnx::Mul_57",
/// "Constant_3", "/head/Mul_output_0" or "31".
bool isNumbered(llvm::StringRef name);

/// True for dotted names that modules give their tensors, like
/// "layers.0.scale".
bool isModulesName(llvm::StringRef name);

/// True if the last part of a name is typical of buffers, as in
/// "norm.running_mean" and "rotary.inv_freq".
bool isNamedAsBuffer(llvm::StringRef name);

/// True for a table of sines and cosines of positions: all elements lie between
/// -1 and 1, and the first row has zeros and ones only.
bool holdsSinusoids(const Model &model, const proto::TensorProto &tensor);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_TRAINING_PARAMETERNAMES_H
