// SPDX-License-Identifier: Apache-2.0
#include "passes/Codegen/Kernels/Loops/BlockSearch.h"
#include "passes/Codegen/Kernels/Loops/NVVMOps.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::codegen;

/// The most numbers that a thread tests per round; their loads overlap.
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

static Value wordToIndex(ImplicitLocOpBuilder &b, Value word) {
  return arith::IndexCastUIOp::create(b, b.getIndexType(), word);
}

static Value createSearchWord(ImplicitLocOpBuilder &b, uint32_t value) {
  return arith::ConstantOp::create(
      b, b.getI32IntegerAttr(static_cast<int32_t>(value)));
}

Value BlockSearch::getNumber(Value first, Value place) {
  return addIndex(b, first, wordToIndex(b, context.load(numbers, place, 1, 1)));
}

Value BlockSearch::getMark(Value place) {
  return wordToIndex(b, context.load(marks, place, 1, 1));
}

// Emits this thread's tests in the round that starts at number `first`. A warp
// tests 32 adjacent numbers at a time. `start` is the thread's first number,
// relative to `first`; each further number is 32 later.
SmallVector<BlockSearch::Tested> BlockSearch::runTests(Value first, Value start,
                                                       Test test) {
  SmallVector<Tested> tested;
  for (int64_t turn = 0; turn < share; ++turn) {
    Value offset =
        arith::AddIOp::create(b, start, createSearchWord(b, turn * kWarpSize));
    Value number = addIndex(b, first, wordToIndex(b, offset));
    // Past the end, test the last number again and ignore the result.
    Value exists;
    if (size % (share * threads) != 0) {
      exists = arith::CmpIOp::create(b, arith::CmpIPredicate::ult, number,
                                     createIndex(b, size));
      number = arith::MinUIOp::create(b, number, createIndex(b, size - 1));
    }
    Found result = test(number);
    if (exists)
      result.passes = arith::AndIOp::create(b, result.passes, exists);
    tested.push_back({offset, result.passes, result.mark, Value()});
  }
  // Exchange the results of each test in a warp, a bit per lane. The compiler
  // moves no load over an exchange, so all tests come before the first
  // exchange, and their loads overlap.
  for (Tested &one : tested)
    one.lanes = collectLanes(b, one.passes);
  return tested;
}

// Adds up the counts of all warps in shared memory. `own` is the count of this
// thread's warp. Returns the total, and the total of the warps before this
// thread's warp.
std::pair<Value, Value> BlockSearch::addTotals(Value warp, Value lane,
                                               Value own) {
  Value isFirstLane = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, lane,
                                            createSearchWord(b, 0));
  emitWhere(b, isFirstLane,
            [&] { context.store(own, totals, wordToIndex(b, warp), 1); });
  emitBarrier(b);
  Value all = createSearchWord(b, 0), before = createSearchWord(b, 0);
  for (int64_t other = 0; other < threads / kWarpSize; ++other) {
    Value total = context.load(totals, createIndex(b, other), 1, 1);
    Value isBefore = arith::CmpIOp::create(b, arith::CmpIPredicate::ult,
                                           createSearchWord(b, other), warp);
    Value counted =
        arith::SelectOp::create(b, isBefore, total, createSearchWord(b, 0));
    before = arith::AddIOp::create(b, before, counted);
    all = arith::AddIOp::create(b, all, total);
  }
  return {all, before};
}

// Emits the lists of the numbers that pass in one round, and returns their
// count. The place of a number in the list follows from the counts of earlier
// warps, of earlier tests of the warp, and of lower lanes.
Value BlockSearch::list(Value first, Test test) {
  Value thread = createThreadId(b, threads);
  Value lane =
      arith::AndIOp::create(b, thread, createSearchWord(b, kWarpSize - 1));
  Value warp = arith::ShRUIOp::create(
      b, thread, createSearchWord(b, llvm::Log2_64(kWarpSize)));
  Value start = arith::AddIOp::create(
      b, lane,
      arith::MulIOp::create(b, warp, createSearchWord(b, share * kWarpSize)));
  SmallVector<Tested> tested = runTests(first, start, test);
  Value own = createSearchWord(b, 0);
  for (const Tested &one : tested)
    own = arith::AddIOp::create(b, own, countBits(b, one.lanes));
  auto [all, place] = addTotals(warp, lane, own);
  // Each thread lists its own passing numbers.
  Value below = arith::SubIOp::create(
      b, arith::ShLIOp::create(b, createSearchWord(b, 1), lane),
      createSearchWord(b, 1));
  for (const Tested &one : tested) {
    emitWhere(b, one.passes, [&, place = place] {
      Value lower = countBits(b, arith::AndIOp::create(b, one.lanes, below));
      Value at = wordToIndex(b, arith::AddIOp::create(b, place, lower));
      context.store(one.offset, numbers, at, 1);
      context.store(toWord(b, one.mark), marks, at, 1);
    });
    place = arith::AddIOp::create(b, place, countBits(b, one.lanes));
  }
  return wordToIndex(b, all);
}

void BlockSearch::emit(Test test, Use use) {
  assert(threads % kWarpSize == 0 && share > 0 && "whole warps search");
  emitLoop(b, size, share * threads, {}, [&](Value first, ValueRange) {
    Value count = list(first, test);
    emitBarrier(b);
    use(first, count);
    // Wait again, since the next round overwrites the lists.
    emitBarrier(b);
    return Carried();
  });
}
