// Transposes weights back to the program's layout.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_REPAIR_TRANSPOSEDWEIGHTS_H
#define MPC_FRONTENDS_ONNX_REPAIR_TRANSPOSEDWEIGHTS_H

#include "frontends/ONNX/Model/Model.h"

namespace mpc::onnx_frontend {

/// Transposes the initializer `matrix` (rank 2) in place and renames it to
/// `name`; the model remembers the old name. Returns false, without changes, if
/// the values cannot be read.
bool transposeInitializer(Model &model, proto::TensorProto &matrix,
                          llvm::StringRef name);

/// Adds a Transpose for each (from, to) pair, just before its first reader. In
/// the backward pass the gradient is then ready beside the reader's, not at the
/// end of the step.
void addTransposes(
    proto::GraphProto &graph,
    llvm::ArrayRef<std::pair<std::string, std::string>> matrices);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_REPAIR_TRANSPOSEDWEIGHTS_H
