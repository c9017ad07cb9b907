// Builds the module of an import: its variables, and the errors found so far.
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

/// Builds the module and collects the errors of an import.
class ModuleImporter {
public:
  /// Limits the nodes that unrolled loops may import: nested loops multiply
  /// them.
  static constexpr int64_t kMostBodyNodes = 300000;

  /// `rebatch` is null unless the model was exported for another batch size.
  ModuleImporter(const ImportOptions &options, mlir::MLIRContext *context,
                 Rebatch *rebatch = nullptr);
  /// Drops the errors of an import that was abandoned for another reason.
  ~ModuleImporter() { llvm::consumeError(std::move(errors)); }

  const ImportOptions &getOptions() const { return options; }
  mlir::MLIRContext *getContext() const { return context; }
  mlir::ModuleOp getModule() const { return *module; }
  Rebatch *getRebatch() const { return rebatch; }

  /// Adds an error. The import continues, to find more.
  void report(llvm::Error error) {
    errors = llvm::joinErrors(std::move(errors), std::move(error));
    failed = true;
  }
  bool hasFailed() const { return failed; }
  /// True at the first call for `op`, so that one warning covers all nodes of
  /// the op.
  bool isFirst(llvm::StringRef op) { return misplaced.insert(op).second; }
  /// Counts one import of a node in a body; an unrolled loop imports a node
  /// once per iteration. Returns false if the model exceeds kMostBodyNodes.
  bool countBodyNode() { return ++bodyNodes <= kMostBodyNodes; }
  /// Calls `attempt` and drops the errors it reports. Returns true if there
  /// were none.
  bool succeeds(llvm::function_ref<void()> attempt);
  /// Warns about the model; the import continues.
  void warn(const llvm::Twine &message) {
    mlir::emitWarning(mlir::UnknownLoc::get(context)) << message;
  }

  /// Returns the variable for the ONNX value `name`, and declares it at its
  /// first use. Without `init` the variable starts at zero.
  VariableOp getVariable(llvm::StringRef name, Role role,
                         mlir::RankedTensorType type,
                         const HostTensor *init = nullptr);
  /// Returns an i64 scalar variable of role counter that starts at zero.
  VariableOp getCounter(llvm::StringRef name);
  /// The variable for the ONNX value `name`, or null.
  VariableOp findVariable(llvm::StringRef name) const {
    return variables.lookup(name);
  }

  /// The batch axis of the input `name` of type `type`, or kNoBatchAxis.
  int64_t getBatchAxis(llvm::StringRef name, mlir::RankedTensorType type) const;

  /// Sets the float initializers that are trained by default (findTrainable).
  void setTrainable(llvm::StringSet<> names) { trainable = std::move(names); }
  /// Sets the float initializers of rank 1 or more that are constants, not
  /// state, such as numbers that an exporter computed (findComputedNumbers).
  void setConstants(llvm::StringSet<> names) { constants = std::move(names); }
  /// True if the module must hold the elements of large tensors; false if the
  /// caller needs only shapes.
  bool readsValues() const;
  /// Returns an attribute with the elements of `tensor`. If readsValues() is
  /// false, the elements of large tensors become zeros. No folder reads large
  /// tensors.
  mlir::ElementsAttr toAttribute(const HostTensor &tensor,
                                 llvm::StringRef name) const;
  /// The role of the float initializer `name`: parameter or frozen; nullopt if
  /// it is a constant of the model.
  std::optional<Role> getParameterRole(llvm::StringRef name,
                                       mlir::RankedTensorType type) const;

  /// Returns the verified module, or all errors.
  llvm::Expected<mlir::OwningOpRef<mlir::ModuleOp>> finish();

private:
  VariableOp declare(llvm::StringRef symbol, Role role,
                     mlir::RankedTensorType type, mlir::ElementsAttr init);

  const ImportOptions &options;
  std::vector<NamePattern> trainableScalars; ///< parsed from the options
  mlir::MLIRContext *context;
  Rebatch *rebatch;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  /// The module's variables: those of ONNX values by ONNX name, and mpc's own
  /// counters by symbol.
  llvm::StringMap<VariableOp> variables, counters;
  llvm::StringSet<> trainable, constants, misplaced;
  VariableOp lastVariable;
  llvm::Error errors = llvm::Error::success();
  bool failed = false;
  int64_t bodyNodes = 0;
};

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_IMPORTER_MODULEIMPORTER_H
