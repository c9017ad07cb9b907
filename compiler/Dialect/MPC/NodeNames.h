// Reads and builds op locations, which name the model's nodes. Most ops stand
// for a single node. An op that Recognition formed stands for several.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_DIALECT_MPC_NODENAMES_H
#define MPC_COMPILER_DIALECT_MPC_NODENAMES_H

#include "compiler/Dialect/MPC/MPC.h"

namespace mpc {

/// Returns the names of all nodes that `op` stands for, starting with the node
/// of the first result: [Add_9, Mul_8]. In the backward pass each name has a
/// suffix: [Add_9#dx, Mul_8#dx].
llvm::SmallVector<llvm::StringRef> getNodeNames(mlir::Operation *op);

/// Returns the node names in `location`.
llvm::SmallVector<llvm::StringRef> getNodeNames(mlir::LocationAttr location);

/// Returns a location with `name`, the name of a node or of an op that mpc
/// adds.
mlir::Location namedLocation(mlir::MLIRContext *context,
                             const llvm::Twine &name);

/// Returns the location with "#" and `suffix` after every name.
mlir::Location addSuffix(mlir::Location location, llvm::StringRef suffix);

} // namespace mpc

#endif // MPC_COMPILER_DIALECT_MPC_NODENAMES_H
