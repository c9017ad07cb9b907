// Loops of a CPU's products of large matrices, by blocks of packed operands
// (ProductBlocks.h).
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Kernels/ProductBlocks.h"
#include "passes/Codegen/Kernels/ContractionHero.h"
#include "passes/Codegen/Kernels/FragmentEmitter.h"
#include "passes/Codegen/Kernels/Loops.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::codegen;

namespace {
/// [first, first + size), of rows, columns or depth.
struct Extent {
  Value first, size;
};

/// An operand as lines along the depth: rows of the left one, columns of the
/// right one.
struct Lines {
  Value argument;
  SmallVector<int64_t> batchStrides;
  /// Elements between lines, and between neighbours on one.
  int64_t lineStride, depthStride;
  /// Lines of a panel, and where all panels are packed.
  int64_t panel;
  Value packed;
};

class BlocksEmitter {
public:
  BlocksEmitter(KernelContext &context, const KernelBody &body,
                const ProductBlocks &blocks, MatMulOp matmul);

  void emit();

private:
  void emitTile(Value tile);
  void clearSums();
  void packLines(const Lines &lines, Value source, Extent range, Value depth);
  void packPanels(const Lines &lines, Value source, Value target, Extent range,
                  Value depth);
  void packPanel(const Lines &lines, Value source, Value target, Value depth);
  void packAlongLines(const Lines &lines, Value source, Value target,
                      Value depth);
  void packTransposed(const Lines &lines, Value source, Value target,
                      Value depth);
  void transposeBlock(const Lines &lines, Value source, Value target,
                      int64_t first);
  void packEdge(const Lines &lines, Value source, Value target, Value count,
                Value depth);
  void multiply(Extent rows, Extent columns, Value depth);
  void multiplyPanels(Value row, Value column, Value depth);
  void finish(Value batch, Extent rows, Extent columns);

  Value load(const Lines &lines, Value offset, int64_t width);
  Value batchOffset(const Lines &lines, Value batch);
  Extent tileOf(Value index, int64_t size, int64_t extent);
  Value sumsAt(Value row, Value column);
  int64_t vectorsOfPanel() const { return right.panel / width; }

  KernelContext &context;
  const KernelBody &body;
  const ProductBlocks &blocks;
  FragmentEmitter fragments;
  ImplicitLocOpBuilder &b;
  Lanes lanes;
  SmallVector<int64_t> batchSizes;
  Lines left, right;
  Value sums;
  int64_t width; ///< lanes of a vector
  double alpha;
  SmallVector<unsigned> targets;
  unsigned heroNode = 0;
};
} // namespace

BlocksEmitter::BlocksEmitter(KernelContext &context, const KernelBody &body,
                             const ProductBlocks &blocks, MatMulOp matmul)
    : context(context), body(body), blocks(blocks), fragments(context, body),
      b(context.b), lanes(b, KernelContext::getComputeType(matmul)),
      alpha(matmul.getAlpha().convertToDouble()) {
  for (auto [number, node] : llvm::enumerate(body.getNodes()))
    if (node.op == matmul)
      heroNode = number;
  for (const Output &output : body.getOutputs())
    targets.push_back(output.value.node);

  ArrayRef<int64_t> a = shapeOf(matmul.getLhs()), c = shapeOf(matmul.getRhs());
  ArrayRef<int64_t> batch = shapeOf(matmul).drop_back(2);
  // Batches that share the right operand are rows of one product.
  bool hasBatch = blocks.extents.batch > 1;
  if (hasBatch)
    batchSizes.assign(batch.begin(), batch.end());
  auto stridesOf = [&](ArrayRef<int64_t> shape) {
    return hasBatch ? getBatchStrides(shape, batch.size())
                    : SmallVector<int64_t>();
  };
  unsigned bits = context.target.getVectorBits();
  width = bits / lanes.getComputeType().getWidth();
  Type type = lanes.getComputeType();
  bool transA = matmul.getTransA(), transB = matmul.getTransB();
  // Sums of 6 by 2 vectors leave four of 16 registers, of 12 by 2 eight of 32.
  left = {matmul.getLhs(),
          stridesOf(a),
          transA ? 1 : a.back(),
          transA ? a.back() : 1,
          bits == 512 ? 12 : 6,
          context.createScratch(blocks.getLeftOffset(),
                                blocks.rows * blocks.depth, type)};
  right = {matmul.getRhs(),
           stridesOf(c),
           transB ? c.back() : 1,
           transB ? 1 : c.back(),
           2 * width,
           context.createScratch(blocks.getRightOffset(),
                                 blocks.depth * blocks.columns, type)};
  sums = context.createScratch(blocks.getSumsOffset(),
                               blocks.rows * blocks.columns, type);
}

