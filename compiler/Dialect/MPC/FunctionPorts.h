// Reads and edits the ports of a function: its arguments and results with their
// attributes, such as the name of an input. The description of the mpc dialect
// lists the attributes. Change ports only through FunctionEditor.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_DIALECT_MPC_FUNCTIONPORTS_H
#define MPC_COMPILER_DIALECT_MPC_FUNCTIONPORTS_H

#include "compiler/Dialect/MPC/MPC.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/ADT/DenseMap.h"

namespace mpc {

/// The attributes of one argument or result of a function. If an attribute is
/// missing, names are null, the role is nullopt, and samples are on axis 0.
class PortAttrs {
public:
  explicit PortAttrs(mlir::DictionaryAttr attributes = {})
      : attributes(attributes) {}

  /// Returns the ONNX name of an input; null for other ports.
  mlir::StringAttr getInput() const {
    return get<mlir::StringAttr>(kInputAttr);
  }
  /// Returns the ONNX name of an output; null for other ports.
  mlir::StringAttr getOutput() const {
    return get<mlir::StringAttr>(kOutputAttr);
  }
  /// Returns the variable whose value the argument holds; null if it holds
  /// none.
  mlir::FlatSymbolRefAttr getState() const {
    return get<mlir::FlatSymbolRefAttr>(kStateAttr);
  }
  /// Returns the variable whose new value the result is; null if there is none.
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
  /// Returns the attribute called `key`; null if there is none of type `AttrT`.
  template <typename AttrT>
  AttrT get(llvm::StringRef key) const {
    return attributes ? attributes.getAs<AttrT>(key) : AttrT();
  }

private:
  mlir::DictionaryAttr attributes;
};

/// Returns the attributes of `value`, an argument of a function; empty for any
/// other value.
PortAttrs getArgumentPort(mlir::Value value);
/// Returns the attributes of result `index` of `function`.
PortAttrs getResultPort(mlir::FunctionOpInterface function, unsigned index);

/// Returns the return op of `function`, which has a single block.
mlir::Operation *getReturn(mlir::FunctionOpInterface function);

/// Adds, changes and removes ports of one function. The block and the return op
/// change at once. Call `finish` after the last edit: only then do the
/// function's type and port attributes change, all at once, because changing
/// them costs as much for one port as for all. Do not read the type and the
/// port attributes before.
class FunctionEditor {
public:
  explicit FunctionEditor(mlir::FunctionOpInterface function);
  /// Creates a function without arguments and results at the end of `module`.
  static FunctionEditor create(mlir::ModuleOp module, mlir::Location location,
                               llvm::StringRef name);

  mlir::FunctionOpInterface get() const { return function; }
  mlir::Block &getBody() const { return *body; }
  /// Returns a builder that inserts before the return op.
  mlir::OpBuilder builder() const;

  //===--- Arguments ------------------------------------------------------===//

  /// Returns the attributes of `argument` after all edits so far; empty if the
  /// value is no argument of the function.
  PortAttrs port(mlir::Value argument) const;
  /// Returns the argument that is the input called `name`; null if there is
  /// none.
  mlir::Value input(llvm::StringRef name) const;
  mlir::Value addInput(llvm::StringRef name, Role role, mlir::Type type);
  void setInputRole(mlir::Value input, Role role);
  /// Sets the attribute `key` of `argument`, or replaces its value.
  void setAttr(mlir::Value argument, llvm::StringRef key,
               mlir::Attribute attribute);
  /// Returns the argument that holds the value of `variable`; adds the argument
  /// if it is missing.
  mlir::Value state(VariableOp variable);
  /// Returns the name of the variable whose value `argument` holds; empty if
  /// `argument` holds no variable.
  llvm::StringRef variableOf(mlir::Value argument) const;

  //===--- Results --------------------------------------------------------===//

  /// Returns the value of the first output called `name`; null if there is
  /// none.
  mlir::Value output(llvm::StringRef name) const;
  /// Returns the value of the first output with `role`, and with `name` if
  /// given; null if there is none.
  mlir::Value outputOfRole(Role role) const;
  mlir::Value outputOfRole(Role role, llvm::StringRef name) const;
  llvm::SmallVector<llvm::StringRef> outputNames() const;
  void addOutput(llvm::StringRef name, Role role, mlir::Value value);
  /// Returns the new value of `variable`; null if the function does not update
  /// the variable.
  mlir::Value update(VariableOp variable) const;
  void addUpdate(VariableOp variable, mlir::Value value);
  /// The next four functions remove all outputs, all outputs with `role`, all
  /// updates, or all updates of `variable`.
  void dropOutputs();
  void dropOutputsOfRole(Role role);
  void dropUpdates();
  void dropUpdate(VariableOp variable);
  /// Removes every update whose value is a result of `op`.
  void dropUpdatesBy(mlir::Operation *op);
  /// Reorders the results: first all outputs, then all updates. Keeps the order
  /// within each group.
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
  /// The attributes of each argument, and of each result.
  llvm::SmallVector<mlir::DictionaryAttr> arguments, results;
  /// Maps a variable's name to the argument that holds its value.
  llvm::DenseMap<mlir::StringAttr, mlir::Value> states;
};

} // namespace mpc

#endif // MPC_COMPILER_DIALECT_MPC_FUNCTIONPORTS_H
