// Emits kernels that move elements: transpose, slice, concat and pad.
//
// Rows of the result are copied one at a time. A transpose that turns columns
// into rows goes through square blocks in registers, or through shared memory
// of a thread block. Both sides are then accessed along their contiguous axes.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Dialect/MPC/MPC.h"
#include "compiler/Kernels/KernelSpace.h"
#include "passes/Codegen/Kernels/Loops/Lanes.h"
#include "passes/Codegen/Kernels/Loops/ThreadBlock.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/Support/MathExtras.h"

#include <numeric>

using namespace mlir;
using namespace mpc;
using namespace mpc::codegen;

static SmallVector<int64_t> rowMajorStrides(ArrayRef<int64_t> shape) {
  SmallVector<int64_t> strides(shape.size(), 1);
  for (size_t axis = shape.size(); axis-- > 1;)
    strides[axis - 1] = strides[axis] * shape[axis];
  return strides;
}

namespace {
/// One axis of a pad. The result has `extent` indices along it, and the input
/// `size`. The input's first element is at index `offset` of the result.
/// Neighbours in the input are `step` indices apart in the result (negative if
/// reversed), and `stride` elements apart in the input's buffer.
struct PaddedAxis {
  int64_t extent, offset, size, step, stride;

  /// True if the axis has no padding and keeps the order of the input.
  bool isWhole() const { return size == extent && step == 1; }
};

class MovementEmitter {
public:
  explicit MovementEmitter(KernelContext &context)
      : context(context), b(context.b), output(context.buffers.back()) {
    auto type = cast<MemRefType>(output.getType());
    unsigned bits = type.getElementTypeBitWidth();
    width = context.target.isGPU()
                ? context.partition.vector
                : std::max<int64_t>(1, context.target.getVectorBits() /
                                           std::max(bits, 8u));
    lineElements = std::max<int64_t>(blockSide, 64 * 8 / std::max(bits, 8u));
  }

  void emitTranspose(TransposeOp op);
  void emitSlice(SliceOp op);
  void emitConcat(ConcatOp op);
  void emitPad(PadOp op);

private:
  /// Loads `lanes` adjacent elements of `buffer`. `multiple` divides `offset`.
  Value load(Value buffer, Value offset, int64_t lanes, int64_t multiple = 1) {
    return context.load(buffer, offset, lanes, multiple);
  }
  void store(Value value, Value offset, int64_t multiple = 1) {
    context.store(convert(value), output, offset, multiple);
  }
  Value convert(Value value);

  /// Copies input[from...] to output[to...], `size` elements that are `stride`
  /// apart in the input. `from` and `to` are multiples of `multiple`.
  void copyRun(Value input, Value from, Value to, int64_t size, int64_t stride,
               int64_t multiple);
  /// Stores `value` to `size` elements output[to...]. `to` is a multiple of
  /// `multiple`.
  void fillRun(Value value, Value to, int64_t size, int64_t multiple);
  void padRow(Value input, Value from, Value to, const PaddedAxis &columns,
              Value padding);
  void padColumns(Value input, Value from, Value to, const PaddedAxis &columns,
                  Value padding);
  void emitRows(Value input, int64_t base, ArrayRef<MovedAxis> rows,
                MovedAxis columns);
  void emitBlocks(Value input, ArrayRef<MovedAxis> outer, MovedAxis rows,
                  MovedAxis columns);
  void emitBlock(Value input, Value from, Value to, int64_t rowCount,
                 MovedAxis columns);
  void emitSquare(Value input, Value from, Value to, int64_t rows,
                  int64_t width, MovedAxis columns);
  void emitTile(Value input, ArrayRef<MovedAxis> outer, MovedAxis rows,
                MovedAxis columns, TransposeTile tile);
  SmallVector<Value> transposeInRegisters(SmallVector<Value> rows);
  Value offsetOf(Value index, ArrayRef<MovedAxis> axes);

  KernelContext &context;
  ImplicitLocOpBuilder &b;
  Value output;
  /// Elements per vector, and per cache line (at least `blockSide`).
  int64_t width, lineElements;
  /// Side of the squares that are transposed in registers.
  static constexpr int64_t blockSide = 8;
};
} // namespace

