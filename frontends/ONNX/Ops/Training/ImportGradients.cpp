// Imports gradient ops of com.microsoft, as ONNX Runtime's gradient builder
// writes them.
//
// The node of a dropout's gradient leaves out the random numbers. The importer
// reads them from the forward op, which has computed an input of the gradient
// op.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Importer/Assemble.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx_frontend;

//===----------------------------------------------------------------------===//
// Elementwise
//===----------------------------------------------------------------------===//

template <typename OpT>
static LogicalResult importElementwiseGrad(NodeImporter &node) {
  auto op = node.create<OpT>({node.operand(0), node.operand(1)});
  return op ? node.define(0, op.getDInput()) : failure();
}

// Defines output 0 as dY times the slope of formula `of` at `x`. `a` is the
// parameter of the formula.
static LogicalResult defineFormulaGrad(NodeImporter &node, Value x,
                                       StringRef of, double a = 0.0) {
  return node.define(0, node.emit<FormulaGradOp>({node.operand(0), x},
                                                 {node.attribute("of", of),
                                                  node.attribute("a", a)}));
}

static LogicalResult importGeluGrad(NodeImporter &node) {
  node.ignore("approximate"); // implied by the op's name
  return defineFormulaGrad(node, node.operand(1), "gelu");
}

static LogicalResult importFastGeluGrad(NodeImporter &node) {
  return defineFormulaGrad(node, node.operand(1), "gelu_tanh");
}

static LogicalResult importQuickGeluGrad(NodeImporter &node) {
  return defineFormulaGrad(node, node.operand(1), "swish",
                           node.real("alpha", 1.702f));
}

// Imports BiasGeluGrad_dX and BiasFastGeluGrad_dX: the gradient of the sum of
// inputs 1 (x) and 2 (bias). A separate node computes the gradient of the bias.
static LogicalResult importBiasGeluGrad(NodeImporter &node) {
  bool isExact = node.getOpType() == "BiasGeluGrad_dX";
  Value x = node.emit<AddOp>({node.operand(1), node.operand(2)});
  return x ? defineFormulaGrad(node, x, isExact ? "gelu" : "gelu_tanh")
           : failure();
}

// Imports LeakyReluGrad. Input 1 is the output of the forward op. Output and
// input of the forward op have equal signs only if alpha > 0.
static LogicalResult importLeakyReluGrad(NodeImporter &node) {
  double alpha = node.real("alpha", 0.01f);
  if (!(alpha > 0))
    return node.unsupported("expected attribute 'alpha' above 0, found " +
                            std::to_string(alpha));
  return defineFormulaGrad(node, node.operand(1), "leaky_relu", alpha);
}

// Sums `value` to the shape of input `index`, which the forward op has
// broadcast.
static Value sumTo(NodeImporter &node, Value value, unsigned index) {
  auto type = node.operandType(index);
  if (!value || NodeImporter::shapeOf(value) == type.getShape())
    return value;
  auto op = node.create<SumToSizeOp>({value}, {}, type);
  return op ? op.getOutput() : Value();
}

// Imports DivGrad, of A / B: dA = dY / B and dB = -dY * A / (B * B).
static LogicalResult importDivGrad(NodeImporter &node) {
  Value dy = node.operand(0), a = node.operand(1), b = node.operand(2);
  // Compute dA first, because dB uses it.
  node.setSuffix("#da");
  auto da = node.create<DivOp>({dy, b});
  if (!da)
    return failure();
  if (node.hasOutput(0) &&
      failed(node.define(0, sumTo(node, da.getOutput(), 1))))
    return failure();
  if (!node.hasOutput(1))
    return success();
  // dB = -dA * A / B, which reuses dA.
  node.setSuffix("#db");
  auto product = node.create<MulOp>({da.getOutput(), a});
  auto quotient =
      product ? node.create<DivOp>({product.getOutput(), b}) : DivOp();
  auto negated =
      quotient ? node.create<NegOp>({quotient.getOutput()}) : NegOp();
  return negated ? node.define(1, sumTo(node, negated.getOutput(), 2))
                 : failure();
}

