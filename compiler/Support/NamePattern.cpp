// SPDX-License-Identifier: Apache-2.0
#include "compiler/Support/NamePattern.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MathExtras.h"

using llvm::StringRef;

// Limits on an expression: its bytes (it may list all nodes of a large model),
// its opening parentheses, and its bytes with all repetitions written out.
static constexpr size_t kLongest = 65536;
static constexpr size_t kMostGroups = 1000;
static constexpr uint64_t kLongestWrittenOut = 100000;

// Returns how often the count at the start of `text`, behind a {, repeats at
// most: 2 for `2}` and `2,}`, 5 for `2,5}`. Returns 1 if there is no count.
static uint64_t getCount(StringRef text) {
  uint64_t least = 1, most = 1;
  if (text.consumeInteger(10, least))
    return 1;
  if (!text.consume_front(",") || text.consumeInteger(10, most))
    return std::max<uint64_t>(least, 1);
  return std::max({least, most, uint64_t(1)});
}

// Describes a part of the expression `text` that llvm::Regex could not handle
// in reasonable time or stack; empty if there is none. The limits are strict:
// parentheses in brackets count too, and all repetitions count as nested. An
// exact scan would have to parse every oddity as LLVM does.
static std::string findExcess(StringRef text) {
  const auto tell = [](const llvm::Twine &found, const llvm::Twine &expected) {
    return ("found " + found + ", expected " + expected).str();
  };
  if (text.size() > kLongest)
    return tell(llvm::Twine(text.size()) + " bytes",
                "at most " + llvm::Twine(kLongest));
  if (size_t groups = text.count('('); groups > kMostGroups)
    return tell(llvm::Twine(groups) + " opening parentheses",
                "at most " + llvm::Twine(kMostGroups));
  // Extended expressions of POSIX have no back-references, but llvm::Regex
  // does.
  for (size_t i = 0; i + 1 < text.size(); ++i) {
    if (text[i] != '\\')
      continue;
    if (text[i + 1] >= '1' && text[i + 1] <= '9')
      return tell("the back-reference " + text.substr(i, 2), "none");
    ++i;
  }
  uint64_t writtenOut = std::max<uint64_t>(text.size(), 1);
  for (size_t i = text.find('{'); i != StringRef::npos; i = text.find('{', i)) {
    ++i;
    writtenOut =
        llvm::SaturatingMultiply(writtenOut, getCount(text.drop_front(i)));
  }
  if (writtenOut > kLongestWrittenOut)
    return tell("repetitions ({2,5}) that write it out to " +
                    llvm::Twine(writtenOut) + " characters",
                "at most " + llvm::Twine(kLongestWrittenOut));
  return "";
}

// Shortens a long text for messages: its first and last 40 bytes, with ...
// between.
static std::string shorten(StringRef text) {
  constexpr size_t kWhole = 100, kPart = 40;
  if (text.size() <= kWhole)
    return text.str();
  return (text.take_front(kPart) + "..." + text.take_back(kPart)).str();
}

mpc::NamePattern::NamePattern(StringRef text) {
  std::string reason = findExcess(text);
  if (reason.empty()) {
    expression.emplace(text);
    if (expression->isValid(reason))
      return;
    expression.reset();
  }
  error = "'" + shorten(text) + "' is not a regular expression: " + reason;
  if (text.contains("(?"))
    error += "; help: (?...) is no part of POSIX's extended expressions, so "
             "there is no look-ahead; name what to match instead";
}

std::vector<mpc::NamePattern>
mpc::makeNamePatterns(llvm::ArrayRef<std::string> expressions) {
  return std::vector<NamePattern>(expressions.begin(), expressions.end());
}

bool mpc::matchesAny(llvm::ArrayRef<NamePattern> patterns, StringRef name) {
  return llvm::any_of(patterns, [&](const NamePattern &pattern) {
    return pattern.match(name);
  });
}
