// SPDX-License-Identifier: Apache-2.0
#include "passes/Planning/Contractions.h"

#include "compiler/Dialect/MPC/MPC.h"

#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mpc;

static ArrayRef<int64_t> shapeOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape();
}

static int64_t product(ArrayRef<int64_t> extents) {
  int64_t result = 1;
  for (int64_t extent : extents)
    result *= extent;
  return result;
}

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

static void emitMatMul(OpBuilder &builder, MatMulOp op, Value a, Value b,
                       const ContractionTarget &target) {
  ArrayRef<int64_t> lhs = shapeOf(op.getLhs()), rhs = shapeOf(op.getRhs());
  ArrayRef<int64_t> result = shapeOf(op.getOutput());
  int64_t m = result[result.size() - 2], n = result.back();
  int64_t k = lhs[lhs.size() - (op.getTransA() ? 2 : 1)];
  int64_t batch = product(result.drop_back(2));
  bool repeatsA = product(lhs.drop_back(2)) == 1;
  bool repeatsB = product(rhs.drop_back(2)) == 1;
  // One matrix for all batches: they are rows of a single product.
  if (repeatsB && !op.getTransA() && !repeatsA) {
    m *= batch;
    batch = 1;
  }
  Tiles tile = chooseTiles(batch, m, n, k);
  plan::MatMulOp::create(
      builder, op.getLoc(), a, b, target.result, target.epilogue, target.inputs,
      target.outputs, /*fused=*/StringAttr(), /*bias=*/Value(),
      /*aux=*/Value(), /*bias_grad=*/Value(), batch, m, n, k, op.getTransA(),
      op.getTransB(),
      /*lda=*/op.getTransA() ? m : k,
      /*ldb=*/op.getTransB() ? k : n, /*ldc=*/n,
      /*stride_a=*/repeatsA ? 0 : m * k, /*stride_b=*/repeatsB ? 0 : k * n,
      /*stride_c=*/m * n, op.getAlpha(), tile.m, tile.n,
      /*compute=*/StringAttr());
}

//===----------------------------------------------------------------------===//
// Convolutions
//===----------------------------------------------------------------------===//

namespace {
/// The operands of a convolution or of one of its gradients, by what they are.
struct ConvParts {
  StringRef kind;
  RankedTensorType x, w, y;
  Value xBuffer, wBuffer, yBuffer;
};
} // namespace

template <typename OpTy>
static LogicalResult emitConv(OpBuilder &builder, OpTy op,
                              const ConvParts &parts,
                              const ContractionTarget &target) {
  if (op.getLayout() != "NHWC")
    return op.emitOpError("expected layout NHWC, found ") << op.getLayout();
  auto spatial = [&](RankedTensorType type) {
    return type.getShape().drop_front().drop_back();
  };
  size_t rank = spatial(parts.x).size();
  ArrayRef<int64_t> pads = op.getPads();
  plan::ConvOp::create(
      builder, op.getLoc(), builder.getStringAttr(parts.kind), parts.xBuffer,
      parts.wBuffer, parts.yBuffer, target.epilogue, target.inputs,
      target.outputs, builder.getI64IntegerAttr(parts.x.getShape().front()),
      builder.getI64IntegerAttr(op.getGroup()),
      builder.getI64IntegerAttr(parts.x.getShape().back()),
      builder.getI64IntegerAttr(parts.y.getShape().back()),
      builder.getDenseI64ArrayAttr(spatial(parts.x)),
      builder.getDenseI64ArrayAttr(spatial(parts.y)),
      builder.getDenseI64ArrayAttr(parts.w.getShape().drop_front(2)),
      op.getStridesAttr(), op.getDilationsAttr(),
      builder.getDenseI64ArrayAttr(pads.take_front(rank)),
      builder.getDenseI64ArrayAttr(pads.drop_front(rank)),
      /*filter_layout=*/StringAttr(), /*compute=*/StringAttr());
  return success();
}

LogicalResult mpc::emitContraction(OpBuilder &builder, Operation *op,
                                   Value first, Value second,
                                   const ContractionTarget &target) {
  return llvm::TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](MatMulOp matmul) {
        emitMatMul(builder, matmul, first, second, target);
        return success();
      })
      .Case([&](ConvOp conv) {
        return emitConv(builder, conv,
                        {"forward", conv.getInput().getType(),
                         conv.getWeight().getType(), conv.getType(), first,
                         second, target.result},
                        target);
      })
      .Case([&](ConvInputGradOp conv) {
        return emitConv(
            builder, conv,
            {"input_grad", conv.getType(), conv.getWeight().getType(),
             conv.getDOutput().getType(), target.result, second, first},
            target);
      })
      .Case([&](ConvWeightGradOp conv) {
        return emitConv(builder, conv,
                        {"weight_grad", conv.getInput().getType(),
                         conv.getType(), conv.getDOutput().getType(), first,
                         target.result, second},
                        target);
      })
      .Default([](Operation *other) {
        return other->emitOpError("expected a matrix product or a convolution");
      });
}
