// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/data/Split.h"

#include "runtime/train/support/Permutation.h"

#include <algorithm>
#include <cassert>
#include <map>

namespace mpc::runtime::train {

namespace {
/// A class (`label`), the number of its samples (`count`), and the number of
/// samples chosen from it (`held`).
struct Share {
  int64_t label = 0;
  int64_t count = 0;
  int64_t held = 0;
  int64_t remainder = 0; ///< count * held % total, which decides the rounding
};
} // namespace

/// Returns the number of samples to choose from each class, by label. Between
/// classes with equal remainders, the order in `shuffled` decides.
static std::map<int64_t, int64_t>
shareOut(int64_t held, const std::vector<int64_t> &shuffled,
         const std::vector<int64_t> &classes) {
  std::vector<Share> shares;
  std::map<int64_t, size_t> places;
  for (int64_t sample : shuffled) {
    const int64_t label = classes[size_t(sample)];
    const auto [place, isNew] = places.emplace(label, shares.size());
    if (isNew)
      shares.push_back({label, 0, 0, 0});
    ++shares[place->second].count;
  }
  // Round proportional shares down. Products of two counts need 128 bits.
  int64_t left = held;
  const auto total = static_cast<__int128>(classes.size());
  for (Share &share : shares) {
    const __int128 exact = static_cast<__int128>(share.count) * held;
    share.held = int64_t(exact / total);
    share.remainder = int64_t(exact % total);
    left -= share.held;
  }
  // Classes with the largest remainders give the samples that are still
  // missing.
  std::stable_sort(
      shares.begin(), shares.end(),
      [](const Share &a, const Share &b) { return a.remainder > b.remainder; });
  assert(left >= 0 && left <= int64_t(shares.size()) &&
         "each class gives at most one more than its share");
  std::map<int64_t, int64_t> result;
  for (const Share &share : shares)
    result[share.label] = share.held + (left-- > 0);
  return result;
}

std::vector<bool> chooseHeld(int64_t count, int64_t held, uint64_t seed,
                             const std::vector<int64_t> &classes) {
  assert(held >= 0 && held <= count && "a part of the samples");
  assert((classes.empty() || int64_t(classes.size()) == count) &&
         "a class per sample, or none");
  const std::vector<int64_t> shuffled =
      permutation(count, seed, Stream::Split, 0);
  std::vector<bool> isHeld(static_cast<size_t>(count));
  std::map<int64_t, int64_t> left;
  if (!classes.empty())
    left = shareOut(held, shuffled, classes);
  for (int64_t sample : shuffled) {
    int64_t &remaining = classes.empty() ? held : left[classes[size_t(sample)]];
    if (remaining == 0)
      continue;
    isHeld[size_t(sample)] = true;
    --remaining;
  }
  return isHeld;
}

} // namespace mpc::runtime::train
