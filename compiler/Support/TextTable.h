// Prints text in columns as wide as their contents.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_SUPPORT_TEXTTABLE_H
#define MPC_COMPILER_SUPPORT_TEXTTABLE_H

#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/raw_ostream.h"

#include <string>
#include <vector>

namespace mpc {

/// A table of text. Cells come from models and may have any bytes: invalid
/// UTF-8 is replaced, and control characters become spaces.
class TextTable {
public:
  enum class Align { Left, Right };

  /// `columns` has the alignment of each column.
  explicit TextTable(std::vector<Align> columns)
      : columns(std::move(columns)) {}

  /// Adds a row with one cell per column.
  void addRow(std::vector<std::string> cells);

  /// Prints the table, at most `width` characters wide if shortening the first
  /// column allows; 0 means no limit. Returns true if a text was shortened.
  bool print(llvm::raw_ostream &os, unsigned width = 0) const;

private:
  std::vector<Align> columns;
  std::vector<std::vector<std::string>> rows;
};

} // namespace mpc

#endif // MPC_COMPILER_SUPPORT_TEXTTABLE_H
