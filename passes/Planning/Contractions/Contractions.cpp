// SPDX-License-Identifier: Apache-2.0
#include "passes/Planning/Contractions/Contractions.h"

#include "compiler/Dialect/AMP/TF32.h"
#include "compiler/Dialect/MPC/Shapes/FilterLayout.h"
#include "compiler/Kernels/KernelSpace.h"
#include "passes/Planning/Contractions/LibraryEpilogues.h"
#include "passes/Planning/Contractions/ProductLayout.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mpc;

//===----------------------------------------------------------------------===//
// Tiles
//===----------------------------------------------------------------------===//

/// Largest tile. Its fp32 accumulators fit in a core's L2 cache, together with
/// the panels of the operands.
static constexpr int64_t kMaxTileElements = 256 * 1024;
/// Fewest multiply-adds in a tile that pay for scheduling the tile.
static constexpr int64_t kMinTileProducts = 1 << 21;
/// Number of tiles that keep a few threads busy until the end.
static constexpr int64_t kEnoughTiles = 16;

/// An epilogue that moves at least this many bytes per element of the result
/// takes longer than the product. Example: an optimizer's update, which reads
/// and writes the parameter and its state.
static constexpr int64_t kManyBytes = 16;
/// Most columns of a tile whose epilogue moves many bytes.
static constexpr int64_t kLongRow = 4096;

namespace {
struct Tiles {
  int64_t m, n;
};
} // namespace

// Returns half of `extent`, rounded up to a multiple of `unit`.
static int64_t halve(int64_t extent, int64_t unit) {
  assert(extent > unit && unit > 0 && "halving makes progress");
  return llvm::divideCeilSigned(extent, 2 * unit) * unit;
}

// Halves the longer side of the tile until the tile fits the cache and there
// are enough tiles. Stops at tiles that are only just worth scheduling.
static Tiles chooseTiles(int64_t batch, int64_t m, int64_t n, int64_t k) {
  assert(batch >= 0 && m >= 0 && n >= 0 && k >= 0 && "extents of a product");
  constexpr int64_t kUnit = 32;
  Tiles tile = {m, n};
  auto count = [&] {
    return batch * llvm::divideCeilSigned(m, tile.m) *
           llvm::divideCeilSigned(n, tile.n);
  };
  while (tile.m > kUnit || tile.n > kUnit) {
    int64_t elements = tile.m * tile.n;
    bool wantsMore =
        count() < kEnoughTiles && elements * k >= 2 * kMinTileProducts;
    if (elements <= kMaxTileElements && !wantsMore)
      break;
    int64_t &longer = tile.n >= tile.m ? tile.n : tile.m;
    longer = halve(longer, kUnit);
  }
  return tile;
}

// Chooses tiles for an epilogue that moves many bytes. Memory is read fastest
// in long runs, so tiles keep whole rows if possible.
static Tiles chooseLongTiles(int64_t m, int64_t n, int64_t k) {
  constexpr int64_t kUnit = 32;
  Tiles tile = {m, n};
  while (tile.n > kLongRow)
    tile.n = halve(tile.n, kUnit);
  auto count = [&] {
    return llvm::divideCeilSigned(m, tile.m) *
           llvm::divideCeilSigned(n, tile.n);
  };
  while (tile.m > kFewRows && (tile.m * tile.n > kMaxTileElements ||
                               (count() < kEnoughTiles &&
                                tile.m * tile.n * k >= 2 * kMinTileProducts)))
    tile.m = halve(tile.m, kUnit);
  return tile;
}

// Returns the bytes that the epilogue reads and writes per element of a result
// with `elements` elements.
static int64_t bytesAnElement(const ContractionResult &result,
                              int64_t elements) {
  int64_t bytes = 0;
  for (ValueRange buffers :
       {ValueRange(result.inputs), ValueRange(result.outputs)})
    for (Value buffer : buffers) {
      auto type = cast<MemRefType>(buffer.getType());
      if (type.getNumElements() == elements)
        bytes += llvm::divideCeil(type.getElementTypeBitWidth(), 8);
    }
  return bytes;
}

