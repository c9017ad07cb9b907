// Helpers for the files that infer result shapes.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_DIALECT_MPC_SHAPES_SHAPEINFERENCE_H
#define MPC_COMPILER_DIALECT_MPC_SHAPES_SHAPEINFERENCE_H

#include "compiler/Dialect/MPC/MPC.h"

namespace mpc {

using Shape = llvm::SmallVector<int64_t>;
using Components = llvm::SmallVectorImpl<mlir::ShapedTypeComponents>;

inline bool isScalar(mlir::Value value) { return shapeOf(value).empty(); }

/// Appends a result of the given shape and element type to `results`.
inline llvm::LogicalResult
infer(Components &results, llvm::ArrayRef<int64_t> shape, mlir::Type element) {
  results.emplace_back(shape, element);
  return llvm::success();
}

/// Each infers the result of one kind of elementwise op. inferUnary: the shape
/// and element type of the operand. inferBinary: the broadcast shape, and the
/// element type of the first operand. inferCompare: the broadcast shape, and
/// i1.
llvm::LogicalResult inferUnary(mlir::Value operand, Components &results);
llvm::LogicalResult inferBinary(std::optional<mlir::Location> loc,
                                mlir::ValueRange operands, Components &results);
llvm::LogicalResult inferCompare(std::optional<mlir::Location> loc,
                                 mlir::ValueRange operands,
                                 Components &results);

/// Checks that all values have the shape of the first value.
llvm::LogicalResult verifySameShape(std::optional<mlir::Location> loc,
                                    mlir::ValueRange values);

/// Checks that `axis` is in [0, rank).
llvm::LogicalResult verifyAxis(std::optional<mlir::Location> loc, int64_t axis,
                               int64_t rank);

/// Checks that each of `vectors` has one element per channel of `input`.
llvm::LogicalResult verifyChannels(std::optional<mlir::Location> loc,
                                   mlir::Value input, Layout layout,
                                   mlir::ValueRange vectors);

} // namespace mpc

/// Starts the definition of the function that infers the result shapes of
/// `OpTy`. The body reads operands and attributes from `adaptor`, and appends
/// to `results`.
#define INFER(OpTy)                                                            \
  LogicalResult OpTy::inferReturnTypeComponents(                               \
      MLIRContext *context, std::optional<Location> loc,                       \
      OpTy::Adaptor adaptor, Components &results)

#endif // MPC_COMPILER_DIALECT_MPC_SHAPES_SHAPEINFERENCE_H
