// SPDX-License-Identifier: Apache-2.0
#include "passes/Codegen/TensorCore/TensorCoreOperands.h"

#include "passes/Codegen/Kernels/Loops/KernelContext.h"
#include "passes/Codegen/Kernels/Loops/Loops.h"
#include "passes/Codegen/Kernels/Loops/NVVMOps.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::codegen;

//===----------------------------------------------------------------------===//
// Addresses
//===----------------------------------------------------------------------===//

Value Index32::constant(int64_t value) {
  return arith::ConstantOp::create(b, b.getI32IntegerAttr(value));
}
Value Index32::add(Value x, Value y) { return arith::AddIOp::create(b, x, y); }
Value Index32::add(Value x, int64_t y) {
  return y == 0 ? x : add(x, constant(y));
}
Value Index32::mul(Value x, int64_t y) {
  return y == 1 ? x : arith::MulIOp::create(b, x, constant(y));
}
Value Index32::div(Value x, int64_t y) {
  return y == 1 ? x : arith::DivUIOp::create(b, x, constant(y));
}
Value Index32::rem(Value x, int64_t y) {
  return arith::RemUIOp::create(b, x, constant(y));
}
Value Index32::bitXor(Value x, Value y) {
  return arith::XOrIOp::create(b, x, y);
}
Value Index32::isLess(Value x, int64_t y) {
  return arith::CmpIOp::create(b, arith::CmpIPredicate::ult, x, constant(y));
}
Value Index32::from(Value index) {
  return arith::IndexCastOp::create(b, b.getI32Type(), index);
}

Value Index32::getOffset(const SwizzledTile &tile, Value row, Value chunk) {
  Value bits = rem(div(row, int64_t(1) << tile.rowShift), tile.rowMask + 1);
  return add(mul(row, tile.getRowBytes()), mul(bitXor(chunk, bits), 16));
}

static Value offsetPointer(ImplicitLocOpBuilder &b, Value pointer,
                           LLVM::GEPArg bytes) {
  return LLVM::GEPOp::create(b, pointer.getType(), b.getI8Type(), pointer,
                             ArrayRef<LLVM::GEPArg>{bytes});
}

Value codegen::getSharedPointer(ImplicitLocOpBuilder &b, Value address,
                                int64_t offset) {
  auto type = LLVM::LLVMPointerType::get(b.getContext(), kSharedMemory);
  Value wide = arith::ExtUIOp::create(b, b.getI64Type(), address);
  return offsetPointer(b, LLVM::IntToPtrOp::create(b, type, wide),
                       static_cast<int32_t>(offset));
}

static constexpr int64_t kElementBytes = 2;

/// Computes the byte offset in 64 bits, since a large buffer may have more
/// bytes than 32 bits can count.
Value codegen::getElementPointer(ImplicitLocOpBuilder &b, Value pointer,
                                 Value index) {
  Value wide = arith::IndexCastOp::create(b, b.getI64Type(), index);
  Value size = arith::ConstantOp::create(b, b.getI64IntegerAttr(kElementBytes));
  Value bytes = arith::MulIOp::create(b, wide, size);
  return offsetPointer(b, pointer, bytes);
}

//===----------------------------------------------------------------------===//
// Copies
//===----------------------------------------------------------------------===//

TileCopier::TileCopier(ImplicitLocOpBuilder &builder,
                       const TensorCoreOperand &operand,
                       const GlobalMatrix &matrix, int64_t threads,
                       Value thread)
    : b(builder), i32(builder), operand(operand), matrix(matrix) {
  // All threads copy the tile together, in passes of `passRows` rows. In each
  // pass, a thread copies one vector of a row, `copyBytes` long.
  const SwizzledTile &tile = operand.tile;
  int64_t vectorElements = operand.copyBytes / kElementBytes;
  int64_t rowVectors = tile.getRowBytes() / operand.copyBytes;
  assert(threads % rowVectors == 0 && "a pass copies whole rows");
  passRows = threads / rowVectors;
  passes = tile.rows / passRows;
  assert(passes * passRows == tile.rows && "passes cover the tile once");
  int64_t extent = operand.alongDepth ? tile.rows : tile.chunks * 8;
  hasEdge = matrix.extent % extent != 0;
  hasDepthEdge = matrix.depth % TensorCoreTiling::kBlockK != 0;

  // Compute the offsets of this thread's vectors in shared memory. The swizzle
  // repeats after tile.getPeriod() rows, so later passes reuse the offsets.
  row = i32.div(thread, rowVectors);
  column = i32.mul(i32.rem(thread, rowVectors), vectorElements);
  Value chunk = i32.div(column, 8);
  Value inChunk = i32.mul(i32.rem(column, 8), kElementBytes);
  int64_t distinct = std::max<int64_t>(1, tile.getPeriod() / passRows);
  for (int64_t pass = 0; pass < std::min(distinct, passes); ++pass) {
    Value passRow = i32.add(row, pass * passRows);
    offsets.push_back(i32.add(i32.getOffset(tile, passRow, chunk), inChunk));
  }

  // Compute the address of this thread's first vector in global memory.
  auto wide = [&](Value value) {
    return arith::IndexCastUIOp::create(b, b.getIndexType(), value);
  };
  Value outer = wide(operand.alongDepth ? row : column);
  Value inner = wide(operand.alongDepth ? column : row);
  outer = addIndex(b, matrix.origin, outer);
  Value offset = operand.alongDepth
                     ? addIndex(b, mulIndex(b, outer, operand.leading), inner)
                     : addIndex(b, mulIndex(b, inner, operand.leading), outer);
  start = getElementPointer(b, matrix.pointer, offset);

  if (!hasEdge)
    return;
  // Tiles at the edge reach beyond the matrix: test which passes are inside.
  Value first = i32.from(outer);
  for (int64_t pass = 0; pass < (operand.alongDepth ? passes : 1); ++pass)
    inside.push_back(
        i32.isLess(i32.add(first, pass * passRows), matrix.extent));
}