//===----------------------------------------------------------------------===//
// Copies
//===----------------------------------------------------------------------===//

/// Converts a float to the result's element type, which may differ from the
/// input's.
Value MovementEmitter::convert(Value value) {
  auto type =
      dyn_cast<FloatType>(cast<MemRefType>(output.getType()).getElementType());
  return type ? Lanes(b, type).convert(value, type) : value;
}

void MovementEmitter::copyRun(Value input, Value from, Value to, int64_t size,
                              int64_t stride, int64_t multiple) {
  emitChunks(
      b, size, stride == 1 ? width : 1, 1, {},
      [&](Chunk chunk, ValueRange) {
        Value source = addIndex(b, from, mulIndex(b, chunk.index, stride));
        int64_t known = std::gcd(chunk.width, multiple);
        store(load(input, source, chunk.width, known),
              addIndex(b, to, chunk.index), known);
        return Carried();
      },
      context.columns);
}

void MovementEmitter::fillRun(Value value, Value to, int64_t size,
                              int64_t multiple) {
  if (size == 0)
    return;
  emitChunks(
      b, size, width, 1, {},
      [&](Chunk chunk, ValueRange) {
        Value lanes = value;
        if (chunk.width > 1)
          lanes = vector::BroadcastOp::create(
              b, VectorType::get(chunk.width, value.getType()), value);
        store(lanes, addIndex(b, to, chunk.index),
              std::gcd(chunk.width, multiple));
        return Carried();
      },
      context.columns);
}

Value MovementEmitter::offsetOf(Value index, ArrayRef<MovedAxis> axes) {
  SmallVector<int64_t> sizes;
  for (MovedAxis axis : axes)
    sizes.push_back(axis.size);
  Value offset = createIndex(b, 0);
  for (auto [part, axis] : llvm::zip_equal(splitIndex(b, index, sizes), axes))
    offset = addIndex(b, offset, mulIndex(b, part, axis.stride));
  return offset;
}

void MovementEmitter::emitRows(Value input, int64_t base,
                               ArrayRef<MovedAxis> rows, MovedAxis columns) {
  int64_t multiple = std::gcd(base, columns.size);
  for (MovedAxis axis : rows)
    multiple = std::gcd(multiple, axis.stride);
  emitLoop(
      b, context.bounds[0], context.bounds[1], 1, {},
      [&](Value row, ValueRange) {
        Value from = addIndex(b, offsetOf(row, rows), base);
        copyRun(input, from, mulIndex(b, row, columns.size), columns.size,
                columns.stride, multiple);
        return Carried();
      },
      context.rows);
}

//===----------------------------------------------------------------------===//
// Transpose
//===----------------------------------------------------------------------===//

/// Transposes n rows of n lanes in log2(n) steps. Each step interleaves the
/// rows in pairs.
SmallVector<Value>
MovementEmitter::transposeInRegisters(SmallVector<Value> rows) {
  int64_t n = rows.size();
  // Masks that interleave two rows of n lanes: `low` the first halves (lanes 0,
  // n, 1, n + 1, ...), `high` the second halves.
  SmallVector<int64_t> low, high;
  for (int64_t i = 0; i < n; ++i) {
    low.push_back(i / 2 + (i % 2) * n);
    high.push_back(n / 2 + i / 2 + (i % 2) * n);
  }
  // In each step, rows i and i + n / 2 are interleaved, and become rows 2i and
  // 2i + 1.
  for (int64_t step = 1; step < n; step *= 2) {
    SmallVector<Value> shuffled;
    for (int64_t i = 0; i < n / 2; ++i) {
      shuffled.push_back(
          vector::ShuffleOp::create(b, rows[i], rows[i + n / 2], low));
      shuffled.push_back(
          vector::ShuffleOp::create(b, rows[i], rows[i + n / 2], high));
    }
    rows = std::move(shuffled);
  }
  return rows;
}