Value BlocksEmitter::load(const Lines &lines, Value offset, int64_t width) {
  Value buffer = context.getBuffer(lines.argument);
  return lanes.convert(context.load(buffer, offset, width, /*multiple=*/1),
                       lanes.getComputeType());
}

Value BlocksEmitter::batchOffset(const Lines &lines, Value batch) {
  Value offset = createIndex(b, 0);
  SmallVector<Value> indices = splitIndex(b, batch, batchSizes);
  for (auto [index, stride] : llvm::zip_equal(indices, lines.batchStrides))
    if (stride != 0)
      offset = addIndex(b, offset, mulIndex(b, index, stride));
  return offset;
}

/// Part `index` of `extent`, in parts of `size`.
Extent BlocksEmitter::tileOf(Value index, int64_t size, int64_t extent) {
  Value first = mulIndex(b, index, size);
  Value rest = arith::SubIOp::create(b, createIndex(b, extent), first);
  return {first, arith::MinUIOp::create(b, rest, createIndex(b, size))};
}

Value BlocksEmitter::sumsAt(Value row, Value column) {
  return addIndex(b, mulIndex(b, row, blocks.columns), column);
}

//===----------------------------------------------------------------------===//
// Packing
//===----------------------------------------------------------------------===//

/// Packs `depth` elements, from `source` on, of the lines of `range`. Where
/// lines lie side by side, their elements at one depth are a row of memory:
/// some rows at once for all panels, or each element would be on a page of its
/// own.
void BlocksEmitter::packLines(const Lines &lines, Value source, Extent range,
                              Value depth) {
  if (lines.lineStride != 1)
    return packPanels(lines, source, createIndex(b, 0), range, depth);
  constexpr int64_t kRows = 16;
  emitLoop(b, createIndex(b, 0), depth, kRows, {}, [&](Value k, ValueRange) {
    Value rest = arith::SubIOp::create(b, depth, k);
    Value rows = arith::MinUIOp::create(b, rest, createIndex(b, kRows));
    Value from = addIndex(b, source, mulIndex(b, k, lines.depthStride));
    packPanels(lines, from, mulIndex(b, k, lines.panel), range, rows);
    return Carried();
  });
}

/// The panels of `range`, each from element `target` on.
void BlocksEmitter::packPanels(const Lines &lines, Value source, Value target,
                               Extent range, Value depth) {
  emitLoop(b, createIndex(b, 0), range.size, lines.panel, {},
           [&](Value line, ValueRange) {
             Value from =
                 addIndex(b, source, mulIndex(b, line, lines.lineStride));
             Value to = addIndex(b, target, mulIndex(b, line, blocks.depth));
             Value rest = arith::SubIOp::create(b, range.size, line);
             Value isFull =
                 arith::CmpIOp::create(b, arith::CmpIPredicate::uge, rest,
                                       createIndex(b, lines.panel));
             emitEither(
                 b, isFull, [&] { packPanel(lines, from, to, depth); },
                 [&] { packEdge(lines, from, to, rest, depth); });
             return Carried();
           });
}

void BlocksEmitter::packPanel(const Lines &lines, Value source, Value target,
                              Value depth) {
  if (lines.lineStride == 1)
    packAlongLines(lines, source, target, depth);
  else
    packTransposed(lines, source, target, depth);
}

