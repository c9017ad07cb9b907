// Assigns an offset in the arena to every allocation, so that allocations that
// hold data at the same time do not overlap. An allocation is the memory of one
// buffer, a plan.arena op, or of all buffers inside a parallel loop. The pass
// places the largest allocation first, each in the tightest gap that fits.
//
// SPDX-License-Identifier: Apache-2.0
#include "passes/Planning/Passes.h"

#include "compiler/Dialect/Plan/Plan.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

namespace mpc {
#define GEN_PASS_DEF_ASSIGNOFFSETSPASS
#include "passes/Planning/Passes.h.inc"
} // namespace mpc

using namespace mlir;
using namespace mpc;

namespace {
/// An allocation in the arena: the number of bytes, and the first and last step
/// that use the allocation. For a parallel loop, one allocation stands for all
/// buffers of the body.
struct Allocation {
  plan::ArenaOp op;
  plan::ForOp loop;
  int64_t bytes = 0;
  unsigned first = ~0u, last = 0;
  int64_t offset = 0;

  int64_t end() const { return offset + bytes; }
};

struct AssignOffsetsPass
    : public mpc::impl::AssignOffsetsPassBase<AssignOffsetsPass> {
  void runOnOperation() override;
};
} // namespace

/// Buffers start at cache lines.
static constexpr int64_t kAlignment = 64;

namespace {
/// Numbers the ops of a program in order. Ops in the body of a loop or branch
/// get the numbers after the loop or branch. end() of a loop is the number of
/// the last op in the body.
class Positions {
public:
  explicit Positions(plan::ProgramOp program) {
    number(program.getBody().front());
  }
  unsigned begin(Operation *op) const { return begins.lookup(op); }
  unsigned end(Operation *op) const { return ends.lookup(op); }

private:
  void number(Block &block) {
    for (Operation &op : block) {
      begins[&op] = next++;
      for (Region &body : op.getRegions())
        if (!body.empty())
          number(body.front());
      ends[&op] = next - 1;
    }
  }

  DenseMap<Operation *, unsigned> begins, ends;
  unsigned next = 0;
};
} // namespace

// Records the uses of an allocation, through views and parts, as positions. A
// use in a nested loop or branch counts as a use by the whole loop or branch,
// because every iteration may use the allocation.
static void collectUses(Allocation &allocation, const Positions &positions) {
  Block *list = allocation.op->getBlock();
  SmallVector<Value> worklist = {allocation.op.getBuffer()};
  while (!worklist.empty())
    for (Operation *user : worklist.pop_back_val().getUsers()) {
      if (isa<plan::ViewOp, plan::PartOp>(user)) {
        worklist.push_back(user->getResult(0));
        continue;
      }
      Operation *step = list->findAncestorOpInBlock(*user);
      assert(step && "an allocation is used in its own list of steps");
      allocation.first = std::min(allocation.first, positions.begin(step));
      // Outputs are read after the program has run.
      allocation.last = isa<plan::OutputOp>(user)
                            ? ~0u
                            : std::max(allocation.last, positions.end(step));
    }
}

static Allocation makeAllocation(plan::ArenaOp arena,
                                 const Positions &positions) {
  Allocation allocation;
  allocation.op = arena;
  int64_t bytes =
      plan::getBufferBytes(cast<MemRefType>(arena.getBuffer().getType()));
  allocation.bytes = llvm::alignTo(bytes, kAlignment);
  collectUses(allocation, positions);
  return allocation;
}