/// Emits `rowCount` rows of a transposed result, over all columns. In the
/// input, elements of a column are adjacent. `from` is the offset of the first
/// element in the input, `to` in the result.
void MovementEmitter::emitBlock(Value input, Value from, Value to,
                                int64_t rowCount, MovedAxis columns) {
  int64_t side = std::min(rowCount, blockSide);
  emitChunks(b, columns.size, side, 1, {}, [&](Chunk chunk, ValueRange) {
    Value source = addIndex(b, from, mulIndex(b, chunk.index, columns.stride));
    Value target = addIndex(b, to, chunk.index);
    for (int64_t row = 0; row < rowCount; row += side)
      emitSquare(input, addIndex(b, source, row),
                 addIndex(b, target, row * columns.size), side, chunk.width,
                 columns);
    return Carried();
  });
}

/// Emits a block of a transposed result, `rows` rows of `width` columns: in
/// registers if the block is square, otherwise element by element.
void MovementEmitter::emitSquare(Value input, Value from, Value to,
                                 int64_t rows, int64_t width,
                                 MovedAxis columns) {
  if (rows == width && rows > 1) {
    SmallVector<Value> vectors;
    for (int64_t i = 0; i < rows; ++i)
      vectors.push_back(
          load(input, addIndex(b, from, i * columns.stride), rows));
    for (auto [i, row] : llvm::enumerate(transposeInRegisters(vectors)))
      store(row, addIndex(b, to, i * columns.size));
    return;
  }
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t column = 0; column < width; ++column)
      store(load(input, addIndex(b, from, row + column * columns.stride), 1),
            addIndex(b, to, row * columns.size + column));
}

/// Emits a slice of a transpose on a CPU. The result is a stack of transposed
/// matrices: row r is row r % rows.size of matrix r / rows.size. A slice may
/// begin and end within a matrix.
void MovementEmitter::emitBlocks(Value input, ArrayRef<MovedAxis> outer,
                                 MovedAxis rows, MovedAxis columns) {
  emitRunLoop(b, context.bounds[0], context.bounds[1], rows.size,
              [&](Value matrix, Value lower, Value upper) {
                Value base = offsetOf(matrix, outer);
                Value start = mulIndex(b, matrix, rows.size);
                // Elements of a column are adjacent in the input. Process as
                // many rows at once as fill a cache line of a column, then
                // `blockSide` rows, then single rows.
                emitDynamicChunks(
                    b, lower, upper, rows.size,
                    {{lineElements, 1}, {blockSide, 1}, {1, 1}},
                    [&](Chunk chunk) {
                      Value to = mulIndex(b, addIndex(b, start, chunk.index),
                                          columns.size);
                      emitBlock(input, addIndex(b, base, chunk.index), to,
                                chunk.width, columns);
                    });
              });
}

