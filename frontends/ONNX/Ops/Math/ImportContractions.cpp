// Imports matrix products and convolutions: MatMul, Gemm, FusedMatMul, Conv.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Importer/Assemble.h"
#include "frontends/ONNX/Ops/NN/Window.h"

#include <cmath>

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx_frontend;

//===----------------------------------------------------------------------===//
// Matrices
//===----------------------------------------------------------------------===//

// Imports MatMul. A vector operand becomes a matrix: a row (left) or a column
// (right). The added axis is dropped from the result.
static LogicalResult importMatMul(NodeImporter &node) {
  Value lhs = node.operand(0), rhs = node.operand(1);
  SmallVector<int64_t> a(NodeImporter::shapeOf(lhs));
  SmallVector<int64_t> b(NodeImporter::shapeOf(rhs));
  if (a.empty() || b.empty())
    return node.invalid("expected operands of rank 1 or more" +
                        node.found({0, 1}));
  bool isRow = a.size() == 1, isColumn = b.size() == 1;
  if (isRow)
    a.insert(a.begin(), 1);
  if (isColumn)
    b.push_back(1);
  auto op = node.create<MatMulOp>({node.reshape(lhs, a), node.reshape(rhs, b)});
  if (!op)
    return failure();
  // Drop the axes that the vectors gained.
  SmallVector<int64_t> shape(NodeImporter::shapeOf(op.getOutput()));
  if (isColumn)
    shape.pop_back();
  if (isRow)
    shape.erase(isColumn ? shape.end() - 1 : shape.end() - 2);
  return node.define(0, node.reshape(op.getOutput(), shape));
}

// Reads attribute `name`, a number such as alpha that multiplies a product; 1
// if absent.
static FailureOr<double> readFactor(NodeImporter &node, StringRef name) {
  double factor = node.real(name, 1.0);
  if (!std::isfinite(factor))
    return node.invalid("expected attribute '" + name +
                        "' to be a finite number, found " +
                        std::to_string(factor));
  return factor;
}

// Adds beta * C, which broadcasts to the product.
static Value addTerm(NodeImporter &node, Value product, double beta) {
  if (!product || !node.hasInput(2) || beta == 0.0)
    return product;
  ArrayRef<int64_t> shape = NodeImporter::shapeOf(product);
  auto spread = broadcastShapes(shape, node.operandShape(2));
  if (failed(spread) || ArrayRef<int64_t>(*spread) != shape) {
    (void)node.invalid("input 2 does not broadcast to the product of shape " +
                       printShape(shape) + node.found({2}));
    return {};
  }
  Value term = node.operand(2);
  if (beta != 1.0)
    term = node.emit<MulOp>(
        {term, node.scalarConstant(beta, elementTypeOf(product))});
  return node.emit<AddOp>({product, term});
}

// Imports a Gemm of stacked matrices. ONNX allows only matrices, but tools that
// fuse MatMul and Add write such nodes.
static LogicalResult importStackedGemm(NodeImporter &node, double alpha,
                                       double beta) {
  ModuleImporter &module = node.getFunction().getModule();
  if (module.isFirst("stacks of matrices in Gemm"))
    module.warn(node.describe() +
                ": expected matrices, found operands of ranks " +
                Twine(node.operandShape(0).size()) + " and " +
                Twine(node.operandShape(1).size()) +
                "; taken as MatMul of the last two axes, and Add");
  Value product = node.emit<MatMulOp>(
      {node.operand(0), node.operand(1)},
      {node.attribute("alpha", alpha),
       node.attribute("transA", node.integer("transA", 0) != 0),
       node.attribute("transB", node.integer("transB", 0) != 0)});
  return node.define(0, addTerm(node, product, beta));
}

static LogicalResult importGemm(NodeImporter &node) {
  auto alpha = readFactor(node, "alpha"), beta = readFactor(node, "beta");
  if (failed(alpha) || failed(beta))
    return failure();
  if (node.getOpset() < 7)
    node.ignore("broadcast"); // redundant: the shape of C says so
  if (size_t a = node.operandShape(0).size(), b = node.operandShape(1).size();
      std::min(a, b) >= 2 && std::max(a, b) > 2) {
    // If the file declares the ranks, Repair/StackedGemms has replaced such a
    // Gemm. Any other would be in the written model, and ONNX Runtime refuses a
    // Gemm of stacked matrices.
    if (node.getMode() == ImportMode::Training)
      return node.unsupported(
          "expected matrices, found operands of ranks " + Twine(a) + " and " +
          Twine(b) +
          ", which no declaration in the file tells; declare the shapes, as "
          "onnx.shape_inference.infer_shapes does, or write MatMul and Add");
    return importStackedGemm(node, *alpha, *beta);
  }
  auto op = node.create<GemmOp>(
      {node.operand(0), node.operand(1), node.operand(2)},
      {node.attribute("alpha", *alpha), node.attribute("beta", *beta),
       node.attribute("transA", node.integer("transA", 0) != 0),
       node.attribute("transB", node.integer("transB", 0) != 0)});
  return op ? node.define(0, op.getOutput()) : failure();
}

// Imports com.microsoft's FusedMatMul: a MatMul with a factor, whose operands
// may be transposed.
static LogicalResult importFusedMatMul(NodeImporter &node) {
  if (node.integer("transBatchA", 0) || node.integer("transBatchB", 0))
    return node.unsupported(
        "attributes 'transBatchA' and 'transBatchB' are not supported: "
        "expected 0; transpose the operands before the node");
  auto alpha = readFactor(node, "alpha");
  if (failed(alpha))
    return failure();
  auto op = node.create<MatMulOp>(
      {node.operand(0), node.operand(1)},
      {node.attribute("alpha", *alpha),
       node.attribute("transA", node.integer("transA", 0) != 0),
       node.attribute("transB", node.integer("transB", 0) != 0)});
  return op ? node.define(0, op.getOutput()) : failure();
}

//===----------------------------------------------------------------------===//
// Windows
//===----------------------------------------------------------------------===//

Value mpc::onnx_frontend::emitConvolution(NodeImporter &node) {
  Value input = node.operand(0), weight = node.operand(1);
  ArrayRef<int64_t> weightShape = NodeImporter::shapeOf(weight);
  if (weightShape.size() < 3) {
    (void)node.invalid("expected a weight of shape (M, C/group, k...), found "
                       "rank " +
                       Twine(weightShape.size()));
    return {};
  }
  auto window =
      readWindow(node, NodeImporter::shapeOf(input), weightShape.drop_front(2));
  if (failed(window))
    return {};
  auto op = node.create<ConvOp>(
      {input, weight, node.operand(2)},
      window->convAttributes(node, node.integer("group", 1)));
  return op ? op.getOutput() : Value();
}

static LogicalResult importConv(NodeImporter &node) {
  return node.define(0, emitConvolution(node));
}

ArrayRef<OpEntry> mpc::onnx_frontend::getContractionOps() {
  static const OpEntry entries[] = {
      {"", "Conv", 1, kNoEnd, 2, 3, 1, importConv},
      {"", "Gemm", 6, kNoEnd, 2, 3, 1, importGemm},
      {"", "MatMul", 1, kNoEnd, 2, 2, 1, importMatMul},
      {kMicrosoft, "FusedMatMul", 1, kNoEnd, 2, 2, 1, importFusedMatMul},
      {kMicrosoft, "TransposeMatMul", 1, kNoEnd, 2, 2, 1, importFusedMatMul},
  };
  return entries;
}
