// Leaves outputs out of a model that mpc cannot compute and that no loss needs,
// such as the labels of a classifier of scikit-learn.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_IMPORTER_UNNEEDEDOUTPUTS_H
#define MPC_FRONTENDS_ONNX_IMPORTER_UNNEEDEDOUTPUTS_H

#include "mlir/Support/LLVM.h"
#include "llvm/Support/Error.h"

#include <string>

namespace mpc::onnx_frontend {

class FunctionImporter;
class Graph;
class Model;

/// Returns the values of `outputs` that could not be imported, if losses need
/// none of these. Empty if a loss needs one, or if all could be imported.
/// `lossSources` is ImportOptions::lossSources.
llvm::SmallVector<llvm::StringRef>
findUnneeded(FunctionImporter &function,
             llvm::ArrayRef<llvm::StringRef> outputs,
             llvm::ArrayRef<std::string> lossSources);

/// Removes the values `leftOut` from `outputs`. Adds the values that losses
/// read and that no other output depends on.
void replaceOutputs(const Graph &graph, llvm::ArrayRef<llvm::StringRef> leftOut,
                    llvm::ArrayRef<std::string> lossSources,
                    llvm::SmallVectorImpl<llvm::StringRef> &outputs);

/// Notes which outputs are left out, and why: the first message of `error`.
void noteLeftOut(const Model &model, llvm::ArrayRef<llvm::StringRef> leftOut,
                 llvm::Error error);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_IMPORTER_UNNEEDEDOUTPUTS_H
