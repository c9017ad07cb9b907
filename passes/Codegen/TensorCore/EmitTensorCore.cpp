// Emits matrix products on Tensor Cores. One thread block computes one tile of
// the result, then applies the kernel's elementwise epilogue.
//
// The sums leave the main loop in the order of the mma instruction, as
// scattered pairs of adjacent elements. Each warp exchanges its sums through
// shared memory, until a thread holds up to eight adjacent elements of a row.
// The epilogue then reads and writes 16 bytes at a time, and is emitted once,
// in a loop, instead of once per sum.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Dialect/MPC/MPC.h"
#include "compiler/Kernels/KernelHero.h"
#include "passes/Codegen/Kernels/Contraction/ContractionSums.h"
#include "passes/Codegen/Kernels/FragmentEmitter.h"
#include "passes/Codegen/Kernels/Loops/NVVMOps.h"
#include "passes/Codegen/Kernels/Loops/ThreadBlock.h"
#include "passes/Codegen/Kernels/Loops/Window.h"
#include "passes/Codegen/TensorCore/TensorCoreLoop.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::codegen;

static constexpr llvm::StringLiteral kSharedSymbol = "mpc_shared_memory";

/// Rows of tiles in a group. Blocks with consecutive numbers go through a group
/// column by column. Blocks that run at the same time thus cover a near-square
/// part of the result, and share rows of the lhs and columns of the rhs in L2.
static constexpr int64_t kGroupRows = 8;

/// Rows that a thread handles together in the epilogue. The loads of all these
/// rows are issued before the first result is used.
static constexpr int64_t kPositions = 4;

namespace {
class TensorCoreEmitter {
public:
  TensorCoreEmitter(KernelContext &context, const KernelBody &body, MatMulOp op,
                    const TensorCoreTiling &tiling);
  void emit();

private:
  void findTile();
  Value getMatrix(const MatrixOperand &operand);
  SmallVector<Value> multiply();

  void stage(ArrayRef<Value> sums);
  Value unstage(Value row, Value column);
  void emitEpilogue();
  void emitRows(const Scope &outer, Value column);
  Scope getRowScope(const Scope &outer, Value row);
  void finishRow(Scope &scope, Value row, Value column);
  Value findInside(Value row, Value column);
  void storeRow(const Scope &scope, Value inside);

  KernelContext &context;
  const KernelBody &body;
  MatMulOp op;
  const TensorCoreTiling &tiling;
  FragmentEmitter fragments;
  ImplicitLocOpBuilder &b;
  Index32 i32;
  StagingTile staging;
  SmallVector<unsigned> targets, arguments;
  unsigned heroNode;
  bool hasRowEdge, hasColumnEdge;
  bool readsWhatItWrites;

  /// Indices: the block's matrix in the batch, and the first row and column of
  /// the block's tile.
  Value batch, blockRow, blockColumn;
  /// As i32: the thread, its lane in the warp, the warp's first row and column
  /// in the tile, the shared memory, and the warp's staging area in shared
  /// memory.
  Value thread, lane, warpRow, warpColumn, shared, warpShared;
};
} // namespace

static Value toIndex(ImplicitLocOpBuilder &b, Value value) {
  return arith::IndexCastUIOp::create(b, b.getIndexType(), value);
}

/// Returns how many adjacent elements of a row a thread handles in the
/// epilogue: 8 if the epilogue has a buffer of less than 32 bits per element
/// along rows, otherwise 4. Accesses to the narrowest buffer are then 16 bytes
/// wide. Fewer elements if they do not divide `columns`.
static int64_t getWidth(func::FuncOp kernel, int64_t columns) {
  int64_t width = 4;
  auto narrow = [&](Type type) {
    auto tensor = cast<RankedTensorType>(type);
    int64_t bits =
        getStorageType(tensor.getElementType()).getIntOrFloatBitWidth();
    if (bits < 32 && !tensor.getShape().empty() &&
        tensor.getShape().back() == columns)
      width = 8;
  };
  // Only the epilogue's operands and results count. The main loop reads the
  // operands of the product.
  for (Operation &op : kernel.getBody().front())
    if (!isa<MatMulOp>(op) && !movesOperand(&op))
      for (Value operand : op.getOperands())
        if (isa<BlockArgument>(operand) || op.hasTrait<OpTrait::IsTerminator>())
          narrow(operand.getType());
  return std::gcd(width, columns);
}

