// Regular expressions that choose parameters by name: the program's, or what
// the user's file has for it.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_DIFFERENTIATION_NAMEPATTERNS_H
#define MPC_PASSES_DIFFERENTIATION_NAMEPATTERNS_H

#include "compiler/Dialect/MPC/FileNames.h"
#include "compiler/Dialect/MPC/MPC.h"
#include "compiler/Support/ExitCode.h"
#include "compiler/Support/NearestNames.h"

#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/Regex.h"

#include <string>
#include <vector>

namespace mpc {

/// The patterns of a flag; each must match something.
class NamePatterns {
public:
  NamePatterns(llvm::StringRef flag, llvm::ArrayRef<std::string> patterns)
      : flag(flag), patterns(patterns), matched(patterns.size(), false) {}

  bool isGiven() const { return !patterns.empty(); }

  /// Whether any pattern matches; marks those that do.
  bool match(VariableOp variable) {
    llvm::StringRef name = variable.getSymName(), inFile;
    if (auto other = variable->getAttrOfType<mlir::StringAttr>(kFileNameAttr))
      inFile = other.getValue();
    if (isGiven())
      names.push_back(name.str());
    bool any = false;
    for (auto [index, pattern] : llvm::enumerate(patterns)) {
      llvm::Regex expression(pattern);
      if (expression.match(name) ||
          (!inFile.empty() && expression.match(inFile)))
        any = matched[index] = true;
    }
    return any;
  }

  /// Usage, reported, where a pattern is none or has matched nothing.
  llvm::LogicalResult verify(mlir::Location location) const {
    for (auto [pattern, found] : llvm::zip(patterns, matched)) {
      std::string reason;
      if (!llvm::Regex(pattern).isValid(reason))
        return withExitCode(mlir::emitError(location), ExitCode::Usage)
               << flag << ": '" << pattern
               << "' is not a regular expression: " << reason;
      if (!found)
        return withExitCode(mlir::emitError(location), ExitCode::Usage)
               << flag << ": no parameter's name matches '" << pattern
               << "'; there are " << listNearestNames(pattern, names);
    }
    return mlir::success();
  }

private:
  llvm::StringRef flag;
  llvm::ArrayRef<std::string> patterns;
  llvm::SmallVector<bool> matched;
  /// What was matched against, to be listed where a pattern misses.
  std::vector<std::string> names;
};

} // namespace mpc

#endif // MPC_PASSES_DIFFERENTIATION_NAMEPATTERNS_H