/// Transposes one tile of a matrix through shared memory: reads along the
/// columns of the result, writes along its rows. Columns in shared memory are
/// an odd number of elements apart, so that a row lies in different banks.
void MovementEmitter::emitTile(Value input, ArrayRef<MovedAxis> outer,
                               MovedAxis rows, MovedAxis columns,
                               TransposeTile tile) {
  // Derive the matrix and the tile from the number of the thread block.
  const int64_t pitch = tile.rows | 1, elements = tile.rows * tile.columns;
  auto type = cast<MemRefType>(input.getType());
  Value shared =
      context.createShared(tile.columns * pitch, type.getElementType());
  SmallVector<Value> parts =
      splitIndex(b, context.bounds[0],
                 {1, llvm::divideCeilSigned(rows.size, tile.rows),
                  llvm::divideCeilSigned(columns.size, tile.columns)});
  Value matrix = parts[0], firstRow = mulIndex(b, parts[1], tile.rows),
        firstColumn = mulIndex(b, parts[2], tile.columns);
  // Calls `move` if row and column are inside the matrix.
  auto within = [&](Value row, Value column, llvm::function_ref<void()> move) {
    Value inside;
    for (auto [index, size, step] :
         {std::tuple(row, rows.size, tile.rows),
          std::tuple(column, columns.size, tile.columns)})
      if (size % step != 0) {
        Value below = arith::CmpIOp::create(b, arith::CmpIPredicate::ult, index,
                                            createIndex(b, size));
        inside =
            inside ? Value(arith::AndIOp::create(b, inside, below)) : below;
      }
    emitWhere(b, inside, move);
  };

  // Neighbouring threads read neighbouring elements of a column, and write them
  // to a row of shared memory.
  Value base = offsetOf(matrix, outer);
  auto read = [&](Value element, ValueRange) {
    SmallVector<Value> at = splitIndex(b, element, {tile.columns, tile.rows});
    Value row = addIndex(b, firstRow, at[1]);
    Value column = addIndex(b, firstColumn, at[0]);
    within(row, column, [&] {
      Value from = addIndex(b, addIndex(b, base, row),
                            mulIndex(b, column, columns.stride));
      context.store(load(input, from, 1), shared,
                    addIndex(b, mulIndex(b, at[0], pitch), at[1]), 1);
    });
    return Carried();
  };
  // After the barrier, neighbouring threads write neighbouring elements of a
  // row of the result.
  auto write = [&](Value element, ValueRange) {
    SmallVector<Value> at = splitIndex(b, element, {tile.rows, tile.columns});
    Value row = addIndex(b, firstRow, at[0]);
    Value column = addIndex(b, firstColumn, at[1]);
    within(row, column, [&] {
      Value resultRow = addIndex(b, mulIndex(b, matrix, rows.size), row);
      store(load(shared, addIndex(b, mulIndex(b, at[1], pitch), at[0]), 1),
            addIndex(b, mulIndex(b, resultRow, columns.size), column));
    });
    return Carried();
  };
  emitLoop(b, elements, 1, {}, read, context.columns);
  emitBarrier(b);
  emitLoop(b, elements, 1, {}, write, context.columns);
}

void MovementEmitter::emitTranspose(TransposeOp op) {
  Value input = context.buffers.front();
  TransposeSpace space = getTransposeSpace(op);
  ArrayRef<MovedAxis> rows = space.rows;
  if (!space.turnsMatrices())
    emitRows(input, 0, rows, space.columns);
  else if (context.target.isGPU())
    emitTile(input, rows.drop_back(), rows.back(), space.columns,
             getTransposeTile(space));
  else
    emitBlocks(input, rows.drop_back(), rows.back(), space.columns);
}

//===----------------------------------------------------------------------===//
// Slice and concat
//===----------------------------------------------------------------------===//

void MovementEmitter::emitSlice(SliceOp op) {
  SmallVector<int64_t> strides = rowMajorStrides(shapeOf(op.getInput()));
  int64_t base = 0;
  SmallVector<MovedAxis> axes;
  for (auto [offset, size, stride, step] :
       llvm::zip_equal(op.getOffsets(), op.getSizes(), strides,
                       fillStrides(op.getStrides(), strides.size()))) {
    base += offset * stride;
    axes.push_back({size, stride * step});
  }
  MovedAxis columns = axes.empty() ? MovedAxis{1, 1} : axes.pop_back_val();
  emitRows(context.buffers.front(), base, mergeAxes(axes), columns);
}

