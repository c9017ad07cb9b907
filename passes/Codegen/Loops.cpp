// SPDX-License-Identifier: Apache-2.0
#include "passes/Codegen/Loops.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

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

Carried codegen::emitLoop(ImplicitLocOpBuilder &b, Value lower, Value upper,
                          int64_t step, ValueRange init, LoopBody body) {
  auto loop = scf::ForOp::create(
      b, lower, upper, createIndex(b, step), init,
      [&](OpBuilder &nested, Location loc, Value index, ValueRange carried) {
        OpBuilder::InsertionGuard guard(b);
        b.setInsertionPointToEnd(nested.getInsertionBlock());
        scf::YieldOp::create(b, body(index, carried));
      });
  return Carried(loop.getResults());
}

Carried codegen::emitLoop(ImplicitLocOpBuilder &b, int64_t size, int64_t step,
                          ValueRange init, LoopBody body) {
  if (size <= step)
    return body(createIndex(b, 0), init);
  return emitLoop(b, createIndex(b, 0), createIndex(b, size), step, init, body);
}

Carried codegen::emitChunks(ImplicitLocOpBuilder &b, int64_t size,
                            int64_t width, int64_t count, ValueRange init,
                            ChunkBody body) {
  Carried carried(init);
  int64_t done = 0;
  // Covers as many whole blocks of `vectors` vectors as are left.
  auto cover = [&](int64_t lanes, int64_t vectors) {
    int64_t step = lanes * vectors;
    int64_t blocks = (size - done) / step;
    if (blocks == 0)
      return;
    int64_t start = done;
    carried = emitLoop(b, blocks * step, step, carried,
                       [&](Value index, ValueRange values) {
                         Chunk chunk{addIndex(b, index, start), lanes, vectors};
                         return body(chunk, values);
                       });
    done += blocks * step;
  };
  if (count > 1)
    cover(width, count);
  for (int64_t lanes = width; lanes >= 1; lanes /= 2)
    cover(lanes, 1);
  return carried;
}

void codegen::emitDynamicChunks(ImplicitLocOpBuilder &b, Value lower,
                                Value upper, int64_t size,
                                ArrayRef<ChunkShape> shapes,
                                llvm::function_ref<void(Chunk)> body) {
  for (ChunkShape shape : shapes) {
    int64_t step = shape.width * shape.count;
    if (step > size)
      continue;
    Value middle = upper;
    if (step > 1) {
      Value length = arith::SubIOp::create(b, upper, lower);
      Value rest = arith::RemUIOp::create(b, length, createIndex(b, step));
      middle = arith::SubIOp::create(b, upper, rest);
    }
    emitLoop(b, lower, middle, step, {}, [&](Value index, ValueRange) {
      body({index, shape.width, shape.count});
      return Carried();
    });
    lower = middle;
  }
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
