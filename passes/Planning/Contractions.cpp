// SPDX-License-Identifier: Apache-2.0
#include "passes/Planning/Contractions.h"

#include "compiler/Dialect/MPC/FilterLayout.h"
#include "compiler/Kernels/KernelSpace.h"
#include "passes/Planning/LibraryTails.h"

#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mpc;

//===----------------------------------------------------------------------===//
// Tiles
//===----------------------------------------------------------------------===//

/// A tile's fp32 accumulators stay in a core's L2 beside the panels they come
/// from.
static constexpr int64_t kMaxTileElements = 256 * 1024;
/// A tile below this many multiply-adds is not worth handing out.
static constexpr int64_t kMinTileProducts = 1 << 21;
/// Tiles that keep a few threads busy with little left over at the end.
static constexpr int64_t kEnoughTiles = 16;

namespace {
struct Tiles {
  int64_t m, n;
};
} // namespace

// Half of `extent`, in whole multiples of `unit`.
static int64_t halve(int64_t extent, int64_t unit) {
  return llvm::divideCeilSigned(extent, 2 * unit) * unit;
}

// Halves the longer side until tiles fit the cache and there are enough of
// them, but not below the work that pays for a tile.
static Tiles chooseTiles(int64_t batch, int64_t m, int64_t n, int64_t k) {
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

//===----------------------------------------------------------------------===//
// Matrix products
//===----------------------------------------------------------------------===//

// What a GPU's library computes in, where that is not f32; nothing on a CPU.
StringAttr ContractionEmitter::getCompute(Operation *op, Value operand) const {
  if (auto compute = op->getAttrOfType<StringAttr>(kComputeAttr))
    return compute;
  Type element = cast<MemRefType>(operand.getType()).getElementType();
  if (!target.isGPU())
    return StringAttr();
  if (element.isF64())
    return builder.getStringAttr("f64");
  return element.isF32() && allowTF32 ? builder.getStringAttr("tf32")
                                      : StringAttr();
}

plan::MatMulOp ContractionEmitter::emitMatMul(Operation *op,
                                              const ProductBuffers &buffers,
                                              const ContractionResult &result,
                                              bool transA, bool transB,
                                              APFloat alpha, StringAttr fused) {
  ProductExtents extents = getProductExtents(
      op->getOperand(0), op->getOperand(1), op->getResult(0), transA);
  auto [batch, m, n, k, repeatsA, repeatsB] = extents;
  Tiles tile =
      target.callsEpilogues() ? chooseTiles(batch, m, n, k) : Tiles{0, 0};
  return plan::MatMulOp::create(
      builder, op->getLoc(), buffers.lhs, buffers.rhs, buffers.output,
      result.epilogue, result.inputs, result.outputs, fused, buffers.bias,
      buffers.aux, buffers.biasGrad, batch, m, n, k, transA, transB,
      /*lda=*/transA ? m : k, /*ldb=*/transB ? k : n, /*ldc=*/n,
      /*stride_a=*/repeatsA ? 0 : m * k, /*stride_b=*/repeatsB ? 0 : k * n,
      /*stride_c=*/m * n, alpha, tile.m, tile.n, getCompute(op, buffers.lhs));
}

plan::MatMulOp ContractionEmitter::emit(plan::ProductOp op,
                                        const ProductBuffers &buffers) {
  return emitMatMul(op, buffers, {}, op.getTransA(), op.getTransB(),
                    op.getAlpha(), op.getFusedAttr());
}

//===----------------------------------------------------------------------===//
// Convolutions
//===----------------------------------------------------------------------===//

/// The operands of a convolution or of one of its gradients, by what they are.
struct ContractionEmitter::ConvParts {
  StringRef kind;
  RankedTensorType x, w, y;
  Value xBuffer, wBuffer, yBuffer;
};

template <typename OpTy>
LogicalResult ContractionEmitter::emitConv(OpTy op, const ConvParts &parts,
                                           const ContractionResult &result) {
  if (op.getLayout() != Layout::NHWC)
    return op.emitOpError("expected layout NHWC, found ")
           << stringifyLayout(op.getLayout());
  auto spatial = [&](RankedTensorType type) {
    return type.getShape().drop_front().drop_back();
  };
  size_t rank = spatial(parts.x).size();
  bool isLast = hasInputChannelsLast(op);
  ArrayRef<int64_t> pads = op.getPads();
  Value read = parts.xBuffer ? parts.xBuffer : parts.yBuffer;
  plan::ConvOp::create(
      builder, op.getLoc(), builder.getStringAttr(parts.kind), parts.xBuffer,
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
      isLast ? builder.getStringAttr(stringifyFilterLayout(FilterLayout::OHWI))
             : StringAttr(),
      getCompute(op, read));
  return success();
}

LogicalResult ContractionEmitter::emit(Operation *op, Value first, Value second,
                                       const ContractionResult &result) {
  return llvm::TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](MatMulOp matmul) {
        emitMatMul(op, {first, second, result.buffer, {}, {}, {}}, result,
                   matmul.getTransA(), matmul.getTransB(), matmul.getAlpha(),
                   StringAttr());
        return success();
      })
      .Case([&](ConvOp conv) {
        return emitConv(conv,
                        {"forward", conv.getInput().getType(),
                         conv.getWeight().getType(), conv.getType(), first,
                         second, result.buffer},
                        result);
      })
      .Case([&](ConvInputGradOp conv) {
        return emitConv(
            conv,
            {"input_grad", conv.getType(), conv.getWeight().getType(),
             conv.getDOutput().getType(), result.buffer, second, first},
            result);
      })
      .Case([&](ConvWeightGradOp conv) {
        return emitConv(conv,
                        {"weight_grad", conv.getInput().getType(),
                         conv.getType(), conv.getDOutput().getType(), first,
                         result.buffer, second},
                        result);
      })
      .Default([](Operation *other) {
        return other->emitOpError("expected a matrix product or a convolution");
      });
}