// Returns the gradient of a dropout whose mask is input 1. The mask is not
// stored: a dropout with the same id drops the same elements of the gradient.
static Value dropGradient(NodeImporter &node) {
  FunctionImporter &function = node.getFunction();
  Value dy = node.operand(0);
  auto id = function.findRandomId(node.getInputName(1));
  if (!id && node.constant(1)) // the forward op was an identity
    return dy;
  auto forward = node.operand(1).getDefiningOp<DropoutOp>();
  if (!id || !forward) {
    (void)node.unsupported(
        "expected the mask of a Dropout as input 1, found '" +
        node.getInputName(1) + "'");
    return {};
  }
  return node.emit<DropoutOp>(
      {dy, forward.getSeed(), forward.getMicroStep()},
      {node.attribute("ratio", forward.getRatio().convertToDouble()),
       node.attribute("id", *id)});
}

static LogicalResult importDropoutGrad(NodeImporter &node) {
  return node.define(0, dropGradient(node));
}

// Imports Scale: input * scale, or input / scale. The scale is often an
// integer, such as a number of elements.
static LogicalResult importScale(NodeImporter &node) {
  bool down = node.integer("scale_down", 0) != 0;
  Value input = node.operand(0), scale;
  // Convert a known scale to the input's type.
  auto known = node.constant(1);
  if (known && known->getNumElements() == 1)
    scale = node.scalarConstant(known->getDouble(0),
                                node.operandType(0).getElementType());
  else
    scale = node.operand(1);
  if (node.hasFailed())
    return failure();
  Value result;
  if (down) {
    if (auto op = node.create<DivOp>({input, scale}))
      result = op.getOutput();
  } else if (auto op = node.create<MulOp>({input, scale})) {
    result = op.getOutput();
  }
  return node.define(0, result);
}

//===----------------------------------------------------------------------===//
// Softmax
//===----------------------------------------------------------------------===//

template <typename OpT>
static LogicalResult importSoftmaxGrad(NodeImporter &node) {
  auto axis =
      node.normalizeAxis(node.integer("axis", -1), node.operandShape(0).size());
  if (failed(axis))
    return failure();
  auto op = node.create<OpT>({node.operand(0), node.operand(1)},
                             {node.attribute("axis", *axis)});
  return op ? node.define(0, op.getDInput()) : failure();
}

// Imports a softmax's gradient before opset 13: all axes from `axis` on count
// as one. [4, 3, 5] from axis 1 on has the rows of [4, 15].
template <typename OpT>
static LogicalResult defineFlattenedSoftmaxGrad(NodeImporter &node, Value dy,
                                                unsigned yIndex) {
  SmallVector<int64_t> shape(node.operandShape(0));
  auto axis = node.normalizeAxis(node.integer("axis", 1), shape.size());
  if (failed(axis) || !dy)
    return failure();
  if (node.operandShape(yIndex) != ArrayRef<int64_t>(shape))
    return node.invalid("expected inputs of equal shapes" +
                        node.found({0, yIndex}));
  int64_t rows = 1, columns = 1;
  for (auto [i, extent] : llvm::enumerate(shape))
    (static_cast<int64_t>(i) < *axis ? rows : columns) *= extent;
  auto op =
      node.create<OpT>({node.reshape(dy, {rows, columns}),
                        node.reshape(node.operand(yIndex), {rows, columns})},
                       {node.attribute("axis", int64_t(1))});
  return op ? node.define(0, node.reshape(op.getDInput(), shape)) : failure();
}

template <typename OpT>
static LogicalResult importFlattenedSoftmaxGrad(NodeImporter &node) {
  return defineFlattenedSoftmaxGrad<OpT>(node, node.operand(0), 1);
}

// Imports SoftmaxDropoutGrad(dY, mask, Y, ratio): the gradient of a dropout of
// a softmax Y.
static LogicalResult importSoftmaxDropoutGrad(NodeImporter &node) {
  return defineFlattenedSoftmaxGrad<SoftmaxGradOp>(node, dropGradient(node), 2);
}

//===----------------------------------------------------------------------===//
// Normalization and shapes
//===----------------------------------------------------------------------===//

static LogicalResult importBatchNormGrad(NodeImporter &node) {
  node.ignore("epsilon"); // part of the saved inverse deviation
  node.ignore("momentum");
  node.ignore("training_mode");
  auto op = node.create<BatchNormGradOp>(node.operands());
  if (!op)
    return failure();
  (void)node.define(0, op.getDInput());
  (void)node.define(1, op.getDScale());
  return node.define(2, op.getDBias());
}

