// Regular expressions that choose parameters by name: the variable's name in
// the program, or the name in the user's file.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_DIFFERENTIATION_NAMEPATTERNS_H
#define MPC_PASSES_DIFFERENTIATION_NAMEPATTERNS_H

#include "compiler/Dialect/MPC/FileNames.h"
#include "compiler/Dialect/MPC/MPC.h"
#include "compiler/Support/ExitCode.h"
#include "compiler/Support/NamePattern.h"
#include "compiler/Support/NearestNames.h"

#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/SmallVector.h"

#include <string>
#include <vector>

namespace mpc {

/// The regular expressions that the user gives with a flag. Each must match at
/// least one parameter.
class NamePatterns {
public:
  NamePatterns(llvm::StringRef flag, llvm::ArrayRef<std::string> texts)
      : flag(flag), texts(texts), patterns(makeNamePatterns(texts)),
        matched(texts.size(), false) {}

  bool isGiven() const { return !patterns.empty(); }

  /// True if any pattern matches `variable`. Records which patterns matched.
  bool match(VariableOp variable) {
    llvm::StringRef inFile;
    if (auto other = variable->getAttrOfType<mlir::StringAttr>(kFileNameAttr))
      inFile = other.getValue();
    return match(variable.getSymName(), inFile);
  }

  /// Like the other `match`, for a value that is no variable.
  bool match(llvm::StringRef name, llvm::StringRef inFile = "") {
    if (isGiven())
      names.push_back(name.str());
    bool any = false;
    for (auto [index, pattern] : llvm::enumerate(patterns)) {
      if (pattern.match(name) || (!inFile.empty() && pattern.match(inFile)))
        any = matched[index] = true;
    }
    return any;
  }

  /// Reports a usage error if a pattern is malformed or has matched nothing.
  llvm::LogicalResult verify(mlir::Location location) const {
    for (auto [text, pattern, found] : llvm::zip(texts, patterns, matched)) {
      if (llvm::StringRef error = pattern.getError(); !error.empty())
        return withExitCode(mlir::emitError(location), ExitCode::Usage)
               << flag << ": " << error;
      if (!found)
        return withExitCode(mlir::emitError(location), ExitCode::Usage)
               << flag << ": no parameter's name matches '" << text
               << "'; there are " << listNearestNames(text, names);
    }
    return mlir::success();
  }

private:
  llvm::StringRef flag;
  llvm::ArrayRef<std::string> texts;
  std::vector<NamePattern> patterns;
  llvm::SmallVector<bool> matched;
  /// The names tried, to be listed if a pattern matches nothing.
  std::vector<std::string> names;
};

} // namespace mpc

#endif // MPC_PASSES_DIFFERENTIATION_NAMEPATTERNS_H
