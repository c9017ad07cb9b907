// Uses the names of initializers as evidence, in files without metadata.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_TRAINING_PARAMETERNAMES_H
#define MPC_FRONTENDS_ONNX_TRAINING_PARAMETERNAMES_H

#include "frontends/ONNX/Model/Model.h"

#include "llvm/ADT/STLFunctionalExtras.h"

namespace mpc::onnx_frontend {

/// True for names that a tool made up, like "val_12", "onnx::Mul_57",
/// "Constant_3", "/head/Mul_output_0" or "31".
bool isNumbered(llvm::StringRef name);

/// True for dotted names that modules give their tensors, like
/// "layers.0.scale".
bool isModulesName(llvm::StringRef name);

/// True for elements of a list in the outermost module, like "w.0" and "w.1" of
/// a ParameterList. Older tools also number plain values, like "w.1", but never
/// from 0. So `isStored` must be true for the first element, "w.0".
bool isListElement(llvm::StringRef name,
                   llvm::function_ref<bool(llvm::StringRef)> isStored);

/// True if the last part of a name is typical of buffers, as in
/// "norm.running_mean" and "rotary.inv_freq".
bool isNamedAsBuffer(llvm::StringRef name);

/// True for a table of sines and cosines of positions: all elements lie between
/// -1 and 1, and the first row has zeros and ones only.
bool holdsSinusoids(const Model &model, const proto::TensorProto &tensor);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_TRAINING_PARAMETERNAMES_H