Value TileCopier::advance(Value pointer) {
  int64_t elements =
      TensorCoreTiling::kBlockK * (operand.alongDepth ? 1 : operand.leading);
  Value bytes = arith::ConstantOp::create(
      b, b.getI64IntegerAttr(elements * kElementBytes));
  return offsetPointer(b, pointer, bytes);
}

/// Returns how many bytes this thread reads in a pass: `copyBytes`, or 0
/// outside the matrix. Null if tiles divide the matrix evenly.
Value TileCopier::getSize(int64_t pass, Value depth) {
  assert(pass >= 0 && pass < passes && "a pass over the tile");
  Value valid;
  if (hasEdge)
    valid = inside[operand.alongDepth ? pass : 0];
  if (hasDepthEdge) {
    Value position = operand.alongDepth
                         ? i32.add(depth, column)
                         : i32.add(i32.add(depth, row), pass * passRows);
    Value reached = i32.isLess(position, matrix.depth);
    valid = valid ? arith::AndIOp::create(b, valid, reached) : reached;
  }
  if (!valid)
    return nullptr;
  return arith::SelectOp::create(b, valid, i32.constant(operand.copyBytes),
                                 i32.constant(0));
}

void TileCopier::emit(Value pointer, Value depth, Value address) {
  assert(!offsets.empty() && "a thread copies a vector in every pass");
  SmallVector<Value> bases;
  for (Value offset : offsets)
    bases.push_back(i32.add(address, offset));
  int64_t distinct = bases.size();
  for (int64_t pass = 0; pass < passes; ++pass) {
    int64_t repeated = pass / distinct * distinct * passRows;
    Value to = getSharedPointer(b, bases[pass % distinct],
                                repeated * operand.tile.getRowBytes());
    Value bytes = arith::ConstantOp::create(
        b,
        b.getI64IntegerAttr(pass * passRows * operand.leading * kElementBytes));
    Value from = offsetPointer(b, pointer, bytes);
    emitCopyAsync(b, to, from, operand.copyBytes, getSize(pass, depth));
  }
}

//===----------------------------------------------------------------------===//
// Fragments
//===----------------------------------------------------------------------===//

/// Computes the offsets that a lane passes to ldmatrix, which reads four 8 x 8
/// matrices. Lanes 8i to 8i + 7 pass the addresses of the rows of matrix i. The
/// mma instruction expects the left operand's matrices in the order (rows 0-7,
/// depth 0-7), (8-15, 0-7), (0-7, 8-15), (8-15, 8-15). A fragment of the right
/// operand is half as large, so one ldmatrix reads two fragments: (columns 0-7,
/// depth 0-7), (0-7, 8-15), (8-15, 0-7), (8-15, 8-15).
FragmentLoader::FragmentLoader(ImplicitLocOpBuilder &builder,
                               const TensorCoreOperand &operand, Side side,
                               int64_t base, int64_t extent, Value first,
                               Value lane)
    : b(builder), operand(operand), groups(extent / 16) {
  assert(extent % 16 == 0 && "a load fills four 8 x 8 matrices");
  Index32 i32(b);
  // Select the one of the four 8 x 8 matrices whose row address this lane
  // passes.
  Value inMatrix = i32.rem(lane, 8);
  Value odd = i32.rem(i32.div(lane, 8), 2);
  Value high = i32.div(lane, 16);
  Value outerHalf = side == Side::Lhs ? odd : high;
  Value depthHalf = side == Side::Lhs ? high : odd;
  // If tile rows run along the depth, rows of the four matrices are parts of
  // tile rows.
  if (operand.alongDepth) {
    Value row = i32.add(first, i32.add(inMatrix, i32.mul(outerHalf, 8)));
    for (int64_t step = 0; step < TensorCoreTiling::kBlockK / 16; ++step) {
      Value chunk = i32.add(depthHalf, 2 * step);
      offsets.push_back(i32.add(i32.getOffset(operand.tile, row, chunk), base));
    }
    return;
  }
  // If tile rows run across the depth, rows of the four matrices are parts of
  // tile columns. ldmatrix transposes the matrices.
  Value row = i32.add(inMatrix, i32.mul(depthHalf, 8));
  Value firstChunk = i32.add(i32.div(first, 8), outerHalf);
  for (int64_t group = 0; group < groups; ++group) {
    Value chunk = i32.add(firstChunk, 2 * group);
    offsets.push_back(i32.add(i32.getOffset(operand.tile, row, chunk), base));
  }
}

SmallVector<Value> FragmentLoader::load(Value stage, int64_t step) const {
  assert(step >= 0 && step < TensorCoreTiling::kBlockK / 16 &&
         "an mma step of the tile");
  Index32 i32(b);
  int64_t rowBytes = operand.tile.getRowBytes();
  Value address = operand.alongDepth ? i32.add(stage, offsets[step]) : nullptr;
  SmallVector<Value> registers;
  for (int64_t group = 0; group < groups; ++group) {
    Value pointer = operand.alongDepth
                        ? getSharedPointer(b, address, group * 16 * rowBytes)
                        : getSharedPointer(b, i32.add(stage, offsets[group]),
                                           step * 16 * rowBytes);
    // ldmatrix transposes the matrices unless tile rows run along the depth, as
    // mma expects.
    registers.append(loadMatrices(b, pointer, !operand.alongDepth));
  }
  return registers;
}
