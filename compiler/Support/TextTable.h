// Text in columns that are as wide as what stands in them.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_SUPPORT_TEXTTABLE_H
#define MPC_COMPILER_SUPPORT_TEXTTABLE_H

#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/raw_ostream.h"

#include <string>
#include <vector>

namespace mpc {

/// Rows of cells. Cells come from models, whose bytes may be anything: what is
/// not UTF-8 is replaced, and control characters become spaces.
class TextTable {
public:
  enum class Align { Left, Right };

  /// A column each.
  explicit TextTable(std::vector<Align> columns)
      : columns(std::move(columns)) {}

  /// As many cells as there are columns.
  void addRow(std::vector<std::string> cells);

  /// Prints lines of at most `width` characters, as far as shortening the
  /// first column in the middle of its texts allows; 0: as wide as need be.
  /// Whether anything was shortened.
  bool print(llvm::raw_ostream &os, unsigned width = 0) const;

private:
  std::vector<Align> columns;
  std::vector<std::vector<std::string>> rows;
};

} // namespace mpc

#endif // MPC_COMPILER_SUPPORT_TEXTTABLE_H