/// The largest power of two that is at most `most` and at most `rest`.
static int64_t pieceOf(int64_t rest, int64_t most) {
  return std::min<int64_t>(most, llvm::bit_floor<uint64_t>(rest));
}

/// The elements of a panel at one depth lie side by side already.
void BlocksEmitter::packAlongLines(const Lines &lines, Value source,
                                   Value target, Value depth) {
  emitLoop(b, createIndex(b, 0), depth, 1, {}, [&](Value k, ValueRange) {
    Value from = addIndex(b, source, mulIndex(b, k, lines.depthStride));
    Value to = addIndex(b, target, mulIndex(b, k, lines.panel));
    for (int64_t line = 0; line < lines.panel;) {
      int64_t piece = pieceOf(lines.panel - line, width);
      context.store(load(lines, addIndex(b, from, line), piece), lines.packed,
                    addIndex(b, to, line), /*multiple=*/1);
      line += piece;
    }
    return Carried();
  });
}

/// As many of the depth at once as a vector has lanes, then the rest.
void BlocksEmitter::packTransposed(const Lines &lines, Value source,
                                   Value target, Value depth) {
  int64_t step = lines.depthStride == 1 ? width : 1;
  Value rest = arith::RemUIOp::create(b, depth, createIndex(b, step));
  Value whole = arith::SubIOp::create(b, depth, rest);
  auto at = [&](Value k) {
    return std::pair(addIndex(b, source, mulIndex(b, k, lines.depthStride)),
                     addIndex(b, target, mulIndex(b, k, lines.panel)));
  };
  if (step > 1)
    emitLoop(b, createIndex(b, 0), whole, step, {}, [&](Value k, ValueRange) {
      auto [from, to] = at(k);
      for (int64_t line = 0; line < lines.panel; line += width)
        transposeBlock(lines, from, to, line);
      return Carried();
    });
  else
    whole = createIndex(b, 0);
  emitLoop(b, whole, depth, 1, {}, [&](Value k, ValueRange) {
    auto [from, to] = at(k);
    for (int64_t line = 0; line < lines.panel; ++line)
      context.store(load(lines, addIndex(b, from, line * lines.lineStride), 1),
                    lines.packed, addIndex(b, to, line), /*multiple=*/1);
    return Carried();
  });
}

/// Lanes of two vectors in turn: their lower halves, and their upper ones.
static std::pair<Value, Value> interleave(ImplicitLocOpBuilder &b, Value x,
                                          Value y) {
  int64_t width = cast<VectorType>(x.getType()).getNumElements();
  SmallVector<int64_t> lower, upper;
  for (int64_t lane = 0; lane < width / 2; ++lane) {
    lower.append({lane, width + lane});
    upper.append({width / 2 + lane, width + width / 2 + lane});
  }
  return {vector::ShuffleOp::create(b, x, y, lower),
          vector::ShuffleOp::create(b, x, y, upper)};
}

/// Lane i of vector j becomes lane j of vector i: each round puts lanes that
/// are half of all vectors apart side by side.
static SmallVector<Value> transposeVectors(ImplicitLocOpBuilder &b,
                                           SmallVector<Value> vectors) {
  size_t half = vectors.size() / 2;
  for (size_t round = 1; round < vectors.size(); round *= 2) {
    SmallVector<Value> next;
    for (size_t i = 0; i < half; ++i) {
      auto [lower, upper] = interleave(b, vectors[i], vectors[half + i]);
      next.append({lower, upper});
    }
    vectors = std::move(next);
  }
  return vectors;
}

