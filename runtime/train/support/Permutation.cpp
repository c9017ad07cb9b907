// Implements an unbiased Fisher-Yates shuffle.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/support/Permutation.h"

#include <cassert>
#include <cstddef>
#include <numeric>
#include <utility>

namespace mpc::runtime::train {

std::vector<int64_t> permutation(int64_t count, uint64_t seed, Stream stream,
                                 uint64_t number) {
  assert(count >= 0 && "a number of samples");
  std::vector<int64_t> order(static_cast<std::size_t>(count));
  std::iota(order.begin(), order.end(), int64_t(0));
  Generator generator(seed, stream, number);
  for (std::size_t i = order.size(); i > 1; --i)
    std::swap(order[i - 1], order[generator.below(i)]);
  return order;
}

} // namespace mpc::runtime::train
