// One gradient rule per forward op, and the builder for writing rules.
//
// A rule receives the gradients of an op's results and adds to the gradients of
// the operands. `mpc-expand-gradients` walks the ops backwards and applies the
// rules. The optimizer pass uses the table to find the parameters that a loss
// reaches. To add an op, add a function and a line in a GradientRules*.cpp
// file.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_DIFFERENTIATION_GRADIENTRULES_H
#define MPC_PASSES_DIFFERENTIATION_GRADIENTRULES_H

#include "compiler/Dialect/MPC/MPC.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

#include <functional>
#include <initializer_list>
#include <vector>

namespace mpc {

/// True if a derivative can flow through the value: a float tensor.
bool isFloatTensor(mlir::Value value);

/// Returns the type of the gradient of a value of `type`: equal shape, f64 for
/// an f64 value, f32 otherwise.
mlir::RankedTensorType getGradientType(mlir::Type type);

/// The gradient of a box of a tensor. A slice x[2:5] is a box of x.
struct GradientBox {
  mlir::Value gradient;
  llvm::SmallVector<int64_t> offsets;
  mlir::Location location;
};

/// Holds the gradients computed so far, and creates the ops of gradient rules.
/// All created ops get the backward phase and the name of the differentiated
/// node.
class GradientBuilder : public mlir::OpBuilder::Listener {
public:
  /// Creates ops before `anchor`. Computes gradients only for values in
  /// `active`.
  GradientBuilder(mlir::Operation *anchor,
                  const llvm::DenseSet<mlir::Value> &active);

  mlir::OpBuilder &ops() { return builder; }

  /// Sets the op whose rule runs next.
  void setOp(mlir::Operation *newOp) { op = newOp; }

  /// Marks the current rule as failed, after the rule has reported the reason.
  void fail() { failed = true; }
  bool hasFailed() const { return failed; }

  /// True if the rule must compute the gradient of operand number `operand`.
  bool needs(unsigned operand) const;
  /// Returns the gradient of the loss with respect to result `index` of the
  /// current op; null if the loss does not depend on the result.
  mlir::Value dy(unsigned index = 0) {
    return gradientOf(op->getResult(index));
  }
  mlir::Value gradientOf(mlir::Value value);

  /// Returns the location `node#dx` for a gradient op with suffix "dx".
  mlir::Location at(llvm::StringRef suffix) const;

  /// Adds `gradient` to the gradient of an operand. If the op broadcasts the
  /// operand, first sums `gradient` over the broadcast axes.
  void add(unsigned operand, llvm::StringRef suffix, mlir::Value gradient);
  /// Adds `gradient` to the gradient of a box of an operand. `offsets` is the
  /// index of the first element of the box. Gradients of adjacent boxes, as of
  /// the slices x[0:5] and x[5:9], are joined by one concat.
  void addBox(unsigned operand, llvm::StringRef suffix, mlir::Value gradient,
              llvm::ArrayRef<int64_t> offsets);
  /// Adds `gradient` to the gradient of `value`. The add op gets `location`.
  void accumulate(mlir::Value value, mlir::Location location,
                  mlir::Value gradient);

  /// Creates a scalar constant of the element type of `like`.
  mlir::Value constant(mlir::Location location, double value, mlir::Value like);
  /// Creates zeros of a type.
  mlir::Value zeros(mlir::Location location, mlir::RankedTensorType type);

  /// Create elementwise ops and reshapes. Results have the element type of a
  /// gradient of the first operand: f64 for f64, otherwise f32.
  mlir::Value mul(mlir::Location, mlir::Value lhs, mlir::Value rhs);
  mlir::Value sub(mlir::Location, mlir::Value lhs, mlir::Value rhs);
  mlir::Value neg(mlir::Location, mlir::Value value);
  mlir::Value scale(mlir::Location, mlir::Value value, double factor);
  mlir::Value reshape(mlir::Location, mlir::Value value,
                      llvm::ArrayRef<int64_t> shape);

private:
  void notifyOperationInserted(mlir::Operation *inserted,
                               mlir::OpBuilder::InsertPoint) override;

  mlir::OpBuilder builder;
  mlir::Operation *op = nullptr;
  bool failed = false;
  const llvm::DenseSet<mlir::Value> &active;
  llvm::DenseMap<mlir::Value, mlir::Value> gradients;
  /// Maps a sliced value to the gradients of its slices, until they are joined
  /// and added to `gradients`.
  llvm::DenseMap<mlir::Value, llvm::SmallVector<GradientBox>> boxes;
};

/// The rule that differentiates one kind of op.
struct GradientRule {
  std::function<void(mlir::Operation *, GradientBuilder &)> apply;
  /// Numbers of float operands that differentiation treats as constants, such
  /// as running statistics.
  llvm::SmallVector<unsigned> constantOperands;
  /// Numbers of float results that the rule cannot differentiate.
  llvm::SmallVector<unsigned> opaqueResults;
};

/// The gradient rules by name of op.
class GradientRules {
public:
  /// Returns all rules, created on first use.
  static const GradientRules &get();

  /// Returns the rule of an op; null if there is none.
  const GradientRule *lookup(mlir::Operation *op) const;

  /// True if a derivative can flow from the op's results into `operand`: a
  /// float that the rule does not treat as a constant. Also true for an op
  /// without a rule, so that the missing rule is reported instead of a zero
  /// gradient.
  bool flowsInto(mlir::OpOperand &operand) const;

  template <typename OpTy>
  void add(void (*rule)(OpTy, GradientBuilder &),
           std::initializer_list<unsigned> constantOperands = {},
           std::initializer_list<unsigned> opaqueResults = {}) {
    rules[OpTy::getOperationName()] = {
        [rule](mlir::Operation *op, GradientBuilder &gradients) {
          rule(llvm::cast<OpTy>(op), gradients);
        },
        llvm::SmallVector<unsigned>(constantOperands),
        llvm::SmallVector<unsigned>(opaqueResults)};
  }

  /// Returns the names of all ops with a rule, sorted.
  std::vector<llvm::StringRef> getOpNames() const;

private:
  llvm::DenseMap<llvm::StringRef, GradientRule> rules;
};

/// Returns gradients of a whole value of `shape`, to be added up. Concatenates
/// boxes that are adjacent along one axis, and pads incomplete results with
/// zeros.
llvm::SmallVector<mlir::Value> joinBoxes(mlir::OpBuilder &builder,
                                         llvm::ArrayRef<int64_t> shape,
                                         llvm::ArrayRef<GradientBox> boxes);

/// Each function adds the rules of one file to the table.
void addElementwiseRules(GradientRules &rules);
void addTensorRules(GradientRules &rules);
void addLayerRules(GradientRules &rules);
void addIndexedRules(GradientRules &rules);
void addScanRules(GradientRules &rules);
void addIfRules(GradientRules &rules);

/// Returns all values that `y` depends on through ops that pass a derivative,
/// including `y`.
llvm::DenseSet<mlir::Value> findDifferentiableSources(mlir::Value y);

} // namespace mpc

#endif // MPC_PASSES_DIFFERENTIATION_GRADIENTRULES_H
