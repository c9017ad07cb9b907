// SPDX-License-Identifier: Apache-2.0
#include "passes/Codegen/TensorCore/TensorCoreLoop.h"

#include "passes/Codegen/Kernels/Loops/Loops.h"
#include "passes/Codegen/Kernels/Loops/NVVMOps.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::codegen;

/// The values that one iteration passes to the next.
struct TensorCoreLoop::State {
  SmallVector<Value> sums;
  /// The fragments (registers) that the next mma instructions multiply.
  SmallVector<Value> lhs, rhs;
  /// Addresses in shared memory: the stage to read, and the stage to fill next.
  Value readStage, fillStage;
  /// Addresses in global memory of the next tile to copy.
  Value lhsPointer, rhsPointer;

  Carried pack() const {
    Carried all(sums);
    llvm::append_range(all, lhs);
    llvm::append_range(all, rhs);
    llvm::append_range(all,
                       ArrayRef{readStage, fillStage, lhsPointer, rhsPointer});
    return all;
  }

  void unpack(ValueRange all) {
    auto take = [&](MutableArrayRef<Value> into) {
      llvm::copy(all.take_front(into.size()), into.begin());
      all = all.drop_front(into.size());
    };
    take(sums);
    take(lhs);
    take(rhs);
    readStage = all[0];
    fillStage = all[1];
    lhsPointer = all[2];
    rhsPointer = all[3];
    assert(all.size() == 4 && "unpack takes what pack gave");
  }
};

TensorCoreLoop::TensorCoreLoop(ImplicitLocOpBuilder &builder,
                               const TensorCoreTiling &tiling,
                               FloatType element, TileCopier &lhsCopies,
                               TileCopier &rhsCopies,
                               const FragmentLoader &lhsFragments,
                               const FragmentLoader &rhsFragments, Value shared)
    : b(builder), tiling(tiling), element(element), lhsCopies(lhsCopies),
      rhsCopies(rhsCopies), lhsFragments(lhsFragments),
      rhsFragments(rhsFragments), shared(shared) {}

size_t TensorCoreLoop::getSum(int64_t row, int64_t column, int64_t element) {
  assert(column >= 0 && column < kColumns && element >= 0 && element < 4 &&
         "an element of an mma tile");
  return (row * kColumns + column) * 4 + element;
}

//===----------------------------------------------------------------------===//
// Copies
//===----------------------------------------------------------------------===//

/// Returns the address of the stage after `stage` in the ring of stages.
Value TensorCoreLoop::nextStage(Value stage) {
  Index32 i32(b);
  Value next = i32.add(stage, tiling.getStageBytes());
  Value end = i32.add(shared, tiling.stages * tiling.getStageBytes());
  Value wraps = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, next, end);
  return arith::SelectOp::create(b, wraps, shared, next);
}

/// Emits the copies of tile number `tile` (i32) along the depth to the stage to
/// fill next. Then advances the addresses in `state`.
void TensorCoreLoop::copyAhead(State &state, Value tile) {
  Index32 i32(b);
  Value depth = i32.mul(tile, TensorCoreTiling::kBlockK);
  lhsCopies.emit(state.lhsPointer, depth, state.fillStage);
  rhsCopies.emit(state.rhsPointer, depth,
                 i32.add(state.fillStage, tiling.lhs.tile.getBytes()));
  state.fillStage = nextStage(state.fillStage);
  state.lhsPointer = lhsCopies.advance(state.lhsPointer);
  state.rhsPointer = rhsCopies.advance(state.rhsPointer);
}

void TensorCoreLoop::fillStages(State &state) {
  Index32 i32(b);
  state.readStage = state.fillStage = shared;
  state.lhsPointer = lhsCopies.getStart();
  state.rhsPointer = rhsCopies.getStart();
  for (int64_t stage = 0; stage < tiling.stages - 1; ++stage) {
    if (stage < tiling.getDepthTiles())
      copyAhead(state, i32.constant(stage));
    commitCopies(b);
  }
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

void TensorCoreLoop::loadFragments(State &state, int64_t step, State &into) {
  assert(step >= 0 && step < kSteps && "an mma step of the tile");
  into.lhs = lhsFragments.load(state.readStage, step);
  into.rhs = rhsFragments.load(state.readStage, step);
}

void TensorCoreLoop::multiply(State &state) {
  assert(state.lhs.size() % 4 == 0 && state.rhs.size() == 2 * kColumns &&
         "whole fragments are loaded");
  int64_t rows = state.lhs.size() / 4;
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t column = 0; column < kColumns; ++column)
      multiplyFragments(
          b, element, ArrayRef(state.lhs).slice(row * 4, 4),
          ArrayRef(state.rhs).slice(column * 2, 2),
          MutableArrayRef(state.sums).slice(getSum(row, column, 0), 4));
}

/// Emits the mma steps of one tile along the depth. `state` must hold the
/// fragments of the first step. With `Stretch::Copying`, also copies tile
/// number `tile` (i32) to shared memory.
void TensorCoreLoop::emitTile(State &state, Stretch stretch, Value tile) {
  const bool copies = stretch == Stretch::Copying;
  const bool isLast = stretch == Stretch::Last;
  assert((tile || !copies) && "a copying tile names the tile to copy");
  for (int64_t step = 0; step < kSteps; ++step) {
    State next = state;
    bool endsTile = step + 1 == kSteps;
    if (!endsTile) {
      loadFragments(state, step + 1, next);
    } else if (!isLast) {
      // With S stages, at most the newest S-2 groups of copies are unfinished,
      // so this thread's copies of the next tile are done. The barrier extends
      // this to the copies of all threads. It also makes sure that all threads
      // have read the current stage, which the next copy overwrites.
      awaitCopies(b, tiling.stages - 2);
      emitBarrier(b);
      next.readStage = nextStage(state.readStage);
      loadFragments(next, 0, next);
    }
    if (step == 0 && copies)
      copyAhead(next, tile);
    // awaitCopies counts groups, so every tile commits a group, even if nothing
    // was copied.
    if (step == 0 && !isLast)
      commitCopies(b);
    multiply(state);
    next.sums = state.sums;
    state = next;
  }
}

/// Emits a loop over tiles [begin, end) along the depth.
void TensorCoreLoop::emitTiles(State &state, Stretch stretch, int64_t begin,
                               int64_t end) {
  if (begin >= end)
    return;
  Carried carried = emitLoop(
      b, createIndex(b, begin), createIndex(b, end), 1, state.pack(),
      [&](Value index, ValueRange values) {
        State inner = state;
        inner.unpack(values);
        Index32 i32(b);
        emitTile(inner, stretch, i32.add(i32.from(index), tiling.stages - 1));
        return inner.pack();
      });
  state.unpack(carried);
}

SmallVector<Value> TensorCoreLoop::emit() {
  State state;
  fillStages(state);
  awaitCopies(b, tiling.stages - 2);
  emitBarrier(b);
  loadFragments(state, 0, state);
  Value zero = arith::ConstantOp::create(b, b.getF32FloatAttr(0));
  state.sums.assign(getSum(lhsFragments.getRegisterCount() / 4, 0, 0), zero);
  int64_t tiles = tiling.getDepthTiles();
  assert(tiles > 0 && tiling.stages >= 2 && "the ring holds a tile to read");
  int64_t copying = std::max<int64_t>(0, tiles - (tiling.stages - 1));
  emitTiles(state, Stretch::Copying, 0, copying);
  emitTiles(state, Stretch::Draining, copying, tiles - 1);
  emitTile(state, Stretch::Last);
  return state.sums;
}