/// Packs lines [first, first + width) of a panel over `width` of the depth, as
/// far as the panel has them.
void BlocksEmitter::transposeBlock(const Lines &lines, Value source,
                                   Value target, int64_t first) {
  int64_t count = std::min(width, lines.panel - first);
  SmallVector<Value> vectors;
  for (int64_t i = 0; i < count; ++i)
    vectors.push_back(load(
        lines, addIndex(b, source, (first + i) * lines.lineStride), width));
  vectors.resize(width, vectors.front());
  vectors = transposeVectors(b, std::move(vectors));
  for (auto [k, vector] : llvm::enumerate(vectors))
    for (int64_t lane = 0; lane < count;) {
      int64_t piece = pieceOf(count - lane, width);
      Value part = piece == width
                       ? vector
                       : Value(vector::ExtractStridedSliceOp::create(
                             b, vector, ArrayRef<int64_t>{lane},
                             ArrayRef<int64_t>{piece}, ArrayRef<int64_t>{1}));
      int64_t offset = static_cast<int64_t>(k) * lines.panel + first + lane;
      context.store(part, lines.packed, addIndex(b, target, offset),
                    /*multiple=*/1);
      lane += piece;
    }
}

/// Packs the last panel, which has `count` lines; the others are zeros.
void BlocksEmitter::packEdge(const Lines &lines, Value source, Value target,
                             Value count, Value depth) {
  Value zero = lanes.constant(0);
  emitLoop(b, createIndex(b, 0), depth, 1, {}, [&](Value k, ValueRange) {
    Value from = addIndex(b, source, mulIndex(b, k, lines.depthStride));
    Value to = addIndex(b, target, mulIndex(b, k, lines.panel));
    emitLoop(b, createIndex(b, 0), count, 1, {}, [&](Value line, ValueRange) {
      Value offset = addIndex(b, from, mulIndex(b, line, lines.lineStride));
      context.store(load(lines, offset, 1), lines.packed, addIndex(b, to, line),
                    /*multiple=*/1);
      return Carried();
    });
    emitLoop(b, count, createIndex(b, lines.panel), 1, {},
             [&](Value line, ValueRange) {
               context.store(zero, lines.packed, addIndex(b, to, line),
                             /*multiple=*/1);
               return Carried();
             });
    return Carried();
  });
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

void BlocksEmitter::clearSums() {
  Value zero = vector::BroadcastOp::create(
      b, VectorType::get(width, lanes.getComputeType()), lanes.constant(0));
  emitLoop(b, createIndex(b, 0), createIndex(b, blocks.rows * blocks.columns),
           width, {}, [&](Value index, ValueRange) {
             context.store(zero, sums, index, /*multiple=*/1);
             return Carried();
           });
}

/// Adds the product of the packed blocks to the sums, panel by panel; a panel
/// of the right operand stays in the first-level cache meanwhile.
void BlocksEmitter::multiply(Extent rows, Extent columns, Value depth) {
  Value zero = createIndex(b, 0);
  emitLoop(b, zero, columns.size, right.panel, {},
           [&](Value column, ValueRange) {
             emitLoop(b, zero, rows.size, left.panel, {},
                      [&](Value row, ValueRange) {
                        multiplyPanels(row, column, depth);
                        return Carried();
                      });
             return Carried();
           });
}

/// Adds the product of the panels at `row` and `column` of the tile.
void BlocksEmitter::multiplyPanels(Value row, Value column, Value depth) {
  int64_t vectors = vectorsOfPanel();
  auto type = VectorType::get(width, lanes.getComputeType());
  auto contract = arith::FastMathFlags::contract;
  Value zero = vector::BroadcastOp::create(b, type, lanes.constant(0));
  // The sums, and where the left panel is read.
  Carried carried(left.panel * vectors, zero);
  carried.push_back(mulIndex(b, row, blocks.depth));
  Value begin = mulIndex(b, column, blocks.depth);
  Value end = addIndex(b, begin, mulIndex(b, depth, right.panel));
  carried = emitLoop(
      b, begin, end, right.panel, carried, [&](Value at, ValueRange before) {
        SmallVector<Value> y;
        for (int64_t i = 0; i < vectors; ++i)
          y.push_back(context.load(right.packed, addIndex(b, at, i * width),
                                   width, /*multiple=*/1));
        Carried next;
        for (int64_t i = 0; i < left.panel; ++i) {
          Value x = vector::BroadcastOp::create(
              b, type,
              context.load(left.packed, addIndex(b, before.back(), i), 1,
                           /*multiple=*/1));
          for (Value vector : y) {
            Value product = arith::MulFOp::create(b, x, vector, contract);
            next.push_back(arith::AddFOp::create(b, before[next.size()],
                                                 product, contract));
          }
        }
        next.push_back(addIndex(b, before.back(), left.panel));
        return next;
      });
  for (int64_t i = 0; i < left.panel * vectors; ++i) {
    Value place = addIndex(b, sumsAt(addIndex(b, row, i / vectors), column),
                           i % vectors * width);
    Value total = context.load(sums, place, width, /*multiple=*/1);
    context.store(arith::AddFOp::create(b, total, carried[i]), sums, place,
                  /*multiple=*/1);
  }
}

/// What the kernel makes of the sums of a tile.
void BlocksEmitter::finish(Value batch, Extent rows, Extent columns) {
  Value firstRow =
      addIndex(b, mulIndex(b, batch, blocks.extents.m), rows.first);
  Scope whole = fragments.createScope();
  fragments.evaluate(whole, targets);
  emitLoop(b, createIndex(b, 0), rows.size, 1, {}, [&](Value row, ValueRange) {
    Scope outer = whole;
    fragments.enterGroup(outer, 0, addIndex(b, firstRow, row));
    fragments.evaluate(outer, targets);
    SmallVector<ChunkShape> shapes = {{context.getVectorWidth(), 1}, {1, 1}};
    emitDynamicChunks(b, createIndex(b, 0), columns.size, blocks.columns,
                      shapes, [&](Chunk chunk) {
                        Value sum = context.load(sums, sumsAt(row, chunk.index),
                                                 chunk.width,
                                                 /*multiple=*/1);
                        if (alpha != 1)
                          sum = lanes.mul(sum, lanes.constant(alpha));
                        Scope scope = outer;
                        scope.width = chunk.width;
                        fragments.enterGroup(
                            scope, 1, addIndex(b, columns.first, chunk.index));
                        fragments.setValue(scope, heroNode, sum);
                        fragments.evaluate(scope, targets);
                        for (const Output &output : body.getOutputs())
                          fragments.store(scope, output);
                      });
    return Carried();
  });
}

void BlocksEmitter::emitTile(Value tile) {
  const ProductExtents &extents = blocks.extents;
  SmallVector<Value> indices = splitIndex(
      b, tile,
      {extents.batch, blocks.countRowTiles(), blocks.countColumnTiles()});
  Extent rows = tileOf(indices[1], blocks.rows, extents.m);
  Extent columns = tileOf(indices[2], blocks.columns, extents.n);
  auto start = [&](const Lines &lines, Extent range) {
    return addIndex(b, batchOffset(lines, indices[0]),
                    mulIndex(b, range.first, lines.lineStride));
  };
  Value leftStart = start(left, rows), rightStart = start(right, columns);
  clearSums();
  int64_t count = llvm::divideCeilSigned(extents.k, blocks.depth);
  emitLoop(b, createIndex(b, 0), createIndex(b, count), 1, {},
           [&](Value index, ValueRange) {
             Extent depth = tileOf(index, blocks.depth, extents.k);
             auto pack = [&](const Lines &lines, Value first, Extent range) {
               Value source = addIndex(
                   b, first, mulIndex(b, depth.first, lines.depthStride));
               packLines(lines, source, range, depth.size);
             };
             pack(left, leftStart, rows);
             pack(right, rightStart, columns);
             multiply(rows, columns, depth.size);
             return Carried();
           });
  finish(indices[0], rows, columns);
}

void BlocksEmitter::emit() {
  emitLoop(b, context.bounds[0], context.bounds[1], 1, {},
           [&](Value tile, ValueRange) {
             emitTile(tile);
             return Carried();
           });
}

void codegen::emitProductBlocks(KernelContext &context, const KernelBody &body,
                                const ProductBlocks &blocks, MatMulOp matmul) {
  BlocksEmitter(context, body, blocks, matmul).emit();
}