//===----------------------------------------------------------------------===//
// Matrix products
//===----------------------------------------------------------------------===//

// Returns the type in which a GPU's library computes, if not f32: f64 or tf32.
// Null on a CPU.
plan::ComputeAttr ContractionEmitter::getCompute(Operation *op,
                                                 Value operand) const {
  if (auto compute = op->getAttrOfType<plan::ComputeAttr>(plan::kComputeAttr))
    return compute;
  Type element = cast<MemRefType>(operand.getType()).getElementType();
  if (!target.isGPU())
    return {};
  if (element.isF64())
    return plan::ComputeAttr::get(op->getContext(), Compute::F64);
  return element.isF32() && amp::roundsToTF32(op)
             ? plan::ComputeAttr::get(op->getContext(), Compute::TF32)
             : plan::ComputeAttr();
}

plan::MatMulOp ContractionEmitter::emitMatMul(Operation *op,
                                              const ProductBuffers &buffers,
                                              const ContractionResult &result,
                                              bool transA, bool transB,
                                              APFloat alpha,
                                              plan::FusedKindAttr fused) {
  assert(buffers.lhs && buffers.rhs && "a product reads two buffers");
  ProductLayout layout = layOutProduct(op, transA, target);
  const int64_t m = layout.m, n = layout.n, k = layout.k;
  // The library computes all matrices along the last batch axis in one call.
  // The step makes such a call for each index of the outer axes.
  const BatchAxis last = layout.axes.back();
  runtime::BatchAxes axes{last.extent, last.a, last.b, last.c, {}};
  for (const BatchAxis &axis : ArrayRef(layout.axes).drop_back()) {
    axes.outer.extents.push_back(axis.extent);
    axes.outer.a.push_back(axis.a);
    axes.outer.b.push_back(axis.b);
    axes.outer.c.push_back(axis.c);
  }
  // Only a CPU's library delivers results in tiles, for epilogues. The size of
  // the tiles depends on the number of products: many products need smaller
  // tiles. A single product whose epilogue moves many bytes gets tiles with
  // long rows.
  const int64_t count = layout.countMatrices();
  Tiles tile = {0, 0};
  if (target.callsEpilogues())
    tile = count == 1 && bytesAnElement(result, m * n) >= kManyBytes
               ? chooseLongTiles(m, n, k)
               : chooseTiles(count, m, n, k);
  const runtime::ProductShape shape{
      m,          n,          k,          transA,         transB,
      layout.lda, layout.ldb, layout.ldc, layout.offsetA, layout.offsetB,
      tile.m,     tile.n};
  MLIRContext *context = op->getContext();
  return plan::MatMulOp::create(builder, op->getLoc(), buffers.lhs, buffers.rhs,
                                buffers.output, result.epilogue, result.inputs,
                                result.outputs, fused, buffers.bias,
                                buffers.aux, buffers.biasGrad,
                                plan::ProductShapeAttr::get(context, shape),
                                plan::BatchAxesAttr::get(context, axes), alpha,
                                getCompute(op, buffers.lhs));
}

plan::MatMulOp ContractionEmitter::emit(plan::ProductOp op,
                                        const ProductBuffers &buffers,
                                        const ContractionResult &result) {
  return emitMatMul(op, buffers, result, op.getTransA(), op.getTransB(),
                    op.getAlpha(), op.getFusedAttr());
}

//===----------------------------------------------------------------------===//
// Convolutions
//===----------------------------------------------------------------------===//

/// The tensors of a convolution: image `x`, filters `w` and result `y`. `kind`
/// tells which tensor the step computes from the other two.
struct ContractionEmitter::ConvParts {
  ConvKind kind;
  RankedTensorType x, w, y;
  Value xBuffer, wBuffer, yBuffer;
};

