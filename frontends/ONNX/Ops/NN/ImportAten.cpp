// Imports ATen nodes: calls of PyTorch operators, as ONNX Runtime's module
// exporter writes them. Calls with an ONNX equivalent were replaced when the
// file was repaired (Repair/AtenNodes); the other calls are handled here.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Importer/Assemble.h"
#include "frontends/ONNX/Repair/AtenNodes.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx_frontend;

// Reads the integer or boolean in input `index`, which must be known at import;
// `byDefault` if the input is absent.
static FailureOr<int64_t> readNumber(NodeImporter &node, unsigned index,
                                     StringRef what, int64_t byDefault) {
  if (!node.hasInput(index))
    return byDefault;
  auto values = node.integers(index, what);
  if (failed(values))
    return failure();
  if (values->size() != 1)
    return node.invalid("expected one number as " + what + node.found({index}));
  return values->front();
}

static LogicalResult checkCount(NodeImporter &node, unsigned least,
                                unsigned most) {
  unsigned count = node.getNumInputs();
  if (count < least || count > most)
    return node.invalid("expected " + Twine(least) + " to " + Twine(most) +
                        " inputs, found " + Twine(count));
  for (unsigned i = 0; i < least; ++i)
    if (!node.hasInput(i))
      return node.invalid("input " + Twine(i) + " is absent");
  return success();
}

// Imports embedding_backward(dY, indices, num_weights, padding_idx,
// scale_grad_by_freq, sparse). Adds each row of dY to the row of a zero table
// that the row's index names. Rows with the padding index add nothing.
static LogicalResult importEmbeddingBackward(NodeImporter &node) {
  if (failed(checkCount(node, 3, 6)))
    return failure();
  auto rows = readNumber(node, 2, "num_weights", 0);
  auto padding = readNumber(node, 3, "padding_idx", -1);
  auto isScaled = readNumber(node, 4, "scale_grad_by_freq", 0);
  if (failed(rows) || failed(padding) || failed(isScaled))
    return failure();
  if (*isScaled)
    return node.unsupported(
        "scale_grad_by_freq is not supported; build the embedding without it");
  // dY holds one row for each index.
  Value dy = node.operand(0);
  ArrayRef<int64_t> shape = NodeImporter::shapeOf(dy);
  if (shape.empty() || shape.drop_back() != node.operandShape(1))
    return node.invalid("expected a gradient of the shape of the indices with "
                        "one more axis at the end" +
                        node.found({0, 1}));
  SmallVector<int64_t> table = {*rows, shape.back()};
  if (*rows < 1 || !getCheckedBytes(table, elementTypeOf(dy)))
    return node.invalid("expected num_weights to be the number of rows of a "
                        "table that fits into memory, found " +
                        Twine(*rows) + " rows of " + Twine(shape.back()) +
                        " elements");
  if (failed(checkIndices(node, /*input=*/1, *rows)))
    return failure();
  // Rows read for the padding index get no gradient.
  if (*padding >= 0) {
    Type element = elementTypeOf(node.operand(1));
    Value isPadding = node.emit<EqualOp>(
        {node.operand(1),
         numberConstant(node, static_cast<double>(*padding), element)});
    SmallVector<int64_t> flags(shape.drop_back());
    flags.push_back(1);
    if (isPadding)
      isPadding = node.reshape(isPadding, flags);
    dy = node.emit<SelectOp>(
        {isPadding, numberConstant(node, 0, elementTypeOf(dy)), dy});
  }
  // Add the gradients to the rows of a zero table.
  Value zeros = expand(
      node, numberConstant(node, 0, elementTypeOf(node.operand(0))), table);
  auto reduction =
      ScatterReductionAttr::get(node.getContext(), ScatterReduction::Add);
  return node.define(
      0, node.emit<ScatterOp>({zeros, node.operand(1), dy},
                              {node.attribute("axis", int64_t(0)),
                               node.attribute("reduction", reduction)}));
}

// Imports bitwise_or(a, b) and related operators, on integers or booleans.
template <typename OpT>
static LogicalResult importBitwise(NodeImporter &node) {
  if (failed(checkCount(node, 2, 2)))
    return failure();
  Type type = node.operandType(0).getElementType();
  if (!type.isInteger() || type != node.operandType(1).getElementType())
    return node.invalid(
        "expected two inputs of one integer type, or of booleans" +
        node.found({0, 1}));
  return node.define(0, node.emit<OpT>({node.operand(0), node.operand(1)}));
}

// Imports numpy_T, PyTorch's x.T, which reverses the axes.
static LogicalResult importReversedAxes(NodeImporter &node) {
  if (failed(checkCount(node, 1, 1)))
    return failure();
  auto axes =
      llvm::to_vector(llvm::seq<int64_t>(0, node.operandShape(0).size()));
  std::reverse(axes.begin(), axes.end());
  return node.define(0, transpose(node, node.operand(0), axes));
}

static LogicalResult importAten(NodeImporter &node) {
  // getAtenOperator() reads the operator's name. All overloads of an operator
  // compute alike.
  for (StringRef name : {"operator", "overload_name"})
    node.ignore(name);
  StringRef called = getAtenOperator(node.getNode());
  if (called == "embedding_backward")
    return importEmbeddingBackward(node);
  if (called == "bitwise_and")
    return importBitwise<AndOp>(node);
  if (called == "bitwise_or")
    return importBitwise<OrOp>(node);
  if (called == "bitwise_xor")
    return importBitwise<XorOp>(node);
  if (called == "numpy_T")
    return importReversedAxes(node);
  // mpc supports no other operator that the old exporter could not express in
  // ONNX.
  if (called.empty())
    return node.invalid("attribute 'operator' is missing");
  return node.unsupported("PyTorch's operator '" + called +
                          "' is not supported with these inputs; write the "
                          "model with torch.onnx.export, which has ops of ONNX "
                          "in its place");
}

ArrayRef<OpEntry> mpc::onnx_frontend::getAtenOps() {
  // The most inputs of a node. With kAnyNumber, every input would be mandatory.
  constexpr unsigned most = 64;
  static const OpEntry entries[] = {
      {kAtenDomain, "ATen", 1, kNoEnd, 1, most, most, importAten},
      {kMicrosoft, "ATen", 1, kNoEnd, 1, most, most, importAten},
  };
  return entries;
}
