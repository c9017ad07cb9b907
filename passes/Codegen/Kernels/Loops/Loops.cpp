// SPDX-License-Identifier: Apache-2.0
#include "passes/Codegen/Kernels/Loops/Loops.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::codegen;

Value codegen::createIndex(ImplicitLocOpBuilder &b, int64_t value) {
  return arith::ConstantIndexOp::create(b, value);
}

Value codegen::addIndex(ImplicitLocOpBuilder &b, Value x, Value y) {
  return arith::AddIOp::create(b, x, y);
}

Value codegen::addIndex(ImplicitLocOpBuilder &b, Value x, int64_t y) {
  return y == 0 ? x : addIndex(b, x, createIndex(b, y));
}

Value codegen::mulIndex(ImplicitLocOpBuilder &b, Value x, int64_t y) {
  return y == 1 ? x : arith::MulIOp::create(b, x, createIndex(b, y));
}

Value Team::shift(ImplicitLocOpBuilder &b, Value index, int64_t step) const {
  assert((isAlone() || rank) && "threads of a team have ranks");
  return isAlone() ? index : addIndex(b, index, mulIndex(b, rank, step));
}

Carried codegen::emitLoop(ImplicitLocOpBuilder &b, Value lower, Value upper,
                          int64_t step, ValueRange init, LoopBody body,
                          const Team &team) {
  assert(step > 0 && team.size > 0 && "a loop makes progress");
  auto loop = scf::ForOp::create(
      b, team.shift(b, lower, step), upper, createIndex(b, step * team.size),
      init,
      [&](OpBuilder &nested, Location loc, Value index, ValueRange carried) {
        OpBuilder::InsertionGuard guard(b);
        b.setInsertionPointToEnd(nested.getInsertionBlock());
        scf::YieldOp::create(b, body(index, carried));
      });
  return Carried(loop.getResults());
}

/// Emits a loop of more than `block` iterations as two loops: over blocks, and
/// over the `block` iterations of a block. `chain` starts the sums of each
/// block anew and adds them to totals.
static Carried emitBlocks(ImplicitLocOpBuilder &b, int64_t size, int64_t step,
                          int64_t block, ValueRange init, LoopBody body,
                          const Team &team, BlockedChain &chain) {
  assert(block > 0 && size > step * team.size * block &&
         "more iterations than a block has");
  int64_t stride = step * team.size;
  Value end = createIndex(b, size);
  auto emitBlock = [&](Value first, ValueRange totals) {
    Value stop = addIndex(b, first, stride * block);
    if (!team.isAlone() || size % (stride * block) != 0)
      stop = arith::MinUIOp::create(b, stop, end);
    return chain.add(totals,
                     emitLoop(b, first, stop, stride, chain.start(), body));
  };
  Value first = team.shift(b, createIndex(b, 0), step);
  return chain.close(
      emitLoop(b, first, end, stride * block, chain.open(init), emitBlock));
}

Carried codegen::emitLoop(ImplicitLocOpBuilder &b, int64_t size, int64_t step,
                          ValueRange init, LoopBody body, const Team &team,
                          ChainStep part) {
  assert(size >= 0 && step > 0 && "a loop over [0, size) makes progress");
  if (size == 0)
    return Carried(init);
  if (size <= step && team.isAlone())
    return body(createIndex(b, 0), init);
  assert(part.additions > 0 && "an iteration of a chain adds");
  int64_t block = std::max<int64_t>(1, BlockedChain::kLength / part.additions);
  if (part.chain && size > step * team.size * block)
    return emitBlocks(b, size, step, block, init, body, team, *part.chain);
  return emitLoop(b, createIndex(b, 0), createIndex(b, size), step, init, body,
                  team);
}

