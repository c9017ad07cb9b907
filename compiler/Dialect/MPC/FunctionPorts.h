// Ports of a function: what it says of its arguments and results, and the one
// way to change them. The dialect's description has the attributes.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_DIALECT_MPC_FUNCTIONPORTS_H
#define MPC_COMPILER_DIALECT_MPC_FUNCTIONPORTS_H

#include "compiler/Dialect/MPC/MPC.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/ADT/DenseMap.h"

namespace mpc {

/// What a function says of one argument or result. Of what it says nothing of,
/// a name is null, a role is none, and samples are along axis 0.
class PortAttrs {
public:
  explicit PortAttrs(mlir::DictionaryAttr attributes = {})
      : attributes(attributes) {}

  /// The name of an input.
  mlir::StringAttr getInput() const {
    return get<mlir::StringAttr>(kInputAttr);
  }
  /// The name of an output.
  mlir::StringAttr getOutput() const {
    return get<mlir::StringAttr>(kOutputAttr);
  }
  /// The variable that an argument is the value of.
  mlir::FlatSymbolRefAttr getState() const {
    return get<mlir::FlatSymbolRefAttr>(kStateAttr);
  }
  /// The variable that a result is the new value of.
  mlir::FlatSymbolRefAttr getUpdated() const {
    return get<mlir::FlatSymbolRefAttr>(kUpdatesAttr);
  }
  std::optional<Role> getRole() const {
    auto role = get<RoleAttr>(kRoleAttr);
    return role ? std::optional(role.getValue()) : std::nullopt;
  }
  int64_t getBatchAxis() const {
    auto axis = get<mlir::IntegerAttr>(kBatchAxisAttr);
    return axis ? axis.getInt() : 0;
  }
  bool has(llvm::StringRef key) const {
    return get<mlir::Attribute>(key) != nullptr;
  }
  /// Null where there is none of that name and kind.
  template <typename AttrT>
  AttrT get(llvm::StringRef key) const {
    return attributes ? attributes.getAs<AttrT>(key) : AttrT();
  }

private:
  mlir::DictionaryAttr attributes;
};

/// The port that `value` comes in by; an empty one where `value` is no argument
/// of a function.
PortAttrs getArgumentPort(mlir::Value value);
/// The port of a result, by its position.
PortAttrs getResultPort(mlir::FunctionOpInterface function, unsigned index);

/// The return of a function: all have one block.
mlir::Operation *getReturn(mlir::FunctionOpInterface function);

/// A function whose ports are being added, changed or taken away. Its block and
/// its return have them at once. Its type and its attributes, which take as
/// long to change for one port as for all, follow with `finish`: whoever edits
/// calls it, and nobody else looks at them before.
class FunctionEditor {
public:
  explicit FunctionEditor(mlir::FunctionOpInterface function);
  /// A new function of the module, without ports.
  static FunctionEditor create(mlir::ModuleOp module, mlir::Location location,
                               llvm::StringRef name);

  mlir::FunctionOpInterface get() const { return function; }
  mlir::Block &getBody() const { return *body; }
  /// Builds in front of the return.
  mlir::OpBuilder builder() const;

  //===--- Arguments ------------------------------------------------------===//

  /// What is said of an argument so far; an empty port for other values.
  PortAttrs port(mlir::Value argument) const;
  /// The input of that name, or null.
  mlir::Value input(llvm::StringRef name) const;
  mlir::Value addInput(llvm::StringRef name, Role role, mlir::Type type);
  void setInputRole(mlir::Value input, Role role);
  /// Says more of an argument, or something else.
  void setAttr(mlir::Value argument, llvm::StringRef key,
               mlir::Attribute attribute);
  /// The value of a variable; the argument is added where it is missing.
  mlir::Value state(VariableOp variable);
  /// The variable that an argument is the value of; empty if it is not state.
  llvm::StringRef variableOf(mlir::Value argument) const;

  //===--- Results --------------------------------------------------------===//

  /// The first output of that name, or null.
  mlir::Value output(llvm::StringRef name) const;
  /// The first output that has `role`; with a name, the first that has both.
  /// Null if there is none.
  mlir::Value outputOfRole(Role role) const;
  mlir::Value outputOfRole(Role role, llvm::StringRef name) const;
  llvm::SmallVector<llvm::StringRef> outputNames() const;
  void addOutput(llvm::StringRef name, Role role, mlir::Value value);
  /// The new value of a variable, or null where the function gives none.
  mlir::Value update(VariableOp variable) const;
  void addUpdate(VariableOp variable, mlir::Value value);
  /// Takes away all results of the kind.
  void dropOutputs();
  void dropOutputsOfRole(Role role);
  void dropUpdates();
  void dropUpdate(VariableOp variable);
  /// Takes away the updates that `op` computes.
  void dropUpdatesBy(mlir::Operation *op);
  /// Moves the outputs before the updates, each in their order.
  void putOutputsFirst();

  void finish();

private:
  using Predicate = llvm::function_ref<bool(PortAttrs, mlir::Value)>;

  mlir::Value addArgument(mlir::Type type, mlir::Location location,
                          llvm::ArrayRef<mlir::NamedAttribute> entries);
  void addResult(mlir::Value value,
                 llvm::ArrayRef<mlir::NamedAttribute> entries);
  mlir::Value findResult(Predicate isWanted) const;
  void dropResults(Predicate isUnwanted);
  mlir::NamedAttribute entry(llvm::StringRef key,
                             mlir::Attribute attribute) const;

  mutable mlir::FunctionOpInterface
      function; // a handle without const accessors
  mlir::Block *body;
  mlir::Operation *terminator;
  /// As many as the block has arguments, and the return operands.
  llvm::SmallVector<mlir::DictionaryAttr> arguments, results;
  /// The arguments that are state, by their variables.
  llvm::DenseMap<mlir::StringAttr, mlir::Value> states;
};

} // namespace mpc

#endif // MPC_COMPILER_DIALECT_MPC_FUNCTIONPORTS_H