namespace {
/// The memory between two offsets.
struct AddressRange {
  int64_t begin, end;
};

/// A sorted list of address ranges, none of which overlap or touch.
class Extents {
public:
  void add(AddressRange added) {
    assert(added.begin >= 0 && added.begin <= added.end && "an extent");
    // Merge overlapping and touching extents: [0, 4) and [4, 8) become [0, 8).
    auto *from = llvm::partition_point(list, [&](const AddressRange &known) {
      return known.end < added.begin;
    });
    auto *to = from;
    for (; to != list.end() && to->begin <= added.end; ++to)
      added = {std::min(added.begin, to->begin), std::max(added.end, to->end)};
    list.insert(list.erase(from, to), added);
  }
  ArrayRef<AddressRange> get() const { return list; }

private:
  SmallVector<AddressRange, 1> list;
};

/// The addresses that placed allocations occupy at each point in time, as a
/// segment tree over time. A node of the tree covers a time span. The node
/// stores the addresses occupied during the whole span (`throughout`) and those
/// occupied at some time of the span (`anywhere`). Allocations used at similar
/// times mostly have adjacent addresses, so one range stands for many
/// allocations.
class TakenMemory {
public:
  explicit TakenMemory(ArrayRef<Allocation> allocations) {
    // If two allocations are ever in use together, both are in use when the
    // later begins. So only the points in time at which an allocation begins
    // matter.
    for (const Allocation &allocation : allocations)
      starts.push_back(allocation.first);
    llvm::sort(starts);
    starts.erase(llvm::unique(starts), starts.end());
    spans.resize(4 * starts.size());
  }

  void add(const Allocation &allocation) {
    assert(allocation.bytes % kAlignment == 0 &&
           allocation.offset % kAlignment == 0 &&
           "allocations fill cache lines");
    add(0, {0, starts.size()}, timeOf(allocation),
        {allocation.offset, allocation.end()});
  }

  /// Returns the memory taken while `allocation` holds data, in order of
  /// offset.
  SmallVector<AddressRange> findDuring(const Allocation &allocation) const {
    SmallVector<AddressRange> found;
    find(0, {0, starts.size()}, timeOf(allocation), found);
    llvm::sort(found, [](const AddressRange &a, const AddressRange &b) {
      return a.begin < b.begin;
    });
    return found;
  }

private:
  /// A range of indices into `starts`; `end` is exclusive.
  struct Time {
    size_t begin, end;

    bool meets(Time other) const {
      return begin < other.end && other.begin < end;
    }
    bool covers(Time other) const {
      return begin <= other.begin && other.end <= end;
    }
    std::pair<Time, Time> halves() const {
      const size_t middle = (begin + end) / 2;
      return {{begin, middle}, {middle, end}};
    }
  };
  struct Span {
    Extents throughout, anywhere;
  };

  Time timeOf(const Allocation &allocation) const {
    auto *begin = llvm::lower_bound(starts, allocation.first);
    auto *end = llvm::upper_bound(starts, allocation.last);
    return {size_t(begin - starts.begin()), size_t(end - starts.begin())};
  }

  void add(size_t node, Time span, Time time, AddressRange extent) {
    if (!time.meets(span))
      return;
    spans[node].anywhere.add(extent);
    if (time.covers(span))
      return spans[node].throughout.add(extent);
    auto [first, second] = span.halves();
    add(2 * node + 1, first, time, extent);
    add(2 * node + 2, second, time, extent);
  }

  void find(size_t node, Time span, Time time,
            SmallVectorImpl<AddressRange> &found) const {
    if (!time.meets(span))
      return;
    if (time.covers(span))
      return llvm::append_range(found, spans[node].anywhere.get());
    llvm::append_range(found, spans[node].throughout.get());
    auto [first, second] = span.halves();
    find(2 * node + 1, first, time, found);
    find(2 * node + 2, second, time, found);
  }

  SmallVector<unsigned> starts;
  std::vector<Span> spans;
};
} // namespace

// Returns the offset of the tightest gap in `taken`, or the end of `taken` if
// no gap fits.
static int64_t findGap(int64_t bytes, ArrayRef<AddressRange> taken) {
  assert(llvm::is_sorted(taken,
                         [](const AddressRange &a, const AddressRange &b) {
                           return a.begin < b.begin;
                         }) &&
         "taken memory comes in order");
  int64_t best = -1, bestRoom = 0, cursor = 0;
  for (const AddressRange &extent : taken) {
    int64_t room = extent.begin - cursor;
    // No gap is tighter than an exact fit.
    if (room == bytes)
      return cursor;
    if (room > bytes && (best < 0 || room < bestRoom)) {
      best = cursor;
      bestRoom = room;
    }
    cursor = std::max(cursor, extent.end);
  }
  return best < 0 ? cursor : best;
}