Carried codegen::emitChunks(ImplicitLocOpBuilder &b, int64_t size,
                            int64_t width, int64_t count, ValueRange init,
                            ChunkBody body, const Team &team, ChainStep part) {
  assert(llvm::isPowerOf2_64(width) && count > 0 &&
         "vectors halve down to one element");
  Carried carried(init);
  int64_t done = 0;
  // Emits a loop over as many whole blocks as remain. A block has `vectors`
  // vectors per thread.
  auto cover = [&](int64_t lanes, int64_t vectors) {
    int64_t stride = lanes * team.size;
    int64_t step = stride * vectors;
    int64_t blocks = (size - done) / step;
    if (blocks == 0)
      return;
    int64_t start = done;
    carried = emitLoop(
        b, blocks * step, step, carried,
        [&](Value index, ValueRange values) {
          Value first = team.shift(b, addIndex(b, index, start), lanes);
          return body({first, lanes, vectors, stride}, values);
        },
        {}, part);
    done += blocks * step;
  };
  // Emits the remaining vectors of `lanes` elements. Some threads of the team
  // may get none.
  auto coverByFew = [&](int64_t lanes) {
    int64_t end = size - (size - done) % lanes;
    if (end == done)
      return;
    carried = emitLoop(
        b, createIndex(b, done), createIndex(b, end), lanes, carried,
        [&](Value index, ValueRange values) {
          return body({index, lanes, 1, lanes * team.size}, values);
        },
        team);
    done = end;
  };
  // Start with blocks of several vectors, whose sums do not wait for each
  // other.
  if (count > 1)
    cover(width, count);
  // The threads of a team take neighbouring vectors, until fewer vectors than
  // threads remain.
  if (!team.isAlone()) {
    cover(width, 1);
    coverByFew(width);
    coverByFew(1);
    return carried;
  }
  // A single thread covers 13 elements in vectors of 8 by chunks of 8, 4 and 1.
  for (int64_t lanes = width; lanes >= 1; lanes /= 2)
    cover(lanes, 1);
  assert(done == size && "chunks cover every element once");
  return carried;
}

void codegen::emitDynamicChunks(ImplicitLocOpBuilder &b, Value lower,
                                Value upper, int64_t size,
                                ArrayRef<ChunkShape> shapes,
                                llvm::function_ref<void(Chunk)> body,
                                const Team &team) {
  for (ChunkShape shape : shapes) {
    int64_t step = shape.width * shape.count;
    assert(step > 0 && "a chunk has elements");
    if (step > size)
      continue;
    // Take as many whole steps as fit. The rest is for the next, smaller shape.
    Value middle = upper;
    if (step > 1) {
      Value length = arith::SubIOp::create(b, upper, lower);
      Value rest = arith::RemUIOp::create(b, length, createIndex(b, step));
      middle = arith::SubIOp::create(b, upper, rest);
    }
    emitLoop(
        b, lower, middle, step, {},
        [&](Value index, ValueRange) {
          body({index, shape.width, shape.count, shape.width});
          return Carried();
        },
        team);
    lower = middle;
  }
}

void codegen::emitRunLoop(ImplicitLocOpBuilder &b, Value begin, Value end,
                          int64_t size,
                          llvm::function_ref<void(Value, Value, Value)> body) {
  assert(size > 0 && "a run has elements");
  Value whole = createIndex(b, size);
  Value first = arith::DivUIOp::create(b, begin, whole);
  Value last = arith::CeilDivUIOp::create(b, end, whole);
  emitLoop(b, first, last, 1, {}, [&](Value number, ValueRange) {
    Value start = mulIndex(b, number, size);
    Value from = arith::MaxUIOp::create(b, begin, start);
    Value to = arith::MinUIOp::create(b, end, addIndex(b, start, whole));
    body(number, arith::SubIOp::create(b, from, start),
         arith::SubIOp::create(b, to, start));
    return Carried();
  });
}

// Emits a branch of an scf.if, with the ops that `body` emits through `b`.
static void emitBranch(ImplicitLocOpBuilder &b, OpBuilder &nested,
                       llvm::function_ref<void()> body) {
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToEnd(nested.getInsertionBlock());
  body();
  scf::YieldOp::create(b);
}

void codegen::emitWhere(ImplicitLocOpBuilder &b, Value condition,
                        llvm::function_ref<void()> body) {
  if (!condition)
    return body();
  scf::IfOp::create(b, condition, [&](OpBuilder &nested, Location) {
    emitBranch(b, nested, body);
  });
}

void codegen::emitEither(ImplicitLocOpBuilder &b, Value condition,
                         llvm::function_ref<void()> body,
                         llvm::function_ref<void()> other) {
  if (!condition)
    return body();
  scf::IfOp::create(
      b, condition,
      [&](OpBuilder &nested, Location) { emitBranch(b, nested, body); },
      [&](OpBuilder &nested, Location) { emitBranch(b, nested, other); });
}

SmallVector<Value> codegen::splitIndex(ImplicitLocOpBuilder &b, Value index,
                                       ArrayRef<int64_t> sizes) {
  SmallVector<Value> indices(sizes.size());
  for (size_t axis = sizes.size(); axis-- > 1;) {
    Value size = createIndex(b, sizes[axis]);
    indices[axis] = arith::RemUIOp::create(b, index, size);
    index = arith::DivUIOp::create(b, index, size);
  }
  if (!sizes.empty())
    indices[0] = index;
  return indices;
}
