// Regular expressions that choose nodes and parameters by their names.
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

/// A POSIX extended regular expression that is looked for anywhere in a name.
/// Policies of strangers have them too, so they are bounded: llvm::Regex calls
/// itself for each parenthesis and for each letter that a back-reference may
/// skip, and writes out what is repeated.
class NamePattern {
public:
  explicit NamePattern(llvm::StringRef text);

  /// "'[' is not a regular expression: brackets ([ ]) not balanced"; empty if
  /// it is one.
  llvm::StringRef getError() const { return error; }

  /// False too where the text is no expression.
  bool match(llvm::StringRef name) const {
    return expression && expression->match(name);
  }

private:
  std::optional<llvm::Regex> expression;
  std::string error;
};

/// The expressions of a flag that can be repeated.
std::vector<NamePattern>
makeNamePatterns(llvm::ArrayRef<std::string> expressions);

/// True if any of them matches.
bool matchesAny(llvm::ArrayRef<NamePattern> patterns, llvm::StringRef name);

} // namespace mpc

#endif // MPC_COMPILER_SUPPORT_NAMEPATTERN_H
