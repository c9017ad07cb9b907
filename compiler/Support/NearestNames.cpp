// SPDX-License-Identifier: Apache-2.0
#include "compiler/Support/NearestNames.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"

#include <tuple>

using namespace mpc;
using llvm::StringRef;

/// The most letters by which a suggestion may differ from the word, and the
/// most names in a list.
static constexpr unsigned kMostSlips = 2;
static constexpr size_t kMostNames = 8;

/// The least length of a word with two slips. A shorter word with two other
/// letters is another word, like dice and bce.
static constexpr size_t kLeastForTwo = 5;

std::string mpc::findNearestName(StringRef word,
                                 llvm::ArrayRef<std::string> names) {
  std::string best;
  unsigned bestDistance = kMostSlips + 1;
  for (const std::string &name : names) {
    unsigned distance = word.edit_distance(name, true, bestDistance);
    // Two slips are a typing error only if the word is long and begins like the
    // name. Differences in all letters mean another word.
    const bool isTyped =
        distance < 2 || (word.size() >= kLeastForTwo && !name.empty() &&
                         word.front() == name.front());
    if (isTyped && distance < std::min<size_t>(bestDistance, word.size())) {
      bestDistance = distance;
      best = name;
    }
  }
  return best;
}

// Returns a regular expression without its operators.
static std::string literalOf(StringRef pattern) {
  std::string text;
  for (char c : pattern)
    if (!StringRef("^$\\*+?()[]{}|").contains(c))
      text += c;
  return text;
}

std::string mpc::listNearestNames(StringRef word,
                                  llvm::ArrayRef<std::string> names) {
  const std::string literal = literalOf(word);
  llvm::StringSet<> seen;
  llvm::SmallVector<std::tuple<bool, unsigned, StringRef>> ranked;
  for (StringRef name : names)
    if (seen.insert(name).second)
      ranked.emplace_back(
          !name.contains_insensitive(literal),
          literal.empty() ? 0 : name.edit_distance_insensitive(literal), name);
  if (ranked.empty())
    return "none";
  // Names that contain the word come first, then names by edit distance.
  // Equally near names keep the order of `names`.
  llvm::stable_sort(ranked, [](const auto &a, const auto &b) {
    return std::tie(std::get<0>(a), std::get<1>(a)) <
           std::tie(std::get<0>(b), std::get<1>(b));
  });
  std::string list;
  const size_t listed = std::min(ranked.size(), kMostNames);
  for (size_t i = 0; i < listed; ++i)
    list += (i ? ", '" : "'") + std::get<2>(ranked[i]).str() + "'";
  if (size_t others = ranked.size() - listed)
    list +=
        " and " + std::to_string(others) + (others == 1 ? " other" : " others");
  return list;
}