TensorCoreEmitter::TensorCoreEmitter(KernelContext &context,
                                     const KernelBody &body, MatMulOp op,
                                     const TensorCoreTiling &tiling)
    : context(context), body(body), op(op), tiling(tiling),
      fragments(context, body), b(context.b), i32(b),
      targets(body.getOutputNodes()), heroNode(body.getNode(op)) {
  for (auto [number, node] : llvm::enumerate(body.getNodes()))
    if (!node.op)
      arguments.push_back(number);
  hasRowEdge = tiling.m % tiling.blockM != 0;
  hasColumnEdge = tiling.n % tiling.blockN != 0;
  readsWhatItWrites =
      llvm::any_of(context.kernel.getArguments(), [&](BlockArgument argument) {
        return mayBeWrittenOver(argument, context.target);
      });
  staging.width = getWidth(context.kernel, tiling.n);
}

//===----------------------------------------------------------------------===//
// Positions of the block and its threads
//===----------------------------------------------------------------------===//

/// Returns the address of the kernel's dynamic shared memory.
static Value getSharedMemory(KernelContext &context) {
  ImplicitLocOpBuilder &b = context.b;
  Operation *table = SymbolTable::getNearestSymbolTable(context.kernel);
  auto global = SymbolTable::lookupNearestSymbolFrom<LLVM::GlobalOp>(
      table, b.getStringAttr(kSharedSymbol));
  if (!global) {
    auto outer = ImplicitLocOpBuilder::atBlockBegin(
        b.getLoc(), &table->getRegion(0).front());
    auto type = LLVM::LLVMArrayType::get(b.getI8Type(), 0);
    global = LLVM::GlobalOp::create(
        outer, type, /*isConstant=*/false, LLVM::Linkage::External,
        kSharedSymbol, Attribute(), /*alignment=*/128, kSharedMemory);
  }
  Value pointer = LLVM::AddressOfOp::create(b, global);
  Value wide = LLVM::PtrToIntOp::create(b, b.getI64Type(), pointer);
  return arith::TruncIOp::create(b, b.getI32Type(), wide);
}

/// Derives the block's tile from the block number. Numbers run through the rows
/// of tiles of a group first, then through the columns of tiles, then the
/// groups, then the matrices of the batch.
void TensorCoreEmitter::findTile() {
  int64_t rows = tiling.getRowTiles(), columns = tiling.getColumnTiles();
  Value block = i32.from(context.bounds[0]);
  batch = toIndex(b, i32.div(block, rows * columns));
  Value tile = i32.rem(block, rows * columns);
  Value group = i32.div(tile, kGroupRows * columns);
  Value inGroup = i32.rem(tile, kGroupRows * columns);
  Value first = i32.mul(group, kGroupRows);
  Value height = i32.constant(kGroupRows);
  // The last group may have fewer rows of tiles.
  if (rows % kGroupRows != 0) {
    Value left = arith::SubIOp::create(b, i32.constant(rows), first);
    height = arith::MinUIOp::create(b, left, height);
  }
  Value row = i32.add(first, arith::RemUIOp::create(b, inGroup, height));
  Value column = arith::DivUIOp::create(b, inGroup, height);
  blockRow = mulIndex(b, toIndex(b, row), tiling.blockM);
  blockColumn = mulIndex(b, toIndex(b, column), tiling.blockN);
}

