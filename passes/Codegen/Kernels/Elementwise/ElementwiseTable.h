// The table of elementwise ops. Each op has a formula: a function that emits
// the op's arithmetic on scalars or vectors (Lanes.h).
//
// A new elementwise op is one entry in one of the EmitElementwise*.cpp files.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_CODEGEN_KERNELS_ELEMENTWISE_ELEMENTWISETABLE_H
#define MPC_PASSES_CODEGEN_KERNELS_ELEMENTWISE_ELEMENTWISETABLE_H

#include "passes/Codegen/Kernels/Loops/Lanes.h"

#include "mlir/IR/Operation.h"
#include "llvm/ADT/StringMap.h"

#include <functional>

namespace mpc::codegen {

/// The position of the element to compute, for ops that depend on it: one_hot,
/// dropout and random numbers.
struct ElementIndex {
  /// An i64 scalar or vector. For one_hot, the index along its axis. For
  /// dropout and random numbers, the row-major index in the result. Null for
  /// any other op.
  mlir::Value value;
  /// A number that divides the first lane's index. 0 for a scalar, and if lanes
  /// are not adjacent elements.
  int64_t multiple = 0;
};

class ElementwiseTable {
public:
  /// Emits the computation of an op's results. Float operands have the compute
  /// type of the op, all others their own type (booleans i1, bytes i8). The
  /// caller rounds float results to their element type.
  using Formula = std::function<llvm::SmallVector<mlir::Value>(
      Lanes &lanes, mlir::Operation *op, mlir::ValueRange operands,
      ElementIndex index)>;

  /// Returns the table of all ops.
  static const ElementwiseTable &get();

  /// Returns the formula of the op called `name`; null if there is none. If an
  /// op has formulas for floats and for integers, such as mpc.add, returns the
  /// formula for floats.
  const Formula *find(llvm::StringRef name) const;
  /// Returns the formula for the operand types of `op`; null if there is none.
  const Formula *find(mlir::Operation *op) const;

  /// Adds the formula of OpTy. `formula(lanes, op, adaptor)` finds the operands
  /// in `adaptor` and returns a value or a vector of values.
  template <typename OpTy, typename Fn>
  void add(Fn formula) {
    insert<OpTy>([formula](Lanes &lanes, OpTy op, mlir::ValueRange operands,
                           ElementIndex) {
      return formula(lanes, op, typename OpTy::Adaptor(operands, op));
    });
  }

  /// Like `add`, for an op whose first operand is integer or boolean. The op
  /// may have a formula for floats too.
  template <typename OpTy, typename Fn>
  void addInteger(Fn formula) {
    integerEntries[OpTy::getOperationName()] =
        wrap<OpTy>([formula](Lanes &lanes, OpTy op, mlir::ValueRange operands,
                             ElementIndex) {
          return formula(lanes, op, typename OpTy::Adaptor(operands, op));
        });
  }

  /// Like `add`, for an op that depends on the position of its element.
  /// `formula` gets the position as its last argument.
  template <typename OpTy, typename Fn>
  void addIndexed(Fn formula) {
    insert<OpTy>([formula](Lanes &lanes, OpTy op, mlir::ValueRange operands,
                           ElementIndex index) {
      return formula(lanes, op, typename OpTy::Adaptor(operands, op), index);
    });
  }

private:
  ElementwiseTable();

  template <typename OpTy, typename Fn>
  static Formula wrap(Fn formula) {
    return [formula](Lanes &lanes, mlir::Operation *op,
                     mlir::ValueRange operands, ElementIndex index) {
      llvm::SmallVector<mlir::Value> results;
      auto value = formula(lanes, llvm::cast<OpTy>(op), operands, index);
      if constexpr (std::is_same_v<decltype(value), mlir::Value>)
        results.push_back(value);
      else
        results = std::move(value);
      return results;
    };
  }

  template <typename OpTy, typename Fn>
  void insert(Fn formula) {
    entries[OpTy::getOperationName()] = wrap<OpTy>(formula);
  }

  llvm::StringMap<Formula> entries, integerEntries;
};

void addFormulas(ElementwiseTable &table);
void addIntegerFormulas(ElementwiseTable &table);
void addMathFormulas(ElementwiseTable &table);
void addRemainderFormulas(ElementwiseTable &table);
void addGradientFormulas(ElementwiseTable &table);
void addQuantizeFormulas(ElementwiseTable &table);
void addOptimizerFormulas(ElementwiseTable &table);
void addConversionFormulas(ElementwiseTable &table);
void addIndexedFormulas(ElementwiseTable &table);

} // namespace mpc::codegen

#endif // MPC_PASSES_CODEGEN_KERNELS_ELEMENTWISE_ELEMENTWISETABLE_H
