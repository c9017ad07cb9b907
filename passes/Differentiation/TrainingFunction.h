// Edits one of the module's functions: inputs, state and results by name
// instead of by position.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_DIFFERENTIATION_TRAININGFUNCTION_H
#define MPC_PASSES_DIFFERENTIATION_TRAININGFUNCTION_H

#include "compiler/Dialect/MPC/MPC.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/DenseMap.h"

namespace mpc {

/// A function being edited. Arguments appear at once; results when `finish` is
/// called, which every user must do.
class TrainingFunction {
public:
  explicit TrainingFunction(mlir::func::FuncOp function);
  /// A new, empty function of the module.
  static TrainingFunction create(mlir::ModuleOp module, llvm::StringRef name);

  mlir::func::FuncOp get() const { return function; }
  /// Builds at the end of the body, ops of `phase` where it is given.
  mlir::OpBuilder builder() const;

  /// The input of that name, null if there is none.
  mlir::Value input(llvm::StringRef name) const;
  mlir::Value addInput(llvm::StringRef name, Role role, mlir::Type type);
  /// The role of an argument, nothing if it has none.
  std::optional<Role> roleOf(mlir::Value argument) const;
  /// Changes the role of an input.
  void setInputRole(mlir::Value input, Role role);

  /// The variable an argument is the value of, empty if it is not state.
  llvm::StringRef variableOf(mlir::Value argument) const;
  /// The value of a variable; the argument is added where it is missing.
  mlir::Value state(VariableOp variable);

  /// The output of that name, null if there is none.
  mlir::Value output(llvm::StringRef name) const;
  /// The first result of that role, null if there is none.
  mlir::Value outputOfRole(Role role) const;
  /// The output of that role and name, null if there is none.
  mlir::Value outputOfRole(Role role, llvm::StringRef name) const;
  llvm::SmallVector<llvm::StringRef> outputNames() const;
  void addOutput(llvm::StringRef name, Role role, mlir::Value value);
  void addUpdate(llvm::StringRef variable, mlir::Value value);
  /// Takes away all outputs, or all updates.
  void dropOutputs();
  void dropOutputsOfRole(Role role);
  void dropUpdates();
  /// Takes away the updates that `op` computes.
  void dropUpdatesBy(mlir::Operation *op);

  /// Writes the return op, the function's type and attributes. Until then they
  /// are as they were: changing them for one argument takes as long as for all.
  void finish();

private:
  struct Result {
    mlir::Value value;
    mlir::DictionaryAttr attributes;
  };

  mlir::Value addArgument(mlir::Type type, mlir::DictionaryAttr attributes);
  mlir::DictionaryAttr
  dictionary(llvm::ArrayRef<mlir::NamedAttribute> entries) const;
  /// What an input or an output says of itself.
  mlir::DictionaryAttr describe(llvm::StringRef key, llvm::StringRef name,
                                Role role) const;
  static llvm::StringRef nameOf(const Result &result);
  static bool hasRole(const Result &result, Role role);

  mutable mlir::func::FuncOp function; // a handle without const accessors
  llvm::SmallVector<mlir::DictionaryAttr> arguments;
  llvm::SmallVector<Result> results;
  /// The arguments that are state, by their variables.
  llvm::DenseMap<mlir::StringAttr, mlir::Value> states;
};

/// A location that carries a name of ours.
mlir::Location namedLocation(mlir::MLIRContext *context,
                             const llvm::Twine &name);

/// Sets `mpc.phase` of everything built while it lives.
class PhaseListener : public mlir::OpBuilder::Listener {
public:
  explicit PhaseListener(Phase phase) : phase(phase) {}
  void notifyOperationInserted(mlir::Operation *op,
                               mlir::OpBuilder::InsertPoint) override {
    setPhase(op, phase);
  }

private:
  Phase phase;
};

} // namespace mpc

#endif // MPC_PASSES_DIFFERENTIATION_TRAININGFUNCTION_H