template <typename OpTy>
LogicalResult ContractionEmitter::emitConv(OpTy op, const ConvParts &parts,
                                           const ContractionResult &result) {
  if (op.getLayout() != Layout::NHWC)
    return op.emitOpError("expected layout NHWC, found ")
           << stringifyLayout(op.getLayout());
  // The shape of activations is (batch, spatial..., channels).
  auto spatial = [&](RankedTensorType type) {
    return type.getShape().drop_front().drop_back();
  };
  size_t rank = spatial(parts.x).size();
  assert(op.getPads().size() == 2 * rank && op.getStrides().size() == rank &&
         op.getDilations().size() == rank && "spatial attributes per axis");
  bool isLast = hasInputChannelsLast(op);
  ArrayRef<int64_t> pads = op.getPads();
  // The type of an operand determines the compute type. The gradient of the
  // input does not read x, so take y.
  Value read = parts.xBuffer ? parts.xBuffer : parts.yBuffer;
  plan::ConvOp::create(
      builder, op.getLoc(),
      plan::ConvKindAttr::get(op.getContext(), parts.kind), parts.xBuffer,
      parts.wBuffer, parts.yBuffer, result.epilogue, result.inputs,
      result.outputs, builder.getI64IntegerAttr(parts.x.getShape().front()),
      builder.getI64IntegerAttr(op.getGroup()),
      builder.getI64IntegerAttr(parts.x.getShape().back()),
      builder.getI64IntegerAttr(parts.y.getShape().back()),
      builder.getDenseI64ArrayAttr(spatial(parts.x)),
      builder.getDenseI64ArrayAttr(spatial(parts.y)),
      builder.getDenseI64ArrayAttr(isLast ? spatial(parts.w)
                                          : parts.w.getShape().drop_front(2)),
      op.getStridesAttr(), op.getDilationsAttr(),
      builder.getDenseI64ArrayAttr(pads.take_front(rank)),
      builder.getDenseI64ArrayAttr(pads.drop_front(rank)),
      isLast ? FilterLayoutAttr::get(op.getContext(), FilterLayout::OHWI)
             : FilterLayoutAttr(),
      getCompute(op, read));
  return success();
}

LogicalResult ContractionEmitter::emitStep(MatMulOp op, Value first,
                                           Value second,
                                           const ContractionResult &result) {
  emitMatMul(op, {first, second, result.buffer, {}, {}, {}}, result,
             op.getTransA(), op.getTransB(), op.getAlpha(),
             plan::FusedKindAttr());
  return success();
}

LogicalResult ContractionEmitter::emitStep(ConvOp op, Value first, Value second,
                                           const ContractionResult &result) {
  return emitConv(op,
                  {ConvKind::Forward, op.getInput().getType(),
                   op.getWeight().getType(), op.getType(), first, second,
                   result.buffer},
                  result);
}

LogicalResult ContractionEmitter::emitStep(ConvInputGradOp op, Value first,
                                           Value second,
                                           const ContractionResult &result) {
  return emitConv(op,
                  {ConvKind::InputGrad, op.getType(), op.getWeight().getType(),
                   op.getDOutput().getType(), result.buffer, second, first},
                  result);
}

LogicalResult ContractionEmitter::emitStep(ConvWeightGradOp op, Value first,
                                           Value second,
                                           const ContractionResult &result) {
  return emitConv(op,
                  {ConvKind::WeightGrad, op.getInput().getType(), op.getType(),
                   op.getDOutput().getType(), first, result.buffer, second},
                  result);
}

template <typename OpTy>
ContractionEmitter::StepEntry ContractionEmitter::entryOf() {
  return {OpTy::getOperationName(),
          [](ContractionEmitter &emitter, Operation *op, Value first,
             Value second, const ContractionResult &result) {
            return emitter.emitStep(cast<OpTy>(op), first, second, result);
          }};
}

LogicalResult ContractionEmitter::emit(Operation *op, Value first, Value second,
                                       const ContractionResult &result) {
  // One entry for each contraction that a library can compute.
  static const llvm::StringMap<EmitStep> steps = {
      entryOf<MatMulOp>(),
      entryOf<ConvOp>(),
      entryOf<ConvInputGradOp>(),
      entryOf<ConvWeightGradOp>(),
  };
  EmitStep emitStep = steps.lookup(op->getName().getStringRef());
  if (!emitStep)
    return op->emitOpError("expected a matrix product or a convolution");
  return emitStep(*this, op, first, second, result);
}
