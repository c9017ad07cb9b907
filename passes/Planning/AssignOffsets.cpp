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

namespace {
/// The order of a program's ops: those of a loop or a branch come behind it,
/// and it ends with the last of them.
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

// The uses of a slice through views and parts, as positions. A slice is one of
// the list that declares it: a loop in there that uses it does so in every
// iteration. Other nested steps count as the one they are nested in.
static void collectUses(Slice &slice, const Positions &positions) {
  Block *list = slice.op->getBlock();
  SmallVector<Value> worklist = {slice.op.getBuffer()};
  while (!worklist.empty())
    for (Operation *user : worklist.pop_back_val().getUsers()) {
      if (isa<plan::ViewOp, plan::PartOp>(user)) {
        worklist.push_back(user->getResult(0));
        continue;
      }
      Operation *step = list->findAncestorOpInBlock(*user);
      slice.first = std::min(slice.first, positions.begin(step));
      // Outputs are read when the program is done.
      slice.last = isa<plan::OutputOp>(user)
                       ? ~0u
                       : std::max(slice.last, positions.end(step));
    }
}

static SmallVector<Slice> collectSlices(plan::ProgramOp program) {
  Positions positions(program);
  SmallVector<Slice> slices;
  program.walk([&](plan::ArenaOp arena) {
    Slice slice;
    slice.op = arena;
    int64_t bytes =
        plan::getBufferBytes(cast<MemRefType>(arena.getBuffer().getType()));
    slice.bytes = llvm::alignTo(bytes, kAlignment);
    collectUses(slice, positions);
    slices.push_back(slice);
  });
  return slices;
}

// The tightest gap between those placed slices that are live with `slice`;
// behind all of them where there is none. `placed` is in order of offsets.
static int64_t findGap(const Slice &slice, ArrayRef<Slice> placed) {
  int64_t best = -1, bestRoom = 0, cursor = 0;
  for (const Slice &neighbour : placed) {
    if (!neighbour.isLiveWith(slice))
      continue;
    int64_t room = neighbour.offset - cursor;
    // No other is tighter than one that is filled.
    if (room == slice.bytes)
      return cursor;
    if (room > slice.bytes && (best < 0 || room < bestRoom)) {
      best = cursor;
      bestRoom = room;
    }
    cursor = std::max(cursor, neighbour.end());
  }
  return best < 0 ? cursor : best;
}

static int64_t assignOffsets(MutableArrayRef<Slice> slices) {
  // Large slices first: small ones fit into the gaps that are left.
  SmallVector<Slice *> bySize;
  for (Slice &slice : slices)
    bySize.push_back(&slice);
  llvm::stable_sort(bySize, [](const Slice *a, const Slice *b) {
    return a->bytes > b->bytes;
  });
  int64_t total = 0;
  // Copies side by side: there are many pairs of slices to look at.
  SmallVector<Slice> placed;
  for (Slice *slice : bySize) {
    slice->offset = findGap(*slice, placed);
    total = std::max(total, slice->end());
    auto later = [](const Slice &a, const Slice &b) {
      return a.offset < b.offset;
    };
    placed.insert(llvm::upper_bound(placed, *slice, later), *slice);
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
