// The nodes of the model that an op stands for. Most ops stand for one; those
// that Recognition made of several stand for all of these.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_DIALECT_MPC_NODENAMES_H
#define MPC_COMPILER_DIALECT_MPC_NODENAMES_H

#include "compiler/Dialect/MPC/MPC.h"

namespace mpc {

/// All names, first the name of the node that made the op's first result:
/// [Add_9, Mul_8].
/// An op of the backward pass has the suffix with each: [Add_9#dx, Mul_8#dx].
llvm::SmallVector<llvm::StringRef> getNodeNames(mlir::Operation *op);

/// Those of a location.
llvm::SmallVector<llvm::StringRef> getNodeNames(mlir::LocationAttr location);

/// The location of an op that a name stands for, of a node or of ours.
mlir::Location namedLocation(mlir::MLIRContext *context,
                             const llvm::Twine &name);

/// The location with a suffix after every name.
mlir::Location addSuffix(mlir::Location location, llvm::StringRef suffix);

} // namespace mpc

#endif // MPC_COMPILER_DIALECT_MPC_NODENAMES_H
