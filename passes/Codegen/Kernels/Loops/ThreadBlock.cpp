// SPDX-License-Identifier: Apache-2.0
#include "passes/Codegen/Kernels/Loops/ThreadBlock.h"
#include "passes/Codegen/Kernels/Loops/NVVMOps.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::codegen;

static Value createWord(ImplicitLocOpBuilder &b, uint32_t value) {
  return arith::ConstantOp::create(
      b, b.getI32IntegerAttr(static_cast<int32_t>(value)));
}

Value codegen::getThread(ImplicitLocOpBuilder &b, int64_t threads) {
  Value number = createThreadId(b, threads);
  return arith::IndexCastUIOp::create(b, b.getIndexType(), number);
}

Value codegen::getBlock(ImplicitLocOpBuilder &b) {
  Value number = createBlockId(b);
  return arith::IndexCastUIOp::create(b, b.getIndexType(), number);
}

Value codegen::isFirst(ImplicitLocOpBuilder &b, const Team &team) {
  if (team.isAlone())
    return nullptr;
  return arith::CmpIOp::create(b, arith::CmpIPredicate::eq, team.rank,
                               createIndex(b, 0));
}

//===----------------------------------------------------------------------===//
// Within a warp
//===----------------------------------------------------------------------===//

/// Returns a mask of the warp with a bit for each of the `lanes` lanes in this
/// thread's group. Groups of a warp may be at different rows, so each group
/// waits for its own members only.
static Value getMembers(ImplicitLocOpBuilder &b, int64_t lanes) {
  assert(lanes > 0 && lanes <= kWarpSize && llvm::isPowerOf2_64(lanes) &&
         "groups divide a warp");
  if (lanes == kWarpSize)
    return createWord(b, ~0u);
  Value thread = createThreadId(b);
  Value first = arith::AndIOp::create(
      b, thread, createWord(b, kWarpSize - static_cast<uint32_t>(lanes)));
  return arith::ShLIOp::create(b, createWord(b, (1u << lanes) - 1), first);
}

Value codegen::shuffle(ImplicitLocOpBuilder &b, Value value, int64_t distance,
                       int64_t lanes) {
  assert(distance > 0 && distance < lanes && "a thread of the group");
  Value members = getMembers(b, lanes);
  if (value.getType().isF32() || value.getType().isInteger(32))
    return shuffleWord(b, members, value, distance);
  // Only 32-bit words can be exchanged, so exchange a 64-bit value in two
  // halves.
  auto halves = VectorType::get(2, b.getI32Type());
  Value words = vector::BitCastOp::create(
      b, halves,
      vector::BroadcastOp::create(b, VectorType::get(1, value.getType()),
                                  value));
  for (int64_t half = 0; half < 2; ++half) {
    Value word = vector::ExtractOp::create(b, words, ArrayRef<int64_t>{half});
    words = vector::InsertOp::create(b, shuffleWord(b, members, word, distance),
                                     words, ArrayRef<int64_t>{half});
  }
  Value other =
      vector::BitCastOp::create(b, VectorType::get(1, value.getType()), words);
  return vector::ExtractOp::create(b, other, ArrayRef<int64_t>{0});
}

// Combines the values of `lanes` lanes in log2(lanes) exchanges. In each
// exchange, both threads of a pair combine the same two values, so all threads
// get the same bits.
static Value combineWarp(ImplicitLocOpBuilder &b, Accumulator &accumulator,
                         Value value, int64_t lanes) {
  for (int64_t distance = lanes / 2; distance >= 1; distance /= 2)
    value = accumulator.combine(value, shuffle(b, value, distance, lanes));
  return value;
}

//===----------------------------------------------------------------------===//
// Within a block
//===----------------------------------------------------------------------===//

Value codegen::combineColumns(KernelContext &context, Accumulator &accumulator,
                              Value value) {
  ImplicitLocOpBuilder &b = context.b;
  int64_t lanes = context.columns.size;
  assert((lanes <= kWarpSize || lanes % kWarpSize == 0) &&
         "a team is a part of a warp, or whole warps");
  value =
      combineWarp(b, accumulator, value, std::min<int64_t>(lanes, kWarpSize));
  int64_t warps = lanes / kWarpSize;
  if (warps <= 1)
    return value;
  // A team of more than a warp is the whole block. Each warp stores its sum to
  // shared memory, and every thread reads all sums.
  Value shared = context.createShared(warps, value.getType());
  SmallVector<Value> parts =
      splitIndex(b, context.columns.rank, {warps, kWarpSize});
  emitWhere(b, isFirst(b, {parts[1], kWarpSize}),
            [&] { context.store(value, shared, parts[0], 1); });
  emitBarrier(b);
  SmallVector<Value> sums;
  for (int64_t warp = 0; warp < warps; ++warp)
    sums.push_back(context.load(shared, createIndex(b, warp), 1, 1));
  emitBarrier(b);
  return accumulator.combine(sums);
}

// Combines in halving steps: each step adds the values of the upper half of the
// teams to the lower half.
Value codegen::combineRows(KernelContext &context, Accumulator &accumulator,
                           Value value) {
  ImplicitLocOpBuilder &b = context.b;
  const Team &teams = context.rows;
  if (teams.isAlone())
    return value;
  assert(llvm::isPowerOf2_64(teams.size) && "halving reaches every team");
  // Shared memory holds a value per thread: a row per team.
  auto vector = dyn_cast<VectorType>(value.getType());
  int64_t width = vector ? vector.getNumElements() : 1;
  int64_t row = context.columns.size * width;
  Value shared = context.createShared(teams.size * row,
                                      getElementTypeOrSelf(value.getType()));
  Value column = context.columns.shift(b, createIndex(b, 0), width);
  Value own = teams.shift(b, column, row);
  context.store(value, shared, own, width);
  emitBarrier(b);
  // Barriers separate the steps, since threads read what others have stored.
  for (int64_t half = teams.size / 2; half >= 1; half /= 2) {
    Value lower = arith::CmpIOp::create(b, arith::CmpIPredicate::ult,
                                        teams.rank, createIndex(b, half));
    emitWhere(b, lower, [&] {
      Value mine = context.load(shared, own, width, width);
      Value other =
          context.load(shared, addIndex(b, own, half * row), width, width);
      context.store(accumulator.combine(mine, other), shared, own, width);
    });
    emitBarrier(b);
  }
  Value sum = context.load(shared, column, width, width);
  emitBarrier(b);
  return sum;
}
