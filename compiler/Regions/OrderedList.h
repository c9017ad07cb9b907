// A list of numbers whose order is cheap to test and to change.
//
// Every number has a label, and labels grow along the list, so a comparison of
// labels compares two positions. If no label is free between two neighbours,
// the labels of the smallest sparse range around both are spread evenly. A move
// takes logarithmic time on average (Bender et al., "Two Simplified Algorithms
// for Maintaining Order in a List").
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_REGIONS_ORDEREDLIST_H
#define MPC_COMPILER_REGIONS_ORDEREDLIST_H

#include "llvm/ADT/SmallVector.h"

#include <cstdint>

namespace mpc {

class OrderedList {
public:
  /// Creates the list 0, 1, ..., `size` - 1.
  explicit OrderedList(unsigned size);

  bool isBefore(unsigned a, unsigned b) const {
    assert(a < end && b < end && "the sentinel is neither first nor last");
    return labels[a] < labels[b];
  }
  void moveBefore(unsigned item, unsigned place);
  void moveAfter(unsigned item, unsigned place);
  void remove(unsigned item);

private:
  void insertAfter(unsigned item, unsigned place);
  bool hasRoomAfter(unsigned place) const;
  void makeRoomAround(unsigned place);

  /// The sentinel before the first and after the last number.
  unsigned end;
  llvm::SmallVector<uint64_t> labels;
  llvm::SmallVector<unsigned> next, previous;
};

} // namespace mpc

#endif // MPC_COMPILER_REGIONS_ORDEREDLIST_H
