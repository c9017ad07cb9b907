// Finds ops that combine given float32 values with results of products.
//
// A given value is an input, a parameter or a constant, or is computed from
// given values without a product, also through casts of the Precision stage.
// Given values are float32 in any mode. All other float values are called
// computed. In the sum h + t, a computed low
// value h meets a given value t. A low sum keeps only the digits that the
// larger operand leaves: with h near 0.5 and t near 1000, nothing of h remains.
// The sum then stays float32, as in PyTorch's type promotion, unless the
// rounding is harmless. This depends on the size (root mean square and largest
// element) of the given value. The module holds the sizes of parameters and
// constants, and of inputs once data has been read.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_PRECISION_GIVENVALUES_H
#define MPC_COMPILER_PRECISION_GIVENVALUES_H

#include "compiler/Interfaces/BodyOpInterface.h"
#include "compiler/Precision/ConstantElements.h"

#include "mlir/IR/BuiltinAttributes.h"
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
  /// The verdict on rounding the result of an op to the low type.
  enum class Meeting {
    None,     ///< combines no given with a computed value, or the size makes no
              ///< difference
    Harmless, ///< harmless for the known size of the given value
    Wide,     ///< the given value is large, or of unknown size
  };

  /// Analyses all functions of `module` for rounding to `low`.
  GivenValues(mlir::ModuleOp module, mlir::FloatType low);

  Meeting lookup(mlir::Operation *op) const { return meetings.lookup(op); }

  /// Returns the sources and sizes of the given operands of `op`, for the
  /// record: [{kind = "parameter", name = "b", rms = 0.1, largest = 0.4}].
  mlir::ArrayAttr listSources(mlir::Operation *op) const;

  /// Names the float32 inputs whose size determines the verdict on an op.
  static llvm::SmallVector<std::string> listMetInputs(mlir::ModuleOp module,
                                                      mlir::FloatType low);

  /// True if the result of `op` is of order 1 for any operands, as for a
  /// normalisation.
  static bool isBounded(mlir::Operation *op);

private:
  /// The size of a value: root mean square and largest absolute value of its
  /// elements.
  struct Magnitude {
    double rms, largest;
  };
  using Size = std::optional<Magnitude>;

  static Size toSize(const std::optional<ElementSummary> &elements);
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
  /// Given values: computed from inputs, parameters and constants without any
  /// product.
  llvm::DenseSet<mlir::Value> given;
  /// Forward ops that combine a given value with a computed value.
  llvm::SmallVector<mlir::Operation *> candidates;
  /// Given values whose size must be known for the verdict on a candidate.
  llvm::DenseSet<mlir::Value> needed;
  llvm::DenseMap<mlir::Value, Size> sizes;
  /// Given values computed from an input.
  llvm::DenseSet<mlir::Value> ofInputs;
  llvm::DenseMap<mlir::Operation *, Meeting> meetings;
};

} // namespace mpc

#endif // MPC_COMPILER_PRECISION_GIVENVALUES_H
