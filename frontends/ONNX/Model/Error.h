// What is wrong with a model, as an error that carries the exit code.
//
// Every finding is one ImportError; several travel as one llvm::Error joined
// with llvm::joinErrors, so that a model is fixed in one round.
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

/// Why an import failed, as the exit code of a command-line tool.
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

/// A finding as an error.
llvm::Error makeError(ErrorKind kind, const llvm::Twine &message);

/// "a, b and 4 more": the first `shown` of them.
std::string listFirst(llvm::ArrayRef<std::string> names, size_t shown);

/// What a message says of the first one of `count`: " (and 2 more like it)".
std::string countOthers(size_t count);

/// All findings of an error, in the order they were made, and the exit code
/// that stands for them: the lowest of their kinds.
struct Findings {
  int exitCode = 0;
  std::vector<std::string> messages;
};
Findings takeFindings(llvm::Error error);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_MODEL_ERROR_H
