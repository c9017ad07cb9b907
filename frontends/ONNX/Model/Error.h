// Errors that the reader and the importer report. Each error determines the
// tool's exit code.
//
// Every finding is one ImportError. Several findings travel as one llvm::Error
// (llvm::joinErrors), so that a user sees all errors in a single run.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_MODEL_ERROR_H
#define MPC_FRONTENDS_ONNX_MODEL_ERROR_H

#include "runtime/Names.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/Error.h"

#include <string>
#include <vector>

namespace mpc::onnx_frontend {

/// The kind of an error: the exit code of a command-line tool.
using ErrorKind = ExitCode;

/// One finding. The message is complete: file, node, expected, found.
class ImportError : public llvm::ErrorInfo<ImportError> {
public:
  static char ID;

  ImportError(ErrorKind kind, const llvm::Twine &message)
      : kind(kind), message(message.str()) {}

  ErrorKind getKind() const { return kind; }
  const std::string &getMessage() const { return message; }

  void log(llvm::raw_ostream &os) const override;
  std::error_code convertToErrorCode() const override;

private:
  ErrorKind kind;
  std::string message;
};

/// Returns a finding as an error.
llvm::Error makeError(ErrorKind kind, const llvm::Twine &message);

/// Lists the first `shown` names: "a, b and 4 more".
std::string listFirst(llvm::ArrayRef<std::string> names, size_t shown);

/// Returns the end of a message about the first of `count` cases: " (and 2 more
/// like it)"; empty if `count` is 1 or less.
std::string countOthers(size_t count);

/// The findings of an error, in order, and the tool's exit code: the lowest of
/// all kinds, 0 without findings.
struct Findings {
  int exitCode = 0;
  std::vector<std::string> messages;
};
Findings takeFindings(llvm::Error error);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_MODEL_ERROR_H