// Emits a concat row by row. If the last axis is concatenated, a row of the
// result has a part of every input. Otherwise it is a row of one input, and
// row numbers are split into (outer axes, concatenated axis, inner axes).
void MovementEmitter::emitConcat(ConcatOp op) {
  // Count the rows of one index of the concatenated axis.
  ArrayRef<int64_t> shape = shapeOf(op.getOutput());
  int64_t axis = op.getAxis(), rank = shape.size();
  bool joinsColumns = axis == rank - 1;
  int64_t innerRows = 1;
  for (int64_t d = axis + 1; d < rank - 1; ++d)
    innerRows *= shape[d];
  auto copyRow = [&](Value row, ValueRange) {
    Value to = mulIndex(b, row, shape.back());
    SmallVector<Value> parts =
        joinsColumns ? SmallVector<Value>{row}
                     : splitIndex(b, row, {1, shape[axis], innerRows});
    int64_t start = 0;
    for (OpOperand &operand : op->getOpOperands()) {
      int64_t size = shapeOf(operand.get())[axis];
      Value input = context.getBuffer(operand.get());
      // If the last axis is concatenated, copy a row of each input, one after
      // the other. `multiple` divides the offsets of this input's rows, in the
      // input and in the result.
      if (joinsColumns) {
        int64_t multiple = std::gcd(std::gcd(size, start), shape.back());
        copyRun(input, mulIndex(b, row, size), addIndex(b, to, start), size, 1,
                multiple);
        start += size;
        continue;
      }
      // If another axis is concatenated, copy the row from the input whose
      // range along the axis contains the row.
      Value along = addIndex(b, parts[1], -start);
      Value inside = arith::CmpIOp::create(b, arith::CmpIPredicate::ult, along,
                                           createIndex(b, size));
      emitWhere(b, inside, [&] {
        Value outer = mulIndex(b, parts[0], size);
        Value sourceRow = addIndex(
            b, mulIndex(b, addIndex(b, outer, along), innerRows), parts[2]);
        copyRun(input, mulIndex(b, sourceRow, shape.back()), to, shape.back(),
                1, shape.back());
      });
      start += size;
    }
    return Carried();
  };
  emitLoop(b, context.bounds[0], context.bounds[1], 1, {}, copyRow,
           context.rows);
}

//===----------------------------------------------------------------------===//
// Pad
//===----------------------------------------------------------------------===//

static PaddedAxis getPaddedAxis(PadOp op, size_t axis) {
  ArrayRef<int64_t> sizes = shapeOf(op.getInput());
  return {op.getShape()[axis], op.getOffsets()[axis], sizes[axis],
          fillStrides(op.getStrides(), sizes.size())[axis],
          rowMajorStrides(sizes)[axis]};
}

// Returns all but the last axis of a pad. An axis without padding merges with
// the axis before.
static SmallVector<PaddedAxis> getPaddedRows(PadOp op) {
  SmallVector<PaddedAxis> rows;
  for (size_t d = 0; d + 1 < op.getShape().size(); ++d) {
    PaddedAxis axis = getPaddedAxis(op, d);
    bool joins = !rows.empty() && axis.isWhole() && rows.back().step == 1;
    if (joins) {
      PaddedAxis outer = rows.pop_back_val();
      axis = {outer.extent * axis.extent, outer.offset * axis.extent,
              outer.size * axis.extent, 1, axis.stride};
    }
    rows.push_back(axis);
  }
  return rows;
}

/// Returns the input's index for index `part` of the result along a padded
/// axis, and a flag that is false in padding. The flag is null on axes without
/// padding.
static std::pair<Value, Value> findPadded(ImplicitLocOpBuilder &b, Value part,
                                          const PaddedAxis &axis) {
  // In the padding before the input's first element, the difference wraps to a
  // large unsigned number, which is not below the input's size.
  Value along =
      axis.step > 0
          ? addIndex(b, part, -axis.offset)
          : arith::SubIOp::create(b, createIndex(b, axis.offset), part);
  if (axis.isWhole())
    return {along, Value()};
  Value inside;
  if (std::abs(axis.step) != 1) {
    Value step = createIndex(b, std::abs(axis.step));
    inside = arith::CmpIOp::create(b, arith::CmpIPredicate::eq,
                                   arith::RemUIOp::create(b, along, step),
                                   createIndex(b, 0));
    along = arith::DivUIOp::create(b, along, step);
  }
  Value here = arith::CmpIOp::create(b, arith::CmpIPredicate::ult, along,
                                     createIndex(b, axis.size));
  return {along, inside ? Value(arith::AndIOp::create(b, inside, here)) : here};
}

/// Creates the element with which a pad surrounds its input.
static Value createPadding(ImplicitLocOpBuilder &b, PadOp op) {
  Type type = getStorageType(elementOf(op.getOutput()));
  double value = op.getValue().convertToDouble();
  if (isa<FloatType>(type))
    return arith::ConstantOp::create(b, b.getFloatAttr(type, value));
  return arith::ConstantOp::create(
      b, b.getIntegerAttr(type, static_cast<int64_t>(value)));
}

