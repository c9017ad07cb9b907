// SPDX-License-Identifier: Apache-2.0
#include "compiler/Regions/OrderedList.h"

#include "llvm/Support/ErrorHandling.h"

#include <cassert>

using namespace mpc;

/// Labels lie between 0 and this bound. The sentinel counts as label 0 before
/// the first number, and as kLabels behind the last number.
static constexpr uint64_t kLabels = uint64_t(1) << 62;

OrderedList::OrderedList(unsigned size) : end(size) {
  uint64_t stride = kLabels / (size + uint64_t(1));
  for (unsigned i = 0; i < size; ++i) {
    labels.push_back((i + 1) * stride);
    next.push_back(i + 1);
    previous.push_back(i == 0 ? end : i - 1);
  }
  labels.push_back(0);
  next.push_back(size == 0 ? end : 0);
  previous.push_back(size == 0 ? end : size - 1);
}

void OrderedList::remove(unsigned item) {
  assert(item < end && "the end stays");
  assert(next[previous[item]] == item && "it is in the list");
  next[previous[item]] = next[item];
  previous[next[item]] = previous[item];
}

void OrderedList::moveAfter(unsigned item, unsigned place) {
  assert(place < end && "a number of the list");
  assert(item != place && "a number has no place beside itself");
  remove(item);
  insertAfter(item, place);
}

void OrderedList::moveBefore(unsigned item, unsigned place) {
  assert(place < end && "a number of the list");
  assert(item != place && "a number has no place beside itself");
  remove(item);
  insertAfter(item, previous[place]);
}

bool OrderedList::hasRoomAfter(unsigned place) const {
  uint64_t last = next[place] == end ? kLabels : labels[next[place]];
  return last - labels[place] > 1;
}

void OrderedList::insertAfter(unsigned item, unsigned place) {
  if (!hasRoomAfter(place))
    makeRoomAround(place);
  uint64_t last = next[place] == end ? kLabels : labels[next[place]];
  labels[item] = labels[place] + (last - labels[place]) / 2;
  next[item] = next[place];
  previous[item] = place;
  previous[next[item]] = item;
  next[place] = item;
  assert(labels[place] < labels[item] && labels[item] < last &&
         "labels grow along the list");
}

// Makes labels around `place` free: spreads evenly the labels of the smallest
// range around `place` that is sparse enough. The larger the range, the smaller
// the share of used labels must be.
void OrderedList::makeRoomAround(unsigned place) {
  unsigned first = place == end ? next[end] : place, last = place;
  uint64_t count = place == end ? 0 : 1;
  double allowed = 1;
  // Double the range at each attempt, until the range is sparse enough.
  for (uint64_t size = 2; size <= kLabels; size *= 2) {
    allowed *= 4.0 / 3.0;
    uint64_t low = labels[place] & ~(size - 1);
    for (; previous[first] != end && labels[previous[first]] >= low; ++count)
      first = previous[first];
    for (; next[last] != end && labels[next[last]] < low + size; ++count)
      last = next[last];
    uint64_t stride = size / (count + 1);
    if (stride < 4 || static_cast<double>(count) > allowed)
      continue;
    for (uint64_t i = 1; i <= count; ++i, first = next[first])
      labels[first] = low + i * stride;
    return;
  }
  llvm_unreachable("more numbers than labels");
}
