// Names of initializers as evidence, in files that say nothing else of them.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_TRAINING_PARAMETERNAMES_H
#define MPC_FRONTENDS_ONNX_TRAINING_PARAMETERNAMES_H

#include "frontends/ONNX/Model/Model.h"

#include "llvm/ADT/STLFunctionalExtras.h"

namespace mpc::onnx_frontend {

/// True for names that a tool made up, such as "val_12", "onnx::Mul_57",
/// "Constant_3", "/head/Mul_output_0" or "31".
bool isNumbered(llvm::StringRef name);

/// True for the dotted names that modules give their tensors, such as
/// "layers.0.scale".
bool isModulesName(llvm::StringRef name);

/// True for the elements of a list of the outermost module, such as "w.0" and
/// "w.1" of a ParameterList. Older tools number values likewise, from 1 on:
/// `isStored` tells that there is a first element.
bool isListElement(llvm::StringRef name,
                   llvm::function_ref<bool(llvm::StringRef)> isStored);

/// True if the last part of a name is what modules call their buffers, as in
/// "norm.running_mean" and "rotary.inv_freq".
bool isNamedAsBuffer(llvm::StringRef name);

/// True if the rows are a mask, zeros and ones of which both occur, or hide
/// something by infinities; or if they are the sines and cosines of places,
/// the first of which is zeros and ones.
bool holdsBuffer(const Model &model, const proto::TensorProto &tensor);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_TRAINING_PARAMETERNAMES_H
