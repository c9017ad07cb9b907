// SPDX-License-Identifier: Apache-2.0
#include "compiler/Support/TextTable.h"

#include "compiler/Support/PrintableText.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Unicode.h"

#include <algorithm>

using namespace mpc;

/// The spaces between columns.
static constexpr unsigned kGap = 2;
/// The first column is not shortened below this width.
static constexpr unsigned kLeastWidth = 16;
static constexpr llvm::StringLiteral kEllipsis = "...";

// Returns the width of `text` on a terminal, in character cells.
static unsigned widthOf(llvm::StringRef text) {
  int width = llvm::sys::unicode::columnWidthUTF8(text);
  return width < 0 ? text.size() : width;
}

// Returns the index at which the UTF-8 character behind the one at `at` starts.
static size_t nextCharacter(llvm::StringRef text, size_t at) {
  do
    ++at;
  while (at < text.size() && (text[at] & 0xc0) == 0x80);
  return at;
}

// Returns the longest start of `text` that is at most `width` wide.
static llvm::StringRef takeFront(llvm::StringRef text, unsigned width) {
  size_t end = 0;
  while (end < text.size()) {
    size_t next = nextCharacter(text, end);
    if (widthOf(text.take_front(next)) > width)
      break;
    end = next;
  }
  return text.take_front(end);
}

// Returns the longest end of `text` that is at most `width` wide.
static llvm::StringRef takeBack(llvm::StringRef text, unsigned width) {
  size_t begin = 0;
  while (begin < text.size() && widthOf(text.drop_front(begin)) > width)
    begin = nextCharacter(text, begin);
  return text.drop_front(begin);
}

// Cuts the middle out of `text` if it is wider than `width`. Node names of a
// model often start alike, so the end gets twice the space of the start.
static std::string shorten(llvm::StringRef text, unsigned width) {
  if (widthOf(text) <= width)
    return text.str();
  assert(width >= kEllipsis.size() && "kLeastWidth leaves room to shorten");
  unsigned kept = width - kEllipsis.size();
  return (takeFront(text, kept / 3) + kEllipsis +
          takeBack(text, kept - kept / 3))
      .str();
}

void TextTable::addRow(std::vector<std::string> cells) {
  assert(cells.size() == columns.size() && "one cell per column");
  for (std::string &cell : cells)
    cell = toPrintable(cell);
  rows.push_back(std::move(cells));
}

bool TextTable::print(llvm::raw_ostream &os, unsigned width) const {
  assert(!columns.empty() && "the first column is the one to shorten");
  // Each column is as wide as its widest cell.
  std::vector<unsigned> widths(columns.size(), 0);
  for (const std::vector<std::string> &row : rows)
    for (size_t i = 0; i < columns.size(); ++i)
      widths[i] = std::max(widths[i], widthOf(row[i]));

  // The first column gets the width that the other columns leave, but at least
  // kLeastWidth.
  unsigned total = kGap * (columns.size() - 1);
  for (unsigned each : widths)
    total += each;
  const unsigned whole = widths[0];
  if (width != 0 && total > width)
    widths[0] = std::min(
        whole, std::max(kLeastWidth, whole - std::min(whole, total - width)));

  // Trim spaces at the end of a line, which editors mark as errors.
  for (const std::vector<std::string> &row : rows) {
    std::string line;
    for (size_t i = 0; i < columns.size(); ++i) {
      std::string cell = i == 0 ? shorten(row[i], widths[i]) : row[i];
      std::string padding(widths[i] - widthOf(cell), ' ');
      line += std::string(i == 0 ? 0 : kGap, ' ');
      line += columns[i] == Align::Left ? cell + padding : padding + cell;
    }
    os << llvm::StringRef(line).rtrim(' ') << "\n";
  }
  return widths[0] < whole;
}
