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

/// The gradient of a box of a value, such as x[2:5].
struct GradientBox {
  mlir::Value gradient;
  llvm::SmallVector<int64_t> offsets;
  mlir::Location location;
};

/// Holds the gradients known so far, and builds new ones. All created ops
/// belong to the backward pass and carry the name of the differentiated node.
class GradientBuilder : public mlir::OpBuilder::Listener {
public:
  /// Builds ops before `anchor`. The values in `active` get gradients.
  GradientBuilder(mlir::Operation *anchor,
                  const llvm::DenseSet<mlir::Value> &active);

  mlir::OpBuilder &ops() { return builder; }

  /// Sets the op whose rule runs next.
  void setOp(mlir::Operation *newOp) { op = newOp; }

  /// Marks the current rule as failed, after the rule has reported the reason.
  void fail() { failed = true; }
  bool hasFailed() const { return failed; }

  /// True if the gradient of an operand is wanted.
  bool needs(unsigned operand) const;
  /// Returns the gradient of result `index`; null if nothing depends on the
  /// result.
  mlir::Value dy(unsigned index = 0) {
    return gradientOf(op->getResult(index));
  }
  mlir::Value gradientOf(mlir::Value value);

  /// Returns the location `node#dx` for a gradient op with suffix "dx".
  mlir::Location at(llvm::StringRef suffix) const;

  /// Adds `gradient` to the gradient of an operand, after summing over the axes
  /// that the op broadcast.
  void add(unsigned operand, llvm::StringRef suffix, mlir::Value gradient);
  /// Adds `gradient` to the gradient of a box of an operand. `offsets` is the
  /// index of the box's first element. Adjacent boxes become one concat.
  void addBox(unsigned operand, llvm::StringRef suffix, mlir::Value gradient,
              llvm::ArrayRef<int64_t> offsets);
  /// Adds `gradient`, made for the op at `location`, to the gradient of
  /// `value`.
  void accumulate(mlir::Value value, mlir::Location location,
                  mlir::Value gradient);

  /// Creates a scalar constant of the element type of `like`.
  mlir::Value constant(mlir::Location location, double value, mlir::Value like);
  /// Creates zeros of a type.
  mlir::Value zeros(mlir::Location location, mlir::RankedTensorType type);

  /// Create elementwise ops and reshapes, in the type of the first operand.
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
  /// Gradients of slices, by sliced value, not yet added to `gradients`.
  llvm::DenseMap<mlir::Value, llvm::SmallVector<GradientBox>> boxes;
};

/// The rule that differentiates one kind of op.
struct GradientRule {
  std::function<void(mlir::Operation *, GradientBuilder &)> apply;
  /// Float operands that differentiation treats as constants, such as running
  /// statistics.
  llvm::SmallVector<unsigned> constantOperands;
  /// Float results that the rule cannot differentiate.
  llvm::SmallVector<unsigned> opaqueResults;
};

/// The rules by op name.
class GradientRules {
public:
  /// Returns all rules, created on first use.
  static const GradientRules &get();

  /// Returns the rule of an op; null if there is none.
  const GradientRule *lookup(mlir::Operation *op) const;

  /// True if a derivative can flow from the op's results into this operand.
  /// Also true for an op without a rule, because differentiating the op is an
  /// error, not zero.
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

/// Joins boxes that are adjacent along one axis of a value of `shape`, and pads
/// the results with zeros. Returns gradients of the whole value, to be added
/// up.
llvm::SmallVector<mlir::Value> joinBoxes(mlir::OpBuilder &builder,
                                         llvm::ArrayRef<int64_t> shape,
                                         llvm::ArrayRef<GradientBox> boxes);

/// Fill in the parts of the table, one per file.
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