/// Returns a pointer to the operand's matrix at the block's index in the batch.
Value TensorCoreEmitter::getMatrix(const MatrixOperand &operand) {
  auto type = LLVM::LLVMPointerType::get(b.getContext(), kGlobalMemory);
  Value pointer = UnrealizedConversionCastOp::create(
                      b, TypeRange(type), context.getBuffer(operand.source))
                      .getResult(0);
  ArrayRef<int64_t> sizes = shapeOf(op).drop_back(2);
  SmallVector<Value> indices;
  if (tiling.batch != 1)
    indices = splitIndex(b, batch, sizes);
  return getElementPointer(b, pointer, matrixOffset(b, indices, operand));
}

//===----------------------------------------------------------------------===//
// Main loop
//===----------------------------------------------------------------------===//

SmallVector<Value> TensorCoreEmitter::multiply() {
  int64_t threads = tiling.getThreads();
  TileCopier lhsCopies(
      b, tiling.lhs,
      {getMatrix(tiling.lhs.matrix), blockRow, tiling.m, tiling.k}, threads,
      thread);
  TileCopier rhsCopies(
      b, tiling.rhs,
      {getMatrix(tiling.rhs.matrix), blockColumn, tiling.n, tiling.k}, threads,
      thread);
  FragmentLoader lhsFragments(b, tiling.lhs, FragmentLoader::Side::Lhs,
                              /*base=*/0, tiling.warpM, warpRow, lane);
  FragmentLoader rhsFragments(b, tiling.rhs, FragmentLoader::Side::Rhs,
                              tiling.lhs.tile.getBytes(),
                              TensorCoreTiling::kWarpN, warpColumn, lane);
  auto element = cast<FloatType>(op.getLhs().getType().getElementType());
  return TensorCoreLoop(b, tiling, element, lhsCopies, rhsCopies, lhsFragments,
                        rhsFragments, shared)
      .emit();
}

//===----------------------------------------------------------------------===//
// From the order of the mma instruction to rows
//===----------------------------------------------------------------------===//

/// Stores the sums to shared memory by rows. Of each mma tile of 16 rows and 8
/// columns, lane 4r + c holds elements (r, 2c) and (r, 2c + 1), and elements (r
/// + 8, 2c) and (r + 8, 2c + 1).
void TensorCoreEmitter::stage(ArrayRef<Value> sums) {
  // Permute the 16-byte units of a row as StagingTile does, so that no two
  // lanes of a store access the same bank.
  Value row = i32.div(lane, 4), pair = i32.rem(lane, 4);
  Value odd = i32.div(pair, 2);
  Value inUnit = i32.mul(i32.rem(pair, 2), 8);
  Value rowBits = i32.mul(i32.rem(row, 4), 2);
  Value rowStart = i32.add(
      i32.add(warpShared, i32.mul(row, StagingTile::kRowBytes)), inUnit);
  auto pairType = VectorType::get(2, b.getF32Type());
  // Store one column of mma tiles at a time.
  for (int64_t column = 0; column < StagingTile::kColumns / 8; ++column) {
    Value even = i32.constant(staging.getPosition(2 * column));
    Value position = arith::SelectOp::create(
        b, i32.isLess(odd, 1), even,
        i32.constant(staging.getPosition(2 * column + 1)));
    Value address =
        i32.add(rowStart, i32.mul(i32.bitXor(position, rowBits), 16));
    for (int64_t tile = 0; tile < tiling.warpM / 16; ++tile)
      for (int64_t half = 0; half < 2; ++half) {
        Value vector = vector::FromElementsOp::create(
            b, pairType,
            ValueRange{
                sums[TensorCoreLoop::getSum(tile, column, 2 * half)],
                sums[TensorCoreLoop::getSum(tile, column, 2 * half + 1)]});
        Value pointer = getSharedPointer(
            b, address, (tile * 16 + half * 8) * StagingTile::kRowBytes);
        LLVM::StoreOp::create(b, vector, pointer, /*alignment=*/8);
      }
  }
}

