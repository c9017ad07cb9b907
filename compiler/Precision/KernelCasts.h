// Counts the casts in the kernels of a step, the bytes that kernels and library
// calls store, and attentions that a library computes.
//
// A cast costs memory traffic if a kernel stores the result, and the input is
// in memory too: then memory holds the value in two types. Any other cast is
// free, since the kernel rounds in a register:
//
// ```
//   ^bb0(%x: f32):               loaded
//     %a = amp.cast %x : bf16    free: not stored
//     %y = relu %a : f32
//     %b = amp.cast %y : bf16    free: %y is not stored
//     %c = amp.cast %x : bf16    a copy of %x
//     yield %b, %c
// ```
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_PRECISION_KERNELCASTS_H
#define MPC_COMPILER_PRECISION_KERNELCASTS_H

#include "compiler/Dialect/MPC/Facts/VariableTable.h"
#include "compiler/Dialect/MPC/MPC.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/ADT/MapVector.h"

#include <string>

namespace mpc {

/// The casts and the stored bytes of a step, or the part that belongs to one
/// op. A cast in the body of a loop counts once. Bytes count once for each
/// iteration.
struct CastCounts {
  /// Copies of updated parameters in the low type. The step stores each copy
  /// beside the parameter.
  int64_t weights = 0;
  /// Copies of any other values.
  int64_t activations = 0;
  /// Casts that store no copy.
  int64_t free = 0;
  /// Kernels that do nothing but cast.
  int64_t kernels = 0;
  /// Attentions, and gradients of attentions, that a library of the target
  /// computes as a whole. Scores, softmax and sums inside are fp32.
  int64_t attentions = 0;
  /// Bytes of the copies, and of inputs that kernels load only to cast them.
  int64_t bytes = 0;
  /// The float types that kernels store, with the number of bytes.
  llvm::SmallMapVector<mlir::Type, int64_t, 2> stored;

  int64_t getCasts() const { return weights + activations + free; }
  CastCounts &operator+=(const CastCounts &other);
};

/// Describes the casts: "5 casts (3 of weights, 2 free), 1 kernel only casts".
std::string describeCasts(const CastCounts &counts);

/// Describes the stored bytes, widest type first: "f32 1,024 bytes, bf16 512
/// bytes". Returns "nothing" if nothing is stored.
std::string describeStored(const CastCounts &counts);

/// Names each op of the functions that getShownFunctions returns by the op's id
/// in a DecisionReport, instead of by the model's node. KernelCasts then counts
/// for each id, even if several ops come from one node. Expects a module after
/// the Precision stage.
///
/// A cast has no decision, and gets the id of the first op that reads the cast.
/// If no op with an id does, the cast gets the id of the op that computes the
/// input. Any other op without a decision asks the producers first.
void nameOpsByIds(mlir::ModuleOp module);

/// The casts of the functions that getShownFunctions returns, and of the bodies
/// of their loops and conditions. The module must hold kernels: the result of
/// the Fusion stage.
class KernelCasts {
public:
  explicit KernelCasts(mlir::ModuleOp module);

  const CastCounts &getTotal() const { return total; }

  /// Returns the counts for each node name. An op in a kernel counts for the
  /// first name of the op's location, or else of the kernel's location. The
  /// counts of all names sum to the total.
  const llvm::MapVector<mlir::StringAttr, CastCounts> &getNames() const {
    return names;
  }

private:
  void countFunction(mlir::FunctionOpInterface function, int64_t times);
  void countLibrary(mlir::Operation *op, int64_t times);
  void countStores(RegionOp kernel, int64_t times);
  void countCasts(RegionOp kernel, int64_t times);
  bool isLowCopy(mlir::Value value) const;
  CastCounts &getCounts(mlir::Location location, mlir::Operation *kernel);

  VariableTable variables;
  CastCounts total;
  llvm::MapVector<mlir::StringAttr, CastCounts> names;
};

} // namespace mpc

#endif // MPC_COMPILER_PRECISION_KERNELCASTS_H
