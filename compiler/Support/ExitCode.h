// Attaches exit codes to diagnostics. A pass that rejects a user's model or
// option chooses a documented code. A diagnostic without a code is an internal
// failure of mpc.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_SUPPORT_EXITCODE_H
#define MPC_COMPILER_SUPPORT_EXITCODE_H

#include "runtime/Names.h"

#include "mlir/IR/Diagnostics.h"

namespace mpc {

/// Marks a diagnostic with a code before it is reported:
///   return withExitCode(op.emitError(), ExitCode::Unsupported) << "...";
inline mlir::InFlightDiagnostic
withExitCode(mlir::InFlightDiagnostic diagnostic, ExitCode code) {
  if (mlir::Diagnostic *underlying = diagnostic.getUnderlyingDiagnostic())
    underlying->getMetadata().emplace_back(static_cast<int64_t>(code));
  return diagnostic;
}

/// Returns the code of a diagnostic; Internal if it has none.
inline ExitCode getExitCode(mlir::Diagnostic &diagnostic) {
  for (const mlir::DiagnosticArgument &argument : diagnostic.getMetadata())
    if (argument.getKind() ==
        mlir::DiagnosticArgument::DiagnosticArgumentKind::Integer)
      return static_cast<ExitCode>(argument.getAsInteger());
  return ExitCode::Internal;
}

} // namespace mpc

#endif // MPC_COMPILER_SUPPORT_EXITCODE_H
