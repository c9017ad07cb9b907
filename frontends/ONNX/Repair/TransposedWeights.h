// Weights that PyTorch's exporter has transposed in advance.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_REPAIR_TRANSPOSEDWEIGHTS_H
#define MPC_FRONTENDS_ONNX_REPAIR_TRANSPOSEDWEIGHTS_H

#include "frontends/ONNX/Model/Model.h"

namespace mpc::onnx_frontend {

/// Gives the weights of linear layers the name and the layout again that they
/// have in the program: of y = x Wᵀ the exporter keeps Wᵀ alone, under a number
/// such as "val_7". Afterwards the file has W and a Transpose, so that
/// patterns, checkpoints of PyTorch and the weights that are written know the
/// parameter by its name.
/// Returns what was done, as a note; empty where nothing was.
std::string restoreWeights(Model &model);

/// Makes the initializer `matrix`, of rank 2, the transposition of itself,
/// called `name`; the model remembers what it was called. False, and nothing is
/// done, where its values cannot be read.
bool transposeInitializer(Model &model, proto::TensorProto &matrix,
                          llvm::StringRef name);

/// Adds nodes that transpose a matrix, (from, to) by name, each before the
/// first reader: backward, its gradient is then ready beside the reader's, and
/// not at the end of the step.
void addTransposes(
    proto::GraphProto &graph,
    llvm::ArrayRef<std::pair<std::string, std::string>> matrices);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_REPAIR_TRANSPOSEDWEIGHTS_H