// Imports BroadcastGradientArgs: for each of two broadcast operands, the axes
// over which to sum its gradient. For example, [4, 3] and [3] give [] and [0].
static LogicalResult importBroadcastGradientArgs(NodeImporter &node) {
  auto a = node.integers(0, "a_shape"), b = node.integers(1, "b_shape");
  if (failed(a) || failed(b))
    return failure();
  // Pad the shorter shape with leading ones.
  int64_t rank = std::max(a->size(), b->size());
  int64_t missingA = rank - a->size(), missingB = rank - b->size();
  a->insert(a->begin(), missingA, 1);
  b->insert(b->begin(), missingB, 1);
  // Sum an operand's gradient over axes that the operand lacks, or along which
  // it was repeated.
  SmallVector<int64_t> axes[2];
  for (int64_t axis = 0; axis < rank; ++axis) {
    bool differ = (*a)[axis] != (*b)[axis];
    if (axis < missingA || (differ && (*a)[axis] == 1))
      axes[0].push_back(axis);
    if (axis < missingB || (differ && (*b)[axis] == 1))
      axes[1].push_back(axis);
  }
  for (unsigned i : {0, 1})
    (void)node.define(i, HostTensor::fromIntegers(
                             node.getContext(),
                             {static_cast<int64_t>(axes[i].size())}, axes[i]));
  return success();
}

ArrayRef<OpEntry> mpc::onnx_frontend::getGradientOps() {
  static const OpEntry entries[] = {
      {kMicrosoft, "BatchNormalizationGrad", 1, kNoEnd, 5, 5, 3,
       importBatchNormGrad},
      {kMicrosoft, "BroadcastGradientArgs", 1, kNoEnd, 2, 2, 2,
       importBroadcastGradientArgs},
      {kMicrosoft, "BiasFastGeluGrad_dX", 1, kNoEnd, 3, 3, 1,
       importBiasGeluGrad},
      {kMicrosoft, "BiasGeluGrad_dX", 1, kNoEnd, 3, 3, 1, importBiasGeluGrad},
      {kMicrosoft, "BitmaskDropoutGrad", 1, kNoEnd, 2, 4, 1, importDropoutGrad},
      {kMicrosoft, "FastGeluGrad", 1, kNoEnd, 2, 2, 1, importFastGeluGrad},
      {kMicrosoft, "GeluGrad", 1, kNoEnd, 2, 2, 1, importGeluGrad},
      {kMicrosoft, "LeakyReluGrad", 1, kNoEnd, 2, 2, 1, importLeakyReluGrad},
      {kMicrosoft, "QuickGeluGrad", 1, kNoEnd, 2, 2, 1, importQuickGeluGrad},
      {kMicrosoft, "DivGrad", 1, kNoEnd, 3, 3, 2, importDivGrad},
      {kMicrosoft, "DropoutGrad", 1, kNoEnd, 2, 4, 1, importDropoutGrad},
      {kMicrosoft, "LogSoftmaxGrad", 1, kNoEnd, 2, 2, 1,
       importFlattenedSoftmaxGrad<LogSoftmaxGradOp>},
      {kMicrosoft, "LogSoftmaxGrad_13", 1, kNoEnd, 2, 2, 1,
       importSoftmaxGrad<LogSoftmaxGradOp>},
      {kMicrosoft, "ReluGrad", 1, kNoEnd, 2, 2, 1,
       importElementwiseGrad<ReluGradOp>},
      {kMicrosoft, "Scale", 1, kNoEnd, 2, 2, 1, importScale},
      {kMicrosoft, "SigmoidGrad", 1, kNoEnd, 2, 2, 1,
       importElementwiseGrad<SigmoidGradOp>},
      {kMicrosoft, "SoftmaxGrad", 1, kNoEnd, 2, 2, 1,
       importFlattenedSoftmaxGrad<SoftmaxGradOp>},
      {kMicrosoft, "SoftmaxGrad_13", 1, kNoEnd, 2, 2, 1,
       importSoftmaxGrad<SoftmaxGradOp>},
      {kMicrosoft, "SoftmaxDropoutGrad", 1, kNoEnd, 3, 4, 1,
       importSoftmaxDropoutGrad},
      {kMicrosoft, "TanhGrad", 1, kNoEnd, 2, 2, 1,
       importElementwiseGrad<TanhGradOp>},
  };
  return entries;
}
