// Turns convolutions with one filter tap (1 x 1) into matrix products over
// pixels.
//
// In NHWC, a convolution with a 1 x 1 filter multiplies a matrix [pixels, input
// channels] by a matrix [input channels, output channels]. Its gradients are
// matrix products too. Libraries multiply matrices faster than they convolve
// with 1 x 1 filters, above all for gradients.
//
// With strides, the filter visits only some pixels. A slice selects the visited
// pixels; in the gradient of the image, zeros fill the gaps. The product keeps
// the leading axes of the image, so later ops of the region see the shape of
// the convolution's result.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Dialect/AMP/TF32.h"
#include "compiler/Dialect/MPC/MPC.h"
#include "compiler/Dialect/MPC/Target.h"
#include "compiler/Kernels/ContractionTable.h"
#include "passes/Fusion/Decompose.h"
#include "passes/Fusion/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mpc {
#define GEN_PASS_DEF_CONVERTCONVTOMATMULPASS
#include "passes/Fusion/Passes.h.inc"
} // namespace mpc

using namespace mlir;
using namespace mpc;

namespace {
/// Replaces one convolution.
class ConvReplacer {
public:
  explicit ConvReplacer(Operation *conv)
      : conv(conv), builder(conv->getLoc(), conv) {}

  void replace(ConvOp op) {
    // Create the ops in separate statements: C++ does not define the order in
    // which call arguments are evaluated.
    Value met = metPixels(op.getInput(), op.getType());
    Value filter = asMatrix(op.getWeight(), 1);
    finish(multiply(met, filter, op.getType(), TransposedFactor::Rhs));
  }
  void replace(ConvInputGradOp op) {
    ArrayRef<int64_t> shape = op.getType().getShape();
    auto met = shapeOf(op.getDOutput()).drop_back();
    SmallVector<int64_t> pixels(met);
    pixels.push_back(shape.back());
    Value gradient =
        multiply(op.getDOutput(), asMatrix(op.getWeight(), 1),
                 op.getType().clone(pixels), TransposedFactor::None);
    if (isStrided())
      gradient = mark(PadOp::create(builder, op.getType(), gradient,
                                    zeros(shape.size()), shape,
                                    llvm::APFloat(0.0), strides()));
    finish(gradient);
  }
  // The gradient of the filter sums over pixels, so both operands become
  // matrices [pixels, channels].
  void replace(ConvWeightGradOp op) {
    Value outputs = asMatrix(op.getDOutput(), rankOf(op.getDOutput()) - 1);
    Value met = metPixels(op.getInput(), op.getDOutput().getType());
    Value inputs = asMatrix(met, rankOf(met) - 1);
    auto type =
        op.getType().clone({shapeOf(outputs).back(), shapeOf(inputs).back()});
    finish(reshape(multiply(outputs, inputs, type, TransposedFactor::Lhs),
                   op.getType().getShape()));
  }

private:
  static SmallVector<int64_t> zeros(int64_t rank) {
    return SmallVector<int64_t>(rank, 0);
  }
  bool isStrided() const { return !isMatrixProduct(conv); }
  // Returns the strides of the convolution, extended by 1 for batch and
  // channels: NHWC has four strides.
  SmallVector<int64_t> strides() const {
    SmallVector<int64_t> result = {1};
    llvm::append_range(
        result, conv->getAttrOfType<DenseI64ArrayAttr>("strides").asArrayRef());
    result.push_back(1);
    return result;
  }
  // Returns the pixels of `image` that a strided 1 x 1 filter visits, one for
  // each pixel of `output`.
  Value metPixels(Value image, RankedTensorType output) {
    if (!isStrided())
      return image;
    SmallVector<int64_t> shape(output.getShape().drop_back());
    shape.push_back(shapeOf(image).back());
    auto type = cast<RankedTensorType>(image.getType()).clone(shape);
    return mark(SliceOp::create(builder, type, image, zeros(shape.size()),
                                shape, strides()));
  }
  static int64_t rankOf(Value value) { return shapeOf(value).size(); }

  // Views `value` as a matrix: the first `rows` axes become rows, the other
  // axes columns.
  Value asMatrix(Value value, int64_t rows) {
    ArrayRef<int64_t> shape = shapeOf(value);
    return reshape(value, {ShapedType::getNumElements(shape.take_front(rows)),
                           ShapedType::getNumElements(shape.drop_front(rows))});
  }
  Value reshape(Value value, ArrayRef<int64_t> shape) {
    auto type = cast<RankedTensorType>(value.getType()).clone(shape);
    return mark(ReshapeOp::create(builder, type, value));
  }
  Value multiply(Value lhs, Value rhs, Type type, TransposedFactor factor) {
    auto product = MatMulOp::create(
        builder, type, lhs, rhs, /*transA=*/factor == TransposedFactor::Lhs,
        /*transB=*/factor == TransposedFactor::Rhs, llvm::APFloat(1.0));
    amp::copyTF32(conv, product);
    return mark(product);
  }
  Value mark(Operation *op) {
    copyPhase(conv, op);
    return op->getResult(0);
  }
  void finish(Value result) {
    conv->getResult(0).replaceAllUsesWith(result);
    conv->erase();
  }

  Operation *conv;
  ImplicitLocOpBuilder builder;
};

struct ConvertConvToMatmulPass
    : public mpc::impl::ConvertConvToMatmulPassBase<ConvertConvToMatmulPass> {
  void runOnOperation() override {
    // On a GPU, leave strided convolutions to cuDNN, which needs no copy of the
    // visited pixels.
    const bool takesStrides = !getTarget(getOperation()).isGPU();
    SmallVector<Operation *> convolutions;
    getOperation().walk([&](LayoutOpInterface op) {
      if (op.getFilter() &&
          (takesStrides ? hasOneTap(op) : isMatrixProduct(op)) &&
          hasChannelsLast(op))
        convolutions.push_back(op);
    });
    for (Operation *op : convolutions) {
      ConvReplacer replacer(op);
      if (auto conv = dyn_cast<ConvOp>(op))
        replacer.replace(conv);
      else if (auto input = dyn_cast<ConvInputGradOp>(op))
        replacer.replace(input);
      else
        replacer.replace(cast<ConvWeightGradOp>(op));
    }
  }

private:
  static bool hasChannelsLast(Operation *op) {
    auto layout = op->getAttrOfType<LayoutAttr>("layout");
    return layout && layout.getValue() == Layout::NHWC;
  }
};
} // namespace
