// Transposes weights back to the program's layout.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_REPAIR_TRANSPOSEDWEIGHTS_H
#define MPC_FRONTENDS_ONNX_REPAIR_TRANSPOSEDWEIGHTS_H

#include "frontends/ONNX/Model/Model.h"

namespace mpc::onnx_frontend {

/// Transposes the initializer `matrix` (rank 2) in place and renames it to
/// `name`. The model remembers the old name (Model::setFormerName). Returns
/// false, without changes, if the elements cannot be read.
bool transposeInitializer(Model &model, proto::TensorProto &matrix,
                          llvm::StringRef name);

/// Adds a node to = Transpose(from) for each pair (from, to) in `matrices`,
/// just before the first reader of `to`. The position matters for training: the
/// backward pass then computes the gradient of `from` right after the gradient
/// of `to`, and not at the end of the step.
void addTransposes(
    proto::GraphProto &graph,
    llvm::ArrayRef<std::pair<std::string, std::string>> matrices);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_REPAIR_TRANSPOSEDWEIGHTS_H
