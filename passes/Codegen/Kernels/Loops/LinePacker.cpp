// SPDX-License-Identifier: Apache-2.0
#include "passes/Codegen/Kernels/Loops/LinePacker.h"

#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/bit.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::codegen;

Value LinePacker::load(const Lines &lines, Value offset, int64_t width) {
  Value buffer = context.getBuffer(lines.operand.source);
  return lanes.convert(context.load(buffer, offset, width, /*multiple=*/1),
                       lanes.getComputeType());
}

void LinePacker::store(const Lines &lines, Value value, Value offset) {
  context.store(value, lines.packed, offset, /*multiple=*/1);
}

/// If lines are adjacent, the elements of all lines at one depth are a row of
/// memory. Then packs 16 such rows at a time, for all panels. If whole panels
/// were packed one by one, each row that a panel reads would be on another
/// page.
void LinePacker::pack(const Lines &lines, Value source, Value count,
                      Value depth) {
  assert(lines.packed && lines.panel > 0 && "memory for panels of lines");
  if (lines.lineStride != 1)
    return packPanels(lines, source, createIndex(b, 0), count, depth);
  constexpr int64_t kRows = 16;
  emitLoop(b, createIndex(b, 0), depth, kRows, {}, [&](Value k, ValueRange) {
    Value rest = arith::SubIOp::create(b, depth, k);
    Value rows = arith::MinUIOp::create(b, rest, createIndex(b, kRows));
    Value from = addIndex(b, source, mulIndex(b, k, lines.depthStride));
    packPanels(lines, from, mulIndex(b, k, lines.panel), count, rows);
    return Carried();
  });
}

/// Packs the panels of `count` lines, the first panel from element `target` on.
void LinePacker::packPanels(const Lines &lines, Value source, Value target,
                            Value count, Value depth) {
  // Packs a whole panel, according to the layout of lines in memory.
  auto packFull = [&](Value from, Value to) {
    if (lines.lineStride == 1)
      packAlongLines(lines, from, to, depth);
    else
      packTransposed(lines, from, to, depth);
  };
  emitLoop(b, createIndex(b, 0), count, lines.panel, {},
           [&](Value line, ValueRange) {
             // The last panel may have fewer lines than the others.
             Value from =
                 addIndex(b, source, mulIndex(b, line, lines.lineStride));
             Value to = addIndex(b, target, mulIndex(b, line, blockDepth));
             Value rest = arith::SubIOp::create(b, count, line);
             Value isFull =
                 arith::CmpIOp::create(b, arith::CmpIPredicate::uge, rest,
                                       createIndex(b, lines.panel));
             emitEither(
                 b, isFull, [&] { packFull(from, to); },
                 [&] { packEdge(lines, from, to, rest, depth); });
             return Carried();
           });
}

/// Returns the largest power of two that is at most `most` and at most `rest`.
static int64_t getVectorSize(int64_t rest, int64_t most) {
  assert(rest > 0 && most > 0 && "a vector has elements");
  return std::min<int64_t>(most, llvm::bit_floor<uint64_t>(rest));
}

/// Packs a whole panel of lines that are adjacent in memory: each row of memory
/// is copied in vectors.
void LinePacker::packAlongLines(const Lines &lines, Value source, Value target,
                                Value depth) {
  emitLoop(b, createIndex(b, 0), depth, 1, {}, [&](Value k, ValueRange) {
    Value from = addIndex(b, source, mulIndex(b, k, lines.depthStride));
    Value to = addIndex(b, target, mulIndex(b, k, lines.panel));
    for (int64_t line = 0; line < lines.panel;) {
      int64_t size = getVectorSize(lines.panel - line, width);
      store(lines, load(lines, addIndex(b, from, line), size),
            addIndex(b, to, line));
      line += size;
    }
    return Carried();
  });
}

