// Emits a CPU's products of large matrices, in blocks of packed operands
// (ProductBlocks.h).
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Kernels/ProductBlocks.h"
#include "passes/Codegen/Kernels/Contraction/ContractionEpilogue.h"
#include "passes/Codegen/Kernels/Contraction/ContractionSums.h"
#include "passes/Codegen/Kernels/Loops/LinePacker.h"
#include "passes/Codegen/Kernels/Loops/Loops.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::codegen;

namespace {
/// The range [first, first + size) of rows, columns or depth.
struct Extent {
  Value first, size;
};

class BlocksEmitter {
public:
  BlocksEmitter(KernelContext &context, const KernelBody &body,
                const ProductBlocks &blocks, MatMulOp matmul);

  void emit();

private:
  void emitTile(Value tile);
  void clearSums();
  void multiply(Extent rows, Extent columns, Value depth);
  void multiplyPanels(Value row, Value column, Value depth);
  void finish(Value batch, Extent rows, Extent columns);

  Extent tileOf(Value index, int64_t size, int64_t extent);
  Value sumsAt(Value row, Value column);
  int64_t vectorsOfPanel() const { return right.panel / width; }

  KernelContext &context;
  const ProductBlocks &blocks;
  ContractionEpilogue epilogue;
  ImplicitLocOpBuilder &b;
  Lanes lanes;
  SmallVector<int64_t> batchSizes;
  Lines left, right;
  Value sums;
  int64_t width; ///< lanes of a vector
  double alpha;
};
} // namespace

BlocksEmitter::BlocksEmitter(KernelContext &context, const KernelBody &body,
                             const ProductBlocks &blocks, MatMulOp matmul)
    : context(context), blocks(blocks), epilogue(context, body, matmul),
      b(context.b), lanes(b, KernelContext::getComputeType(matmul)),
      alpha(matmul.getAlpha().convertToDouble()) {
  // `blocks` treats a batch that shares the right operand as rows of a single
  // product. Only other batches have batch axes here.
  if (blocks.extents.batch > 1)
    llvm::append_range(batchSizes, shapeOf(matmul).drop_back(2));
  const MatrixOperands matrices = *getMatrixOperands(matmul, blocks.extents);
  const MatrixOperand &lhs = matrices.lhs, &rhs = matrices.rhs;
  unsigned bits = context.target.getVectorBits();
  width = bits / lanes.getComputeType().getWidth();
  Type type = lanes.getComputeType();
  bool transA = matmul.getTransA(), transB = matmul.getTransB();
  // A left panel has 6 rows and a right panel 2 vectors of columns, so 12 of 16
  // registers hold sums. With vectors of 512 bits, 12 x 2 of 32 registers do.
  // The other registers hold operands.
  left = {lhs, transA ? lhs.columnStride : lhs.rowStride,
          transA ? lhs.rowStride : lhs.columnStride, bits == 512 ? 12 : 6,
          context.createScratch(blocks.getLeftOffset(),
                                blocks.rows * blocks.depth, type)};
  right = {rhs, transB ? rhs.rowStride : rhs.columnStride,
           transB ? rhs.columnStride : rhs.rowStride, 2 * width,
           context.createScratch(blocks.getRightOffset(),
                                 blocks.depth * blocks.columns, type)};
  sums = context.createScratch(blocks.getSumsOffset(),
                               blocks.rows * blocks.columns, type);
}

/// Divides `extent` into ranges of `size`, and returns range `index`. The last
/// range may be shorter.
Extent BlocksEmitter::tileOf(Value index, int64_t size, int64_t extent) {
  Value first = mulIndex(b, index, size);
  Value rest = arith::SubIOp::create(b, createIndex(b, extent), first);
  return {first, arith::MinUIOp::create(b, rest, createIndex(b, size))};
}

Value BlocksEmitter::sumsAt(Value row, Value column) {
  return addIndex(b, mulIndex(b, row, blocks.columns), column);
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

/// Adds the product of the packed blocks to the sums, panel by panel. The inner
/// loop runs over left panels, so a right panel stays in the first-level cache.
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

/// Adds the product of one left and one right panel to the sums. The panels
/// start at `row` and `column` of the tile.
void BlocksEmitter::multiplyPanels(Value row, Value column, Value depth) {
  int64_t vectors = vectorsOfPanel();
  auto type = VectorType::get(width, lanes.getComputeType());
  Value zero = vector::BroadcastOp::create(b, type, lanes.constant(0));
  // The loop runs along the right panel. Carry the sums, and the matching
  // position in the left panel.
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
          Value x = context.load(left.packed, addIndex(b, before.back(), i), 1,
                                 /*multiple=*/1);
          for (Value vector : y)
            next.push_back(lanes.multiplyAdd(x, vector, before[next.size()]));
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

/// Emits the elementwise ops after the product on the finished sums of a tile,
/// and stores the results.
void BlocksEmitter::finish(Value batch, Extent rows, Extent columns) {
  Value firstRow =
      addIndex(b, mulIndex(b, batch, blocks.extents.m), rows.first);
  Scope whole = epilogue.start();
  SmallVector<ChunkShape> shapes = {{context.getVectorWidth(), 1}, {1, 1}};
  emitLoop(b, createIndex(b, 0), rows.size, 1, {}, [&](Value row, ValueRange) {
    Scope scope = epilogue.enterRow(whole, addIndex(b, firstRow, row));
    emitDynamicChunks(
        b, createIndex(b, 0), columns.size, blocks.columns, shapes,
        [&](Chunk chunk) {
          Value sum = context.load(sums, sumsAt(row, chunk.index), chunk.width,
                                   /*multiple=*/1);
          if (alpha != 1)
            sum = lanes.mul(sum, lanes.constant(alpha));
          epilogue.store(scope, addIndex(b, columns.first, chunk.index), sum);
        });
    return Carried();
  });
}

void BlocksEmitter::emitTile(Value tile) {
  const ProductExtents &extents = blocks.extents;
  // Tiles are numbered row-major by (batch, row of tiles, column of tiles).
  SmallVector<Value> indices = splitIndex(
      b, tile,
      {extents.batch, blocks.countRowTiles(), blocks.countColumnTiles()});
  Extent rows = tileOf(indices[1], blocks.rows, extents.m);
  Extent columns = tileOf(indices[2], blocks.columns, extents.n);
  SmallVector<Value> batch = splitIndex(b, indices[0], batchSizes);
  auto start = [&](const Lines &lines, Extent range) {
    return addIndex(b, matrixOffset(b, batch, lines.operand),
                    mulIndex(b, range.first, lines.lineStride));
  };
  // Compute the offsets of the tile's first row in the left operand, and of its
  // first column in the right operand.
  Value leftStart = start(left, rows), rightStart = start(right, columns);
  clearSums();
  LinePacker packer(context, lanes, width, blocks.depth);
  int64_t count = llvm::divideCeilSigned(extents.k, blocks.depth);
  // For each block of the depth: pack both operands, and add their product.
  emitLoop(b, createIndex(b, 0), createIndex(b, count), 1, {},
           [&](Value index, ValueRange) {
             Extent depth = tileOf(index, blocks.depth, extents.k);
             auto pack = [&](const Lines &lines, Value first, Extent range) {
               Value source = addIndex(
                   b, first, mulIndex(b, depth.first, lines.depthStride));
               packer.pack(lines, source, range.size, depth.size);
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
