// The table of elementwise ops: what each computes, as a formula over Lanes.
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

/// Where an index-dependent op stands.
struct ElementIndex {
  /// An i64 scalar or vector. For one_hot the index along its axis, for dropout
  /// the row-major index in its result; null for any other op.
  mlir::Value value;
  /// What the first of several lanes, which are adjacent elements, is known to
  /// be a multiple of; 0 where they are not adjacent.
  int64_t multiple = 0;
};

class ElementwiseTable {
public:
  /// Float operands arrive in the type the op computes in, all others in their
  /// own (booleans as i1, bytes as i8). Float results are rounded to their
  /// element type by the caller.
  using Formula = std::function<llvm::SmallVector<mlir::Value>(
      Lanes &lanes, mlir::Operation *op, mlir::ValueRange operands,
      ElementIndex index)>;

  /// The table of all ops.
  static const ElementwiseTable &get();

  /// The formula of the op called `name`, or null. An op that has one for
  /// floats and one for integers, such as mpc.add, gives the one for floats.
  const Formula *find(llvm::StringRef name) const;
  /// The formula for the operands of `op`, or null.
  const Formula *find(mlir::Operation *op) const;

  /// Adds `formula(lanes, op, adaptor of operands)`, which returns a value or a
  /// vector of values.
  template <typename OpTy, typename Fn>
  void add(Fn formula) {
    insert<OpTy>([formula](Lanes &lanes, OpTy op, mlir::ValueRange operands,
                           ElementIndex) {
      return formula(lanes, op, typename OpTy::Adaptor(operands, op));
    });
  }

  /// The same where the first operand is an integer or boolean.
  template <typename OpTy, typename Fn>
  void addInteger(Fn formula) {
    integerEntries[OpTy::getOperationName()] =
        wrap<OpTy>([formula](Lanes &lanes, OpTy op, mlir::ValueRange operands,
                             ElementIndex) {
          return formula(lanes, op, typename OpTy::Adaptor(operands, op));
        });
  }

  /// The same for ops that depend on their index.
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