/// Loads `width` sums from (row, column) of the warp's tile on; both are i32.
Value TensorCoreEmitter::unstage(Value row, Value column) {
  Type f32 = b.getF32Type();
  Value start = i32.add(warpShared, i32.mul(row, StagingTile::kRowBytes));
  Value rowBits = i32.mul(i32.rem(row, 4), 2);
  auto load = [&](Value position, int64_t width) -> Value {
    Value address = i32.add(start, i32.mul(i32.bitXor(position, rowBits), 16));
    if (width < 4)
      address = i32.add(address, i32.mul(i32.rem(column, 4), 4));
    Type type = width == 1 ? f32 : VectorType::get(width, f32);
    return LLVM::LoadOp::create(b, type, getSharedPointer(b, address, 0),
                                /*alignment=*/4 * width);
  };
  if (staging.width < 8)
    return load(i32.div(column, 4), staging.width);
  // Eight elements are the units 2p and 2p + 1 of four elements each.
  // StagingTile::getPosition defines where a row stores its units.
  Value pair = i32.div(column, 8);
  Value low = load(pair, 4);
  Value high = load(i32.add(i32.bitXor(pair, i32.constant(1)), 8), 4);
  SmallVector<int64_t> order = llvm::to_vector(llvm::seq<int64_t>(0, 8));
  return vector::ShuffleOp::create(b, low, high, order);
}

//===----------------------------------------------------------------------===//
// Epilogue
//===----------------------------------------------------------------------===//

static Value clampIndex(ImplicitLocOpBuilder &b, Value index, int64_t last) {
  return arith::MinUIOp::create(b, index, createIndex(b, last));
}

/// Enters a row of the warp's tile and loads the epilogue's arguments there. A
/// row past the end of the result loads the last row instead; its results are
/// not stored.
Scope TensorCoreEmitter::getRowScope(const Scope &outer, Value row) {
  Value inMatrix = addIndex(b, blockRow, toIndex(b, i32.add(warpRow, row)));
  if (hasRowEdge)
    inMatrix = clampIndex(b, inMatrix, tiling.m - 1);
  Value global = tiling.batch == 1
                     ? inMatrix
                     : addIndex(b, mulIndex(b, batch, tiling.m), inMatrix);
  Scope scope = outer;
  fragments.enterGroup(scope, 0, global);
  fragments.evaluate(scope, arguments);
  return scope;
}

/// Emits the epilogue for this thread's elements of a row of the warp's tile.
/// The epilogue starts from the product's elements times alpha.
void TensorCoreEmitter::finishRow(Scope &scope, Value row, Value column) {
  Value sum = unstage(row, column);
  double alpha = op.getAlpha().convertToDouble();
  Lanes lanes(b, b.getF32Type());
  if (alpha != 1)
    sum = lanes.mul(sum, lanes.constant(alpha));
  fragments.setValue(scope, heroNode, sum);
  fragments.evaluate(scope, targets);
}

/// True if (`row`, `column`) of the warp's tile is inside the result; null if
/// tiles divide the result evenly, so that all positions are inside.
Value TensorCoreEmitter::findInside(Value row, Value column) {
  Value inside;
  auto check = [&](Value block, Value warp, Value position, int64_t extent) {
    Value index = addIndex(b, block, toIndex(b, i32.add(warp, position)));
    Value isInside = arith::CmpIOp::create(b, arith::CmpIPredicate::ult, index,
                                           createIndex(b, extent));
    inside = inside ? arith::AndIOp::create(b, inside, isInside) : isInside;
  };
  if (hasRowEdge)
    check(blockRow, warpRow, row, tiling.m);
  if (hasColumnEdge)
    check(blockColumn, warpColumn, column, tiling.n);
  return inside;
}

/// Stores the epilogue's results at `scope` if `inside` is true or null.
void TensorCoreEmitter::storeRow(const Scope &scope, Value inside) {
  auto store = [&] {
    for (const Output &output : body.getOutputs())
      fragments.store(scope, output);
  };
  if (inside)
    emitWhere(b, inside, store);
  else
    store();
}