/// Emits a row of a pad that contains input elements, from offset `from` on,
/// with padding on both sides.
void MovementEmitter::padRow(Value input, Value from, Value to,
                             const PaddedAxis &columns, Value padding) {
  if (columns.step != 1) {
    padColumns(input, from, to, columns, padding);
    return;
  }
  fillRun(padding, to, columns.offset, columns.extent);
  copyRun(input, from, addIndex(b, to, columns.offset), columns.size, 1,
          std::gcd(std::gcd(columns.size, columns.offset), columns.extent));
  int64_t end = columns.offset + columns.size;
  fillRun(padding, addIndex(b, to, end), columns.extent - end,
          std::gcd(end, columns.extent));
}

/// Emits a row of a pad element by element, if input elements are reversed or
/// have padding in between, so that no run can be copied.
void MovementEmitter::padColumns(Value input, Value from, Value to,
                                 const PaddedAxis &columns, Value padding) {
  emitLoop(
      b, columns.extent, 1, {},
      [&](Value column, ValueRange) {
        std::pair<Value, Value> found = findPadded(b, column, columns);
        Value source = addIndex(b, from, found.first);
        Value at = addIndex(b, to, column);
        emitEither(
            b, found.second, [&] { store(load(input, source, 1), at); },
            [&] { store(padding, at); });
        return Carried();
      },
      context.columns);
}

// Emits a pad row by row. A row of the result is a row of the input with
// padding on both sides, or all padding.
void MovementEmitter::emitPad(PadOp op) {
  // Along the last axis, padding is part of a row. The other axes decide which
  // rows are all padding.
  Value input = context.buffers.front();
  size_t rank = op.getShape().size();
  PaddedAxis columns =
      rank == 0 ? PaddedAxis{1, 0, 1, 1, 1} : getPaddedAxis(op, rank - 1);
  SmallVector<PaddedAxis> rows = getPaddedRows(op);
  SmallVector<int64_t> extents;
  for (const PaddedAxis &axis : rows)
    extents.push_back(axis.extent);
  Value padding = createPadding(b, op);

  auto copyRow = [&](Value row, ValueRange) {
    Value to = mulIndex(b, row, columns.extent), from = createIndex(b, 0);
    // A row contains input elements if its index along every axis but the last
    // is inside the input.
    Value inside;
    for (auto [part, axis] :
         llvm::zip_equal(splitIndex(b, row, extents), rows)) {
      auto [along, here] = findPadded(b, part, axis);
      from = addIndex(b, from, mulIndex(b, along, axis.stride));
      if (here)
        inside = inside ? Value(arith::AndIOp::create(b, inside, here)) : here;
    }
    emitEither(
        b, inside, [&] { padRow(input, from, to, columns, padding); },
        [&] { fillRun(padding, to, columns.extent, columns.extent); });
    return Carried();
  };
  emitLoop(b, context.bounds[0], context.bounds[1], 1, {}, copyRow,
           context.rows);
}

LogicalResult codegen::emitMovement(KernelContext &context) {
  Operation &op = context.kernel.getBody().front().front();
  Operation *terminator = op.getNextNode();
  if (!terminator || !terminator->hasTrait<OpTrait::IsTerminator>())
    return context.kernel.emitOpError(
        "of kind 'movement' must hold exactly one op, found several");
  MovementEmitter emitter(context);
  if (auto transpose = dyn_cast<TransposeOp>(op))
    emitter.emitTranspose(transpose);
  else if (auto slice = dyn_cast<SliceOp>(op))
    emitter.emitSlice(slice);
  else if (auto concat = dyn_cast<ConcatOp>(op))
    emitter.emitConcat(concat);
  else if (auto pad = dyn_cast<PadOp>(op))
    emitter.emitPad(pad);
  else
    return op.emitOpError("is a movement that no code generator supports");
  return success();
}
