// From a model to a compiled module: import, then the pipeline. Everything that
// goes wrong is printed, and becomes an exit code.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TOOLS_MPC_DRIVER_H
#define MPC_TOOLS_MPC_DRIVER_H

#include "compiler/Support/ExitCode.h"
#include "tools/mpc/Options.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"

namespace mpc::tools {

/// One compilation with the context it happens in.
class Driver {
public:
  Driver();

  /// Imports the model and runs all stages up to `last`. On failure every
  /// finding has been printed to stderr, one a line.
  ExitCode compile(const CompileOptions &options, Stage last);

  mlir::ModuleOp getModule() { return *module; }
  mlir::MLIRContext &getContext() { return context; }

private:
  ExitCode import(const CompileOptions &options);

  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> module;
};

/// Prints "error: MESSAGE" to stderr and returns `code`.
ExitCode reportError(ExitCode code, const llvm::Twine &message);
/// Prints every finding of `error`; returns the exit code they stand for.
ExitCode reportError(llvm::Error error);

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_DRIVER_H
