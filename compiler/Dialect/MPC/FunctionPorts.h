// Reads and edits the ports of a function: its arguments, its results, and the
// attributes on them. The description of the mpc dialect lists the attributes.
// FunctionEditor is the only way to change ports.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_DIALECT_MPC_FUNCTIONPORTS_H
#define MPC_COMPILER_DIALECT_MPC_FUNCTIONPORTS_H

#include "compiler/Dialect/MPC/MPC.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/ADT/DenseMap.h"

namespace mpc {

/// The attributes of one argument or result. Defaults: a null name, no role,
/// and samples along axis 0.
class PortAttrs {
public:
  explicit PortAttrs(mlir::DictionaryAttr attributes = {})
      : attributes(attributes) {}

  /// Name of the input.
  mlir::StringAttr getInput() const {
    return get<mlir::StringAttr>(kInputAttr);
  }
  /// Name of the output.
  mlir::StringAttr getOutput() const {
    return get<mlir::StringAttr>(kOutputAttr);
  }
  /// The variable whose value the argument holds.
  mlir::FlatSymbolRefAttr getState() const {
    return get<mlir::FlatSymbolRefAttr>(kStateAttr);
  }
  /// The variable whose new value the result is.
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
  /// Null if there is no attribute with the name `key` and the type `AttrT`.
  template <typename AttrT>
  AttrT get(llvm::StringRef key) const {
    return attributes ? attributes.getAs<AttrT>(key) : AttrT();
  }

private:
  mlir::DictionaryAttr attributes;
};

/// Returns the port of `value`; empty if `value` is no argument of a function.
PortAttrs getArgumentPort(mlir::Value value);
/// Returns the port of the result at position `index`.
PortAttrs getResultPort(mlir::FunctionOpInterface function, unsigned index);

/// Returns the return op. All functions have a single block.
mlir::Operation *getReturn(mlir::FunctionOpInterface function);

/// Adds, changes and removes ports of one function. The block and the return op
/// change at once. The function's type and attributes change in `finish`, since
/// updating them costs as much for one port as for all. Call `finish` after the
/// last edit, and do not read the type or the attributes before.
class FunctionEditor {
public:
  explicit FunctionEditor(mlir::FunctionOpInterface function);
  /// Creates a function without ports at the end of `module`.
  static FunctionEditor create(mlir::ModuleOp module, mlir::Location location,
                               llvm::StringRef name);

  mlir::FunctionOpInterface get() const { return function; }
  mlir::Block &getBody() const { return *body; }
  /// Returns a builder that inserts before the return.
  mlir::OpBuilder builder() const;

  //===--- Arguments ------------------------------------------------------===//

  /// Returns the current attributes of `argument`; empty for other values.
  PortAttrs port(mlir::Value argument) const;
  /// Returns the input called `name`; null if there is none.
  mlir::Value input(llvm::StringRef name) const;
  mlir::Value addInput(llvm::StringRef name, Role role, mlir::Type type);
  void setInputRole(mlir::Value input, Role role);
  /// Sets or replaces one attribute of `argument`.
  void setAttr(mlir::Value argument, llvm::StringRef key,
               mlir::Attribute attribute);
  /// Returns the argument that holds the value of `variable`; adds the argument
  /// if it is missing.
  mlir::Value state(VariableOp variable);
  /// Returns the variable whose value `argument` holds; empty if `argument` is
  /// not state.
  llvm::StringRef variableOf(mlir::Value argument) const;

  //===--- Results --------------------------------------------------------===//

  /// Returns the first output called `name`; null if there is none.
  mlir::Value output(llvm::StringRef name) const;
  /// Returns the first output with `role`, or with both `role` and `name`. Null
  /// if there is none.
  mlir::Value outputOfRole(Role role) const;
  mlir::Value outputOfRole(Role role, llvm::StringRef name) const;
  llvm::SmallVector<llvm::StringRef> outputNames() const;
  void addOutput(llvm::StringRef name, Role role, mlir::Value value);
  /// Returns the new value of `variable`; null if the function does not update
  /// the variable.
  mlir::Value update(VariableOp variable) const;
  void addUpdate(VariableOp variable, mlir::Value value);
  /// The drop functions remove all matching results.
  void dropOutputs();
  void dropOutputsOfRole(Role role);
  void dropUpdates();
  void dropUpdate(VariableOp variable);
  /// Removes the updates whose values `op` computes.
  void dropUpdatesBy(mlir::Operation *op);
  /// Moves all outputs before all updates, and keeps the order within each
  /// group.
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
  /// Attributes per argument of the block, and per operand of the return.
  llvm::SmallVector<mlir::DictionaryAttr> arguments, results;
  /// Maps a variable's name to the argument that holds its value.
  llvm::DenseMap<mlir::StringAttr, mlir::Value> states;
};

} // namespace mpc

#endif // MPC_COMPILER_DIALECT_MPC_FUNCTIONPORTS_H