static int64_t assignOffsets(MutableArrayRef<Allocation> allocations) {
  // Place large allocations first; small allocations fit into the remaining
  // gaps.
  SmallVector<Allocation *> bySize;
  for (Allocation &allocation : allocations)
    bySize.push_back(&allocation);
  llvm::stable_sort(bySize, [](const Allocation *a, const Allocation *b) {
    return a->bytes > b->bytes;
  });
  int64_t total = 0;
  TakenMemory taken(allocations);
  for (Allocation *allocation : bySize) {
    allocation->offset =
        findGap(allocation->bytes, taken.findDuring(*allocation));
    total = std::max(total, allocation->end());
    taken.add(*allocation);
  }
  return total;
}

//===----------------------------------------------------------------------===//
// Programs and parallel loops
//===----------------------------------------------------------------------===//

/// Limits the private memory of one worker in a parallel loop to about a core's
/// cache. A loop that needs more runs its iterations in sequence, and all
/// workers share each step.
static constexpr int64_t kMostPrivateBytes = 4 << 20;

// Assigns offsets to the buffers inside the parallel loop `loop`, from 0, and
// adds one allocation with room for all of them to `allocations`. Returns
// false, and does nothing, if the memory exceeds kMostPrivateBytes.
static bool addPrivate(plan::ForOp loop, const Positions &positions,
                       SmallVector<Allocation> &allocations) {
  // The walk includes the buffers of nested loops, which run inside an
  // iteration.
  SmallVector<Allocation> own;
  loop.getBody().walk([&](plan::ArenaOp arena) {
    own.push_back(makeAllocation(arena, positions));
  });
  int64_t bytes = assignOffsets(own);
  if (bytes > kMostPrivateBytes)
    return false;
  assert(llvm::all_of(own,
                      [&](const Allocation &allocation) {
                        return allocation.end() <= bytes;
                      }) &&
         "private allocations lie in the loop's memory");
  for (Allocation &allocation : own)
    allocation.op.setOffset(allocation.offset);
  loop.getBody().walk([](plan::ForOp inside) { inside.setParallel(false); });
  Allocation allocation;
  allocation.loop = loop;
  allocation.bytes = bytes;
  allocation.first = positions.begin(loop);
  allocation.last = positions.end(loop);
  allocations.push_back(allocation);
  return true;
}

// Adds the allocations declared in `block` and in nested bodies. A parallel
// loop becomes one allocation, or is made sequential.
static void collectAllocations(Block &block, const Positions &positions,
                               SmallVector<Allocation> &allocations) {
  for (Operation &op : block) {
    if (auto arena = dyn_cast<plan::ArenaOp>(op))
      allocations.push_back(makeAllocation(arena, positions));
    auto loop = dyn_cast<plan::ForOp>(op);
    if (loop && loop.getParallel() && addPrivate(loop, positions, allocations))
      continue;
    if (loop)
      loop.setParallel(false);
    for (Region &body : op.getRegions())
      if (!body.empty())
        collectAllocations(body.front(), positions, allocations);
  }
}

// Stores the assigned offset in the op of the allocation. For a loop, also adds
// the offset to the offsets of all buffers inside the loop.
static void place(Allocation &allocation) {
  assert(bool(allocation.op) != bool(allocation.loop) &&
         "an allocation is a buffer or a loop");
  if (!allocation.loop) {
    allocation.op.setOffset(allocation.offset);
    return;
  }
  allocation.loop.setPrivateOffset(allocation.offset);
  allocation.loop.setPrivateBytes(allocation.bytes);
  allocation.loop.getBody().walk([&](plan::ArenaOp inside) {
    assert(inside.getOffset() &&
           "addPrivate placed the allocations of the loop");
    inside.setOffset(*inside.getOffset() + allocation.offset);
  });
}

void AssignOffsetsPass::runOnOperation() {
  for (auto program : getOperation().getOps<plan::ProgramOp>()) {
    Positions positions(program);
    SmallVector<Allocation> allocations;
    collectAllocations(program.getBody().front(), positions, allocations);
    int64_t total = assignOffsets(allocations);
    for (Allocation &allocation : allocations) {
      assert(allocation.end() <= total && "an allocation lies in the arena");
      place(allocation);
    }
    program.setArenaBytes(total);
  }
}
