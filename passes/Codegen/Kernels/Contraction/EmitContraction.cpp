// Emits generated contractions: matrix products and convolutions that no
// library computes, above all in float64, with the elementwise ops after them.
//
// Every element is summed in the order of its depth axes, in f32 or f64, then
// goes through the kernel's epilogue in registers. Large products are
// elsewhere: blocks on a CPU (EmitProductBlocks.cpp), Tensor Cores on a GPU.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Dialect/MPC/MPC.h"
#include "compiler/Kernels/TensorCoreTiling.h"
#include "passes/Codegen/Kernels/Contraction/ContractionEpilogue.h"
#include "passes/Codegen/Kernels/Contraction/ContractionSums.h"
#include "passes/Codegen/Kernels/Loops/Loops.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::codegen;

namespace {
class ContractionLoops {
public:
  ContractionLoops(KernelContext &context, const KernelBody &body,
                   ContractionSums &hero, Operation *heroOp)
      : context(context), body(body), hero(hero),
        epilogue(context, body, heroOp), b(context.b) {}

  void emit(Value begin, Value end);

private:
  void emitBlock(Value row, int64_t count);

  KernelContext &context;
  const KernelBody &body;
  ContractionSums &hero;
  ContractionEpilogue epilogue;
  ImplicitLocOpBuilder &b;
};
} // namespace

void ContractionLoops::emitBlock(Value row, int64_t count) {
  Scope outer = epilogue.start();
  SmallVector<Scope> rows;
  for (int64_t i = 0; i < count; ++i)
    rows.push_back(epilogue.enterRow(outer, addIndex(b, row, i)));
  hero.emitRows(row, count, [&](int64_t i, Value column, Value sum) {
    epilogue.store(rows[i], column, sum);
  });
}

void ContractionLoops::emit(Value begin, Value end) {
  ContractionSums::RowBlocks blocks = hero.getBlocks();
  // Process rows in blocks of the sizes that fit registers, largest first.
  auto emitBlocks = [&](Value lower, Value upper, int64_t size) {
    auto shapes = llvm::map_to_vector(blocks.counts, [](int64_t count) {
      return ChunkShape{count, 1};
    });
    emitDynamicChunks(
        b, lower, upper, size, shapes,
        [&](Chunk chunk) { emitBlock(chunk.index, chunk.width); },
        context.rows);
  };
  // No block may cross the boundary between two groups of rows. One loop
  // suffices if all blocks are single rows, or if there is only one group.
  int64_t rows = 1;
  auto [first, last] = body.getGroup(0);
  for (unsigned d = first; d < last; ++d)
    rows *= body.getDimensions()[d].size;
  if (blocks.counts.size() == 1 || blocks.group == rows)
    return emitBlocks(begin, end, rows);

  // With several groups, start a new block at the first row of each group.
  Value size = createIndex(b, blocks.group);
  Value groups = arith::CeilDivUIOp::create(b, end, size);
  emitLoop(b, arith::DivUIOp::create(b, begin, size), groups, 1, {},
           [&](Value group, ValueRange) {
             Value start = mulIndex(b, group, blocks.group);
             Value stop = addIndex(b, start, blocks.group);
             emitBlocks(arith::MaxUIOp::create(b, begin, start),
                        arith::MinUIOp::create(b, end, stop), blocks.group);
             return Carried();
           });
}

/// Checks that all operands of a product are in memory: kernel arguments,
/// possibly behind ops that move elements.
static LogicalResult verifyOperands(Operation *op) {
  auto matmul = dyn_cast<MatMulOp>(op);
  if (!matmul)
    return success();
  for (Value value : matmul->getOperands()) {
    size_t batchRank = shapeOf(matmul).size() - 2;
    std::optional<MatrixOperand> operand = getMatrixOperand(value, batchRank);
    if (!operand || !isa<BlockArgument>(operand->source))
      return op->emitOpError("expected to multiply inputs of the kernel, found "
                             "a computed operand ")
             << value.getType();
  }
  return success();
}

LogicalResult codegen::emitContraction(KernelContext &context) {
  Operation *op = findContraction(context.kernel.getBody().front());
  if (failed(verifyOperands(op)))
    return failure();
  if (std::optional<TensorCoreTiling> tiling =
          getTensorCoreTiling(op, context.target))
    return emitTensorCoreContraction(context, op, *tiling);
  ArrayRef<int64_t> space =
      cast<RankedTensorType>(op->getResult(0).getType()).getShape();
  int64_t rank = space.size();
  // Divide the result's axes into rows and columns. The rows of a weight
  // gradient are its output channels, axis 0. The rows of any other result are
  // all axes but the last.
  int64_t rowAxes = isa<ConvWeightGradOp>(op) ? 1 : rank - 1;
  FailureOr<KernelBody> body =
      KernelBody::create(context.kernel, space, {rowAxes, rank - rowAxes});
  if (failed(body))
    return failure();
  if (context.partition.scratch > 0) {
    emitProductBlocks(context, *body, *getProductBlocks(op),
                      cast<MatMulOp>(op));
    return success();
  }
  std::unique_ptr<ContractionSums> hero = createContractionSums(context, op);
  if (!hero)
    return op->emitOpError("is a contraction that no code generator supports");
  ContractionLoops(context, *body, *hero, op)
      .emit(context.bounds[0], context.bounds[1]);
  return success();
}
