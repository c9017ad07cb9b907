// One gradient rule per forward op, and what rules are written with.
//
// A rule is given the gradients of an op's results and adds to those of its
// operands. `mpc-expand-gradients` walks the ops backwards and applies them;
// the optimizer pass asks the same table which parameters a loss reaches. To
// add an op, add one function and one line in a GradientRules*.cpp file.
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

/// The values through which a derivative can flow: float tensors.
bool isFloatTensor(mlir::Value value);

/// The type of the gradient of a value of `type`: its shape in f32, or in f64
/// where the value is.
mlir::RankedTensorType getGradientType(mlir::Type type);

/// The gradient of a box of a value: x[2:5], say.
struct GradientBox {
  mlir::Value gradient;
  llvm::SmallVector<int64_t> offsets;
  mlir::Location location;
};

/// The gradients known so far, and the means to build new ones. All ops it
/// creates belong to the backward pass and carry the name of the node they
/// differentiate.
class GradientBuilder : public mlir::OpBuilder::Listener {
public:
  /// Builds before `anchor`. Gradients are wanted of the values in `active`.
  GradientBuilder(mlir::Operation *anchor,
                  const llvm::DenseSet<mlir::Value> &active);

  mlir::OpBuilder &ops() { return builder; }

  /// The op whose rule runs.
  void setOp(mlir::Operation *newOp) { op = newOp; }

  /// The rule that runs has reported why there is no gradient.
  void fail() { failed = true; }
  bool hasFailed() const { return failed; }

  /// Whether the gradient of an operand is wanted.
  bool needs(unsigned operand) const;
  /// The gradient of result `index`, null where nothing depends on it.
  mlir::Value dy(unsigned index = 0) {
    return gradientOf(op->getResult(index));
  }
  mlir::Value gradientOf(mlir::Value value);

  /// Where the gradient op for `suffix` ("dx") is located: `node#dx`.
  mlir::Location at(llvm::StringRef suffix) const;

  /// Adds `gradient`, summed first over the axes the op broadcast, to that of
  /// an operand.
  void add(unsigned operand, llvm::StringRef suffix, mlir::Value gradient);
  /// Adds `gradient` to that of a box of an operand, whose first element is at
  /// `offsets`. Boxes that lie side by side become one concat.
  void addBox(unsigned operand, llvm::StringRef suffix, mlir::Value gradient,
              llvm::ArrayRef<int64_t> offsets);
  /// Adds to the gradient of `value`, which was made for the op at `location`.
  void accumulate(mlir::Value value, mlir::Location location,
                  mlir::Value gradient);

  /// A scalar constant of the element type of `like`.
  mlir::Value constant(mlir::Location location, double value, mlir::Value like);
  /// Zeros of a type.
  mlir::Value zeros(mlir::Location location, mlir::RankedTensorType type);

  /// Elementwise ops and a change of shape, in the type of the first operand.
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
  /// Of values that were sliced: what is not in `gradients` yet.
  llvm::DenseMap<mlir::Value, llvm::SmallVector<GradientBox>> boxes;
};

/// How to differentiate one kind of op.
struct GradientRule {
  std::function<void(mlir::Operation *, GradientBuilder &)> apply;
  /// Float operands that are constants to differentiation, such as running
  /// statistics.
  llvm::SmallVector<unsigned> constantOperands;
  /// Float results whose derivative the rule does not know.
  llvm::SmallVector<unsigned> opaqueResults;
};

/// The rules by op name.
class GradientRules {
public:
  /// All rules, made on first use.
  static const GradientRules &get();

  /// The rule of an op, null if it has none.
  const GradientRule *lookup(mlir::Operation *op) const;

  /// Whether a derivative can flow from the op's results into this operand. An
  /// op without a rule counts as one through which it can: to differentiate it
  /// is an error, not a zero.
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

  /// The names of all ops that have a rule, sorted.
  std::vector<llvm::StringRef> getOpNames() const;

private:
  llvm::DenseMap<llvm::StringRef, GradientRule> rules;
};

/// Joins boxes that lie side by side along one axis of a value of `shape`, and
/// puts zeros around what is left: gradients of the whole value, to be added.
llvm::SmallVector<mlir::Value> joinBoxes(mlir::OpBuilder &builder,
                                         llvm::ArrayRef<int64_t> shape,
                                         llvm::ArrayRef<GradientBox> boxes);

/// The parts of the table, one per file.
void addElementwiseRules(GradientRules &rules);
void addTensorRules(GradientRules &rules);
void addLayerRules(GradientRules &rules);
void addIndexedRules(GradientRules &rules);
void addScanRules(GradientRules &rules);
void addIfRules(GradientRules &rules);

/// All values that `y` depends on through ops a derivative flows through, `y`
/// itself included.
llvm::DenseSet<mlir::Value> findDifferentiableSources(mlir::Value y);

} // namespace mpc

#endif // MPC_PASSES_DIFFERENTIATION_GRADIENTRULES_H