/// Emits all rows of the warp's tile, at this thread's columns from `column`
/// (i32) on.
void TensorCoreEmitter::emitRows(const Scope &outer, Value column) {
  // A row is shared by as many lanes as it has vectors, so the warp handles
  // several rows at once.
  int64_t rowThreads =
      std::min(kWarpSize, StagingTile::kColumns / staging.width);
  int64_t passRows = kWarpSize / rowThreads;
  Value first = i32.div(lane, rowThreads);
  bool isGuarded = readsWhatItWrites && (hasRowEdge || hasColumnEdge);
  emitLoop(b, tiling.warpM, passRows * kPositions, {},
           [&](Value index, ValueRange) {
             Value start = i32.add(i32.from(index), first);
             SmallVector<Value> rows;
             for (int64_t i = 0; i < kPositions; ++i)
               rows.push_back(i32.add(start, i * passRows));
             // A row past the end would load the last row, while another thread
             // may write its results over that row. So skip rows outside the
             // result.
             for (Value row : rows)
               if (isGuarded)
                 emitWhere(b, findInside(row, column), [&] {
                   Scope scope = getRowScope(outer, row);
                   finishRow(scope, row, column);
                   storeRow(scope, Value());
                 });
             if (isGuarded)
               return Carried();
             // Process several rows together, so that their loads overlap.
             SmallVector<Scope> scopes;
             for (Value row : rows)
               scopes.push_back(getRowScope(outer, row));
             for (auto &&[row, scope] : llvm::zip_equal(rows, scopes))
               finishRow(scope, row, column);
             for (auto &&[row, scope] : llvm::zip_equal(rows, scopes))
               storeRow(scope, findInside(row, column));
             return Carried();
           });
}

void TensorCoreEmitter::emitEpilogue() {
  int64_t rowThreads =
      std::min(kWarpSize, StagingTile::kColumns / staging.width);
  Scope outer = fragments.createScope();
  outer.width = staging.width;
  fragments.evaluate(outer, targets);
  // A warp covers a row of 64 elements in one pass, or in two passes if each
  // thread has a single element.
  Value inRow = i32.mul(i32.rem(lane, rowThreads), staging.width);
  for (int64_t part = 0; part < StagingTile::kColumns;
       part += rowThreads * staging.width) {
    Value column = i32.add(inRow, part);
    Value global =
        addIndex(b, blockColumn, toIndex(b, i32.add(warpColumn, column)));
    if (hasColumnEdge)
      global = clampIndex(b, global, tiling.n - staging.width);
    Scope scope = outer;
    fragments.enterGroup(scope, 1, global);
    fragments.evaluate(scope, targets);
    emitRows(scope, column);
  }
}

void TensorCoreEmitter::emit() {
  thread = i32.from(getThread(b, tiling.getThreads()));
  lane = i32.rem(thread, kWarpSize);
  Value warp = i32.div(thread, kWarpSize);
  warpRow = i32.mul(i32.rem(warp, tiling.getWarpsM()), tiling.warpM);
  warpColumn =
      i32.mul(i32.div(warp, tiling.getWarpsM()), TensorCoreTiling::kWarpN);
  shared = getSharedMemory(context);
  warpShared =
      i32.add(shared, i32.mul(warp, tiling.warpM * StagingTile::kRowBytes));
  findTile();
  SmallVector<Value> sums = multiply();
  // Wait until all warps have read their operands from shared memory, where the
  // sums are stored next.
  emitBarrier(b);
  stage(sums);
  emitWarpBarrier(b);
  emitEpilogue();
}

LogicalResult
codegen::emitTensorCoreContraction(KernelContext &context, Operation *op,
                                   const TensorCoreTiling &tiling) {
  auto matmul = cast<MatMulOp>(op);
  ArrayRef<int64_t> space = matmul.getType().getShape();
  int64_t rowAxes = space.size() - 1;
  FailureOr<KernelBody> body =
      KernelBody::create(context.kernel, space, {rowAxes, 1});
  if (failed(body))
    return failure();
  TensorCoreEmitter(context, *body, matmul, tiling).emit();
  return success();
}
