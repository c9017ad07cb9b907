// Implements import errors, and helpers for messages that list several names.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Model/Error.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>

using namespace mpc::onnx_frontend;

char ImportError::ID = 0;

void ImportError::log(llvm::raw_ostream &os) const { os << message; }

std::error_code ImportError::convertToErrorCode() const {
  return llvm::inconvertibleErrorCode();
}

llvm::Error mpc::onnx_frontend::makeError(ErrorKind kind,
                                          const llvm::Twine &message) {
  return llvm::make_error<ImportError>(kind, message);
}

std::string mpc::onnx_frontend::listFirst(llvm::ArrayRef<std::string> names,
                                          size_t shown) {
  std::string text = llvm::join(names.take_front(shown), ", ");
  if (names.size() > shown)
    text += " and " + std::to_string(names.size() - shown) + " more";
  return text;
}

std::string mpc::onnx_frontend::countOthers(size_t count) {
  return count > 1 ? " (and " + std::to_string(count - 1) + " more like it)"
                   : "";
}

Findings mpc::onnx_frontend::takeFindings(llvm::Error error) {
  Findings findings;
  llvm::handleAllErrors(std::move(error), [&](const ImportError &finding) {
    int code = static_cast<int>(finding.getKind());
    findings.exitCode =
        findings.exitCode ? std::min(findings.exitCode, code) : code;
    findings.messages.push_back(finding.getMessage());
  });
  return findings;
}
