// Reads and builds the locations of ops, which hold the names of model nodes.
// Most ops come from one node. An op that the Recognition stage made of several
// nodes has all their names.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_DIALECT_MPC_NODENAMES_H
#define MPC_COMPILER_DIALECT_MPC_NODENAMES_H

#include "compiler/Dialect/MPC/MPC.h"

namespace mpc {

/// Returns the names of all nodes that `op` comes from. The first is the node
/// whose result is the op's first result: [Add_9, Mul_8]. In the backward pass,
/// names have a suffix: [Add_9#dx, Mul_8#dx].
llvm::SmallVector<llvm::StringRef> getNodeNames(mlir::Operation *op);

/// Returns the node names in `location`.
llvm::SmallVector<llvm::StringRef> getNodeNames(mlir::LocationAttr location);

/// Returns a location that holds `name`: the name of a node, or of an op that
/// mpc adds.
mlir::Location namedLocation(mlir::MLIRContext *context,
                             const llvm::Twine &name);

/// Returns `location` with "#" and `suffix` appended to every name: conv1
/// becomes conv1#dx.
mlir::Location addSuffix(mlir::Location location, llvm::StringRef suffix);

} // namespace mpc

#endif // MPC_COMPILER_DIALECT_MPC_NODENAMES_H
