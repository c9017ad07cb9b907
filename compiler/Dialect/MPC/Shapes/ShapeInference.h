// What the files that infer result shapes share.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_DIALECT_MPC_SHAPES_SHAPEINFERENCE_H
#define MPC_COMPILER_DIALECT_MPC_SHAPES_SHAPEINFERENCE_H

#include "compiler/Dialect/MPC/MPC.h"

namespace mpc {

using Shape = llvm::SmallVector<int64_t>;
using Components = llvm::SmallVectorImpl<mlir::ShapedTypeComponents>;

inline bool isScalar(mlir::Value value) { return shapeOf(value).empty(); }

/// Adds one inferred result.
inline llvm::LogicalResult
infer(Components &results, llvm::ArrayRef<int64_t> shape, mlir::Type element) {
  results.emplace_back(shape, element);
  return llvm::success();
}

/// The shape and type of the operand; the shape that both operands broadcast
/// to, and the type of the first, or a boolean.
llvm::LogicalResult inferUnary(mlir::Value operand, Components &results);
llvm::LogicalResult inferBinary(std::optional<mlir::Location> loc,
                                mlir::ValueRange operands, Components &results);
llvm::LogicalResult inferCompare(std::optional<mlir::Location> loc,
                                 mlir::ValueRange operands,
                                 Components &results);

/// Every value has exactly the shape of the first.
llvm::LogicalResult verifySameShape(std::optional<mlir::Location> loc,
                                    mlir::ValueRange values);

/// `axis` is in [0, rank).
llvm::LogicalResult verifyAxis(std::optional<mlir::Location> loc, int64_t axis,
                               int64_t rank);

/// `vectors` have one element per channel of `input`.
llvm::LogicalResult verifyChannels(std::optional<mlir::Location> loc,
                                   mlir::Value input, Layout layout,
                                   mlir::ValueRange vectors);

} // namespace mpc

/// Heads the shape inference of an op: its Adaptor is `adaptor`.
#define INFER(OpTy)                                                            \
  LogicalResult OpTy::inferReturnTypeComponents(                               \
      MLIRContext *context, std::optional<Location> loc,                       \
      OpTy::Adaptor adaptor, Components &results)

#endif // MPC_COMPILER_DIALECT_MPC_SHAPES_SHAPEINFERENCE_H