/// Packs a whole panel of lines that are not adjacent. If a line is contiguous,
/// packs as many of its elements at once as a vector has lanes, then the rest
/// one by one. Otherwise packs all elements one by one.
void LinePacker::packTransposed(const Lines &lines, Value source, Value target,
                                Value depth) {
  // Returns the offsets of element (line 0, depth k) in the source and in the
  // panel.
  auto at = [&](Value k) {
    return std::pair(addIndex(b, source, mulIndex(b, k, lines.depthStride)),
                     addIndex(b, target, mulIndex(b, k, lines.panel)));
  };
  Value done = createIndex(b, 0);
  // Transpose blocks of width x width in registers.
  if (lines.depthStride == 1) {
    Value rest = arith::RemUIOp::create(b, depth, createIndex(b, width));
    Value whole = arith::SubIOp::create(b, depth, rest);
    emitLoop(b, done, whole, width, {}, [&](Value k, ValueRange) {
      auto [from, to] = at(k);
      for (int64_t line = 0; line < lines.panel; line += width)
        transposeBlock(lines, from, to, line);
      return Carried();
    });
    done = whole;
  }
  // Pack the rest of the depth one element at a time.
  emitLoop(b, done, depth, 1, {}, [&](Value k, ValueRange) {
    auto [from, to] = at(k);
    for (int64_t line = 0; line < lines.panel; ++line)
      store(lines, load(lines, addIndex(b, from, line * lines.lineStride), 1),
            addIndex(b, to, line));
    return Carried();
  });
}

/// Interleaves the lanes of two vectors: [a0 a1 a2 a3] and [b0 b1 b2 b3] become
/// [a0 b0 a1 b1] and [a2 b2 a3 b3].
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

/// Transposes a square of n vectors: lane i of vector j becomes lane j of
/// vector i. Each round interleaves vectors i and i + n / 2.
static SmallVector<Value> transposeVectors(ImplicitLocOpBuilder &b,
                                           SmallVector<Value> vectors) {
  assert(llvm::has_single_bit(vectors.size()) &&
         "interleaving transposes a power of two of vectors");
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

/// Packs a block of a panel by a transpose in registers: lines [first, first +
/// width), or up to the end of the panel, and `width` elements along the depth.
void LinePacker::transposeBlock(const Lines &lines, Value source, Value target,
                                int64_t first) {
  assert(first >= 0 && first < lines.panel && "a line of the panel");
  int64_t count = std::min(width, lines.panel - first);
  // Missing lines repeat the first line and are not stored.
  SmallVector<Value> vectors;
  for (int64_t i = 0; i < count; ++i)
    vectors.push_back(load(
        lines, addIndex(b, source, (first + i) * lines.lineStride), width));
  vectors.resize(width, vectors.front());
  vectors = transposeVectors(b, std::move(vectors));
  // Store the lanes of each transposed vector that are in the panel, in
  // vectors of powers of two.
  for (auto [k, vector] : llvm::enumerate(vectors))
    for (int64_t lane = 0; lane < count;) {
      int64_t size = getVectorSize(count - lane, width);
      Value part = size == width
                       ? vector
                       : Value(vector::ExtractStridedSliceOp::create(
                             b, vector, ArrayRef<int64_t>{lane},
                             ArrayRef<int64_t>{size}, ArrayRef<int64_t>{1}));
      int64_t offset = static_cast<int64_t>(k) * lines.panel + first + lane;
      store(lines, part, addIndex(b, target, offset));
      lane += size;
    }
}

/// Packs the last panel, which has `count` lines; missing lines are zeros.
void LinePacker::packEdge(const Lines &lines, Value source, Value target,
                          Value count, Value depth) {
  Value zero = lanes.constant(0);
  emitLoop(b, createIndex(b, 0), depth, 1, {}, [&](Value k, ValueRange) {
    Value from = addIndex(b, source, mulIndex(b, k, lines.depthStride));
    Value to = addIndex(b, target, mulIndex(b, k, lines.panel));
    emitLoop(b, createIndex(b, 0), count, 1, {}, [&](Value line, ValueRange) {
      Value offset = addIndex(b, from, mulIndex(b, line, lines.lineStride));
      store(lines, load(lines, offset, 1), addIndex(b, to, line));
      return Carried();
    });
    emitLoop(b, count, createIndex(b, lines.panel), 1, {},
             [&](Value line, ValueRange) {
               store(lines, zero, addIndex(b, to, line));
               return Carried();
             });
    return Carried();
  });
}
