// Matches names of nodes and parameters with regular expressions.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_SUPPORT_NAMEPATTERN_H
#define MPC_COMPILER_SUPPORT_NAMEPATTERN_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/Support/Regex.h"

#include <optional>
#include <string>
#include <vector>

namespace mpc {

/// A POSIX extended regular expression that may match anywhere in a name.
/// Untrusted policy files contain expressions too, so size and features are
/// limited. llvm::Regex recurses for each parenthesis and for each letter that
/// a back-reference may skip, and writes out repetitions: a{1000} becomes 1000
/// letters.
class NamePattern {
public:
  explicit NamePattern(llvm::StringRef text);

  /// The error, such as "'[' is not a regular expression: brackets ([ ]) not
  /// balanced"; empty if the expression is valid.
  llvm::StringRef getError() const { return error; }

  /// True if the expression matches anywhere in `name`. False if the expression
  /// is invalid.
  bool match(llvm::StringRef name) const {
    return expression && expression->match(name);
  }

private:
  std::optional<llvm::Regex> expression;
  std::string error;
};

/// Compiles the expressions of a flag that may be repeated.
std::vector<NamePattern>
makeNamePatterns(llvm::ArrayRef<std::string> expressions);

/// True if any of the patterns matches.
bool matchesAny(llvm::ArrayRef<NamePattern> patterns, llvm::StringRef name);

} // namespace mpc

#endif // MPC_COMPILER_SUPPORT_NAMEPATTERN_H
