// Finds ops that combine given float32 values with results of products.
//
// Inputs, parameters and constants are float32 in any mode. In h + t, say, a
// low value h may meet a given value t. A low sum keeps only the digits that
// the larger operand leaves. With h near 0.5 and t near 1000, nothing of h
// remains. Then the sum stays float32, as in PyTorch's type promotion, unless
// the rounding is harmless. The sizes of parameters and constants are in the
// module; the sizes of inputs are there once data have been read.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_PRECISION_GIVENVALUES_H
#define MPC_COMPILER_PRECISION_GIVENVALUES_H

#include "compiler/Interfaces/BodyOpInterface.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/SymbolTable.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

#include <optional>
#include <string>

namespace mpc {

class GivenValues {
public:
  /// The harm done by rounding an op's result.
  enum class Meeting {
    None,     ///< no given value, or its size makes no difference
    Harmless, ///< harmless for the known parameters and constants
    Wide,     ///< not known to be harmless
  };

  /// Analyses all functions of `module` for rounding to `low`.
  GivenValues(mlir::ModuleOp module, mlir::FloatType low);

  Meeting lookup(mlir::Operation *op) const { return meetings.lookup(op); }

  /// Describes the given values that `op` combines with computed values: their
  /// sources and sizes.
  std::string describe(mlir::Operation *op) const;
  /// True if the size of an input in the data determined the verdict on `op`.
  bool restsOnData(mlir::Operation *op) const;

  /// Names the float32 inputs whose size determines the verdict on an op.
  static llvm::SmallVector<std::string> listMetInputs(mlir::ModuleOp module,
                                                      mlir::FloatType low);

  /// True if the result of `op` is of order 1 for any operands, as for a
  /// normalisation.
  static bool isBounded(mlir::Operation *op);

private:
  /// The size of the elements of a value: root mean square and largest.
  struct Magnitude {
    double rms, largest;
  };
  using Size = std::optional<Magnitude>;

  void findGiven(mlir::Block &block);
  void findNeeded();
  void measure(mlir::Block &block);
  Size measureInput(mlir::BlockArgument argument) const;
  Size measureState(mlir::BlockArgument argument) const;
  Size measureResult(mlir::Operation *op) const;
  Size getSize(mlir::Value value) const;
  bool isGiven(mlir::Value value) const { return given.contains(value); }
  Meeting judge(mlir::Operation *op) const;
  bool isHarmless(mlir::Operation *op, Size size) const;

  mlir::SymbolTable symbols;
  mlir::FloatType low;
  /// Values computed without any product.
  llvm::DenseSet<mlir::Value> given;
  /// Ops that combine a given value with the result of a product.
  llvm::SmallVector<mlir::Operation *> candidates;
  /// Given values whose size determines the verdict on a candidate.
  llvm::DenseSet<mlir::Value> needed;
  llvm::DenseMap<mlir::Value, Size> sizes;
  /// Given values computed from an input.
  llvm::DenseSet<mlir::Value> ofInputs;
  llvm::DenseMap<mlir::Operation *, Meeting> meetings;
};

} // namespace mpc

#endif // MPC_COMPILER_PRECISION_GIVENVALUES_H
