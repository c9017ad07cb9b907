// Gives every slice of the arena its offset, so that slices which are live at
// the same time do not overlap: the largest first, each into the tightest gap.
//
// SPDX-License-Identifier: Apache-2.0
#include "passes/Planning/Passes.h"

#include "compiler/Dialect/Plan/Plan.h"

#include "llvm/Support/MathExtras.h"

namespace mpc {
#define GEN_PASS_DEF_ASSIGNOFFSETSPASS
#include "passes/Planning/Passes.h.inc"
} // namespace mpc

using namespace mlir;
using namespace mpc;

namespace {
/// A slice of the arena: its size and the steps between which it holds data.
struct Slice {
  plan::ArenaOp op;
  int64_t bytes = 0;
  unsigned first = ~0u, last = 0;
  int64_t offset = 0;

  bool isLiveWith(const Slice &other) const {
    return first <= other.last && other.first <= last;
  }
  int64_t end() const { return offset + bytes; }
};

struct AssignOffsetsPass
    : public mpc::impl::AssignOffsetsPassBase<AssignOffsetsPass> {
  void runOnOperation() override;
};
} // namespace

/// Buffers start at cache lines.
static constexpr int64_t kAlignment = 64;

// The uses of a slice through views, as indices of the program's ops. Steps
// nested in another count as that one.
static void collectUses(plan::ProgramOp program, Slice &slice,
                        const DenseMap<Operation *, unsigned> &indexOf) {
  Block *body = &program.getBody().front();
  SmallVector<Value> worklist = {slice.op.getBuffer()};
  while (!worklist.empty())
    for (Operation *user : worklist.pop_back_val().getUsers()) {
      if (auto view = dyn_cast<plan::ViewOp>(user)) {
        worklist.push_back(view.getBuffer());
        continue;
      }
      unsigned index = indexOf.lookup(body->findAncestorOpInBlock(*user));
      slice.first = std::min(slice.first, index);
      // Outputs are read when the program is done.
      slice.last =
          isa<plan::OutputOp>(user) ? ~0u : std::max(slice.last, index);
    }
}

static SmallVector<Slice> collectSlices(plan::ProgramOp program) {
  DenseMap<Operation *, unsigned> indexOf;
  for (Operation &op : program.getBody().front())
    indexOf[&op] = indexOf.size();
  SmallVector<Slice> slices;
  for (auto arena : program.getBody().front().getOps<plan::ArenaOp>()) {
    Slice slice;
    slice.op = arena;
    int64_t bytes =
        plan::getBufferBytes(cast<MemRefType>(arena.getBuffer().getType()));
    slice.bytes = llvm::alignTo(bytes, kAlignment);
    collectUses(program, slice, indexOf);
    slices.push_back(slice);
  }
  return slices;
}

// The tightest gap between the slices that are live with `slice`, which are in
// order of their offsets; behind all of them where there is none.
static int64_t findGap(const Slice &slice, ArrayRef<const Slice *> neighbours) {
  int64_t best = -1, bestRoom = 0, cursor = 0;
  for (const Slice *neighbour : neighbours) {
    int64_t room = neighbour->offset - cursor;
    if (room >= slice.bytes && (best < 0 || room < bestRoom)) {
      best = cursor;
      bestRoom = room;
    }
    cursor = std::max(cursor, neighbour->end());
  }
  return best < 0 ? cursor : best;
}

static int64_t assignOffsets(MutableArrayRef<Slice> slices) {
  SmallVector<Slice *> bySize;
  for (Slice &slice : slices)
    bySize.push_back(&slice);
  llvm::stable_sort(bySize, [](const Slice *a, const Slice *b) {
    return a->bytes > b->bytes;
  });
  int64_t total = 0;
  SmallVector<const Slice *> placed;
  for (Slice *slice : bySize) {
    SmallVector<const Slice *> neighbours;
    for (const Slice *other : placed)
      if (other->isLiveWith(*slice))
        neighbours.push_back(other);
    slice->offset = findGap(*slice, neighbours);
    total = std::max(total, slice->end());
    auto later = [](const Slice *a, const Slice *b) {
      return a->offset < b->offset;
    };
    placed.insert(llvm::upper_bound(placed, slice, later), slice);
  }
  return total;
}

void AssignOffsetsPass::runOnOperation() {
  for (auto program : getOperation().getOps<plan::ProgramOp>()) {
    SmallVector<Slice> slices = collectSlices(program);
    int64_t total = assignOffsets(slices);
    for (Slice &slice : slices)
      slice.op.setOffset(slice.offset);
    program.setArenaBytes(total);
  }
}
