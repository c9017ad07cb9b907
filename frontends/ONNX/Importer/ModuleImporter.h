// The module that an import builds: its variables, and the findings so far.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_IMPORTER_MODULEIMPORTER_H
#define MPC_FRONTENDS_ONNX_IMPORTER_MODULEIMPORTER_H

#include "frontends/ONNX/Importer/Rebatch.h"
#include "frontends/ONNX/Model/Graph.h"
#include "frontends/ONNX/Model/ImportOptions.h"

#include "compiler/Dialect/MPC/MPC.h"
#include "compiler/Support/NamePattern.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Diagnostics.h"

namespace mpc::onnx_frontend {

/// Builds the module: its variables, and the findings so far.
class ModuleImporter {
public:
  /// Loops in loops would multiply without end.
  static constexpr int64_t kMostBodyNodes = 300000;

  /// `rebatch` is given where the model was exported for another batch.
  ModuleImporter(const ImportOptions &options, mlir::MLIRContext *context,
                 Rebatch *rebatch = nullptr);
  /// Findings of an import that was given up for another reason are dropped.
  ~ModuleImporter() { llvm::consumeError(std::move(errors)); }

  const ImportOptions &getOptions() const { return options; }
  mlir::MLIRContext *getContext() const { return context; }
  mlir::ModuleOp getModule() const { return *module; }
  Rebatch *getRebatch() const { return rebatch; }

  /// Adds a finding; the import goes on to find more.
  void report(llvm::Error error) {
    errors = llvm::joinErrors(std::move(errors), std::move(error));
    failed = true;
  }
  bool hasFailed() const { return failed; }
  /// True at the first call for `op`: one warning is enough for all its nodes.
  bool isFirst(llvm::StringRef op) { return misplaced.insert(op).second; }
  /// Counts a node of a body, once for each iteration that has its own ops.
  /// False once the model has more than kMostBodyNodes of them.
  bool countBodyNode() { return ++bodyNodes <= kMostBodyNodes; }
  /// Calls `attempt`. True if it reported nothing; what it reported is dropped.
  bool succeeds(llvm::function_ref<void()> attempt);
  /// Says something about the model that is no reason to give up.
  void warn(const llvm::Twine &message) {
    mlir::emitWarning(mlir::UnknownLoc::get(context)) << message;
  }

  /// The variable for the ONNX value `name`, declared at its first use; without
  /// `init` it starts at zero.
  VariableOp getVariable(llvm::StringRef name, Role role,
                         mlir::RankedTensorType type,
                         const HostTensor *init = nullptr);
  /// An i64 scalar variable of role counter that starts at zero.
  VariableOp getCounter(llvm::StringRef name);
  /// The variable for that ONNX value, or null.
  VariableOp findVariable(llvm::StringRef name) const {
    return variables.lookup(name);
  }

  /// The axis of an input of this name and type that samples are along, or
  /// kNoBatchAxis.
  int64_t getBatchAxis(llvm::StringRef name, mlir::RankedTensorType type) const;

  /// Names of float initializers that are trained by default: findTrainable.
  void setTrainable(llvm::StringSet<> names) { trainable = std::move(names); }
  /// Names of float initializers that are constants of the model though they
  /// are no scalars: findComputedNumbers.
  void setConstants(llvm::StringSet<> names) { constants = std::move(names); }
  /// Whether the values of large tensors are wanted.
  bool readsValues() const;
  /// The attribute with the elements of `tensor`. An import that takes notes
  /// for another has zeros in place of those that take no part in folding.
  mlir::ElementsAttr toAttribute(const HostTensor &tensor,
                                 llvm::StringRef name) const;
  /// The role of a float initializer with this name and type: parameter,
  /// frozen, or nothing where it is a constant of the model.
  std::optional<Role> getParameterRole(llvm::StringRef name,
                                       mlir::RankedTensorType type) const;

  /// The module, verified, or all findings.
  llvm::Expected<mlir::OwningOpRef<mlir::ModuleOp>> finish();

private:
  VariableOp declare(llvm::StringRef symbol, Role role,
                     mlir::RankedTensorType type, mlir::ElementsAttr init);

  const ImportOptions &options;
  std::vector<NamePattern> trainableScalars; ///< those of the options
  mlir::MLIRContext *context;
  Rebatch *rebatch;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  /// By ONNX name, and mpc's own by theirs.
  llvm::StringMap<VariableOp> variables, counters;
  llvm::StringSet<> trainable, constants, misplaced;
  VariableOp lastVariable;
  llvm::Error errors = llvm::Error::success();
  bool failed = false;
  int64_t bodyNodes = 0;
};

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_IMPORTER_MODULEIMPORTER_H
