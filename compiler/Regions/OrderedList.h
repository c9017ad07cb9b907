// Numbers in an order that can be asked for at once and changed cheaply.
//
// Every number has a label, and labels grow along the list. Where two
// neighbours leave no label between them, those of the smallest range around
// them that is sparse enough are spread evenly, which takes logarithmic time
// per move on average (Bender et al., "Two Simplified Algorithms for
// Maintaining Order in a List").
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_REGIONS_ORDEREDLIST_H
#define MPC_COMPILER_REGIONS_ORDEREDLIST_H

#include "llvm/ADT/SmallVector.h"

#include <cstdint>

namespace mpc {

class OrderedList {
public:
  /// The numbers from 0 to `size` - 1, in this order.
  explicit OrderedList(unsigned size);

  bool isBefore(unsigned a, unsigned b) const { return labels[a] < labels[b]; }
  void moveBefore(unsigned item, unsigned place);
  void moveAfter(unsigned item, unsigned place);
  void remove(unsigned item);

private:
  void insertAfter(unsigned item, unsigned place);
  bool hasRoomAfter(unsigned place) const;
  void makeRoomAround(unsigned place);

  /// Stands before the first and behind the last number.
  unsigned end;
  llvm::SmallVector<uint64_t> labels;
  llvm::SmallVector<unsigned> next, previous;
};

} // namespace mpc

#endif // MPC_COMPILER_REGIONS_ORDEREDLIST_H
