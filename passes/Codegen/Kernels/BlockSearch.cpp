// SPDX-License-Identifier: Apache-2.0
#include "passes/Codegen/Kernels/BlockSearch.h"
#include "passes/Codegen/Kernels/NVVMOps.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::codegen;

/// Numbers that a thread tests in a round at most: their loads overlap.
static constexpr int64_t kMostShare = 4;

BlockSearch::BlockSearch(KernelContext &context, int64_t size)
    : context(context), b(context.b), size(size),
      threads(context.partition.threads) {
  share =
      std::clamp<int64_t>(llvm::divideCeilSigned(size, threads), 1, kMostShare);
  Type word = b.getI32Type();
  numbers = context.createShared(share * threads, word);
  marks = context.createShared(share * threads, word);
  totals = context.createShared(threads / kWarpSize, word);
}

static Value toWord(ImplicitLocOpBuilder &b, Value index) {
  return arith::IndexCastUIOp::create(b, b.getI32Type(), index);
}

static Value toIndex(ImplicitLocOpBuilder &b, Value word) {
  return arith::IndexCastUIOp::create(b, b.getIndexType(), word);
}

static Value createWord(ImplicitLocOpBuilder &b, uint32_t value) {
  return arith::ConstantOp::create(
      b, b.getI32IntegerAttr(static_cast<int32_t>(value)));
}

Value BlockSearch::getNumber(Value first, Value place) {
  return addIndex(b, first, toIndex(b, context.load(numbers, place, 1, 1)));
}

Value BlockSearch::getMark(Value place) {
  return toIndex(b, context.load(marks, place, 1, 1));
}

// Lists what passes of one round, and returns how many that are. A warp tests
// adjacent numbers, 32 at once, so places follow from how many the warps before
// it and the lanes below found.
Value BlockSearch::list(Value first, Test test) {
  Value thread = createThreadId(b, threads);
  Value lane = arith::AndIOp::create(b, thread, createWord(b, kWarpSize - 1));
  Value warp = arith::ShRUIOp::create(b, thread,
                                      createWord(b, llvm::Log2_64(kWarpSize)));
  // Each test of a warp leaves a bit for each lane.
  struct Tested {
    Value offset, passes, mark, lanes;
  };
  SmallVector<Tested> tested;
  Value start = arith::AddIOp::create(
      b, lane,
      arith::MulIOp::create(b, warp, createWord(b, share * kWarpSize)));
  Value found = createWord(b, 0);
  for (int64_t turn = 0; turn < share; ++turn) {
    Value offset =
        arith::AddIOp::create(b, start, createWord(b, turn * kWarpSize));
    Value number = addIndex(b, first, toIndex(b, offset));
    // Beyond the end the last number is tested once more, in vain.
    Value exists;
    if (size % (share * threads) != 0) {
      exists = arith::CmpIOp::create(b, arith::CmpIPredicate::ult, number,
                                     createIndex(b, size));
      number = arith::MinUIOp::create(b, number, createIndex(b, size - 1));
    }
    Found result = test(number);
    if (exists)
      result.passes = arith::AndIOp::create(b, result.passes, exists);
    tested.push_back(
        {offset, result.passes, result.mark, collectLanes(b, result.passes)});
  }
  for (const Tested &one : tested)
    found = arith::AddIOp::create(b, found, countBits(b, one.lanes));

  // How many all warps found, and those before this one.
  Value isFirstLane = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, lane,
                                            createWord(b, 0));
  emitWhere(b, isFirstLane,
            [&] { context.store(found, totals, toIndex(b, warp), 1); });
  emitBarrier(b);
  Value all = createWord(b, 0), place = createWord(b, 0);
  for (int64_t other = 0; other < threads / kWarpSize; ++other) {
    Value total = context.load(totals, createIndex(b, other), 1, 1);
    Value isBefore = arith::CmpIOp::create(b, arith::CmpIPredicate::ult,
                                           createWord(b, other), warp);
    place = arith::AddIOp::create(
        b, place,
        arith::SelectOp::create(b, isBefore, total, createWord(b, 0)));
    all = arith::AddIOp::create(b, all, total);
  }
  // Each thread lists what it found.
  Value below = arith::SubIOp::create(
      b, arith::ShLIOp::create(b, createWord(b, 1), lane), createWord(b, 1));
  for (const Tested &one : tested) {
    emitWhere(b, one.passes, [&] {
      Value lower = countBits(b, arith::AndIOp::create(b, one.lanes, below));
      Value at = toIndex(b, arith::AddIOp::create(b, place, lower));
      context.store(one.offset, numbers, at, 1);
      context.store(toWord(b, one.mark), marks, at, 1);
    });
    place = arith::AddIOp::create(b, place, countBits(b, one.lanes));
  }
  return toIndex(b, all);
}

void BlockSearch::emit(Test test, Use use) {
  emitLoop(b, size, share * threads, {}, [&](Value first, ValueRange) {
    Value count = list(first, test);
    emitBarrier(b);
    use(first, count);
    // The next round writes over the lists.
    emitBarrier(b);
    return Carried();
  });
}
