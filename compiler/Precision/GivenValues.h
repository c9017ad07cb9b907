// Float32 values that meet what products made.
//
// An input, a parameter or a constant is float32 whatever is decided. Where it
// meets a value that is low, as in h + t, the result would be rounded to the
// digits that the larger of the two leaves: of h near 0.5 and t near 1000
// nothing of h is left. Such an op stays float32, as PyTorch promotes it,
// unless the rounding is harmless.
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

namespace mpc {

class GivenValues {
public:
  /// The harm that rounding an op's result does.
  enum class Meeting {
    None,     ///< no given value, or one whose size makes no difference
    Harmless, ///< harmless for the values that parameters and constants have
    Wide,     ///< not known to be harmless
  };

  /// Looks at all functions of `module`, for rounding to `low`.
  GivenValues(mlir::ModuleOp module, mlir::FloatType low);

  Meeting lookup(mlir::Operation *op) const { return meetings.lookup(op); }

  /// True if the result of `op` is of order 1 whatever it reads, as that of a
  /// normalisation is.
  static bool isBounded(mlir::Operation *op);

private:
  /// The size of the elements of a value.
  struct Magnitude {
    double rms, largest;
  };
  using Size = std::optional<Magnitude>;

  void findGiven(mlir::Block &block);
  void findNeeded();
  void measure(mlir::Block &block);
  Size measureState(mlir::BlockArgument argument) const;
  Size measureResult(mlir::Operation *op) const;
  Size getSize(mlir::Value value) const;
  bool isGiven(mlir::Value value) const { return given.contains(value); }
  Meeting judge(mlir::Operation *op) const;
  bool isHarmless(mlir::Operation *op, Size size) const;

  mlir::SymbolTable symbols;
  mlir::FloatType low;
  /// Values that no product has a part in.
  llvm::DenseSet<mlir::Value> given;
  /// Ops in which it meets what a product made.
  llvm::SmallVector<mlir::Operation *> candidates;
  /// Given values whose size a candidate asks for.
  llvm::DenseSet<mlir::Value> needed;
  llvm::DenseMap<mlir::Value, Size> sizes;
  llvm::DenseMap<mlir::Operation *, Meeting> meetings;
};

} // namespace mpc

#endif // MPC_COMPILER_PRECISION_GIVENVALUES_H
