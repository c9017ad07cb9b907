// Imports ops that read or write elements at indices: Gather, Scatter and
// others.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Importer/Assemble.h"
#include "frontends/ONNX/Importer/FoldElements.h"
#include "frontends/ONNX/Model/ExportedProgram.h"
#include "frontends/ONNX/Ops/NN/Window.h"
#include "frontends/ONNX/Repair/LostPadding.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx_frontend;

//===----------------------------------------------------------------------===//
// Indices
//===----------------------------------------------------------------------===//

// Returns the single index in input 1, counted from the start; nullopt unless
// the index is known.
static std::optional<int64_t> getKnownIndex(NodeImporter &node, int64_t size) {
  std::optional<HostTensor> indices = node.constant(1);
  if (!indices || node.isState(1) || indices->getNumElements() != 1)
    return std::nullopt;
  int64_t index = indices->getInteger(0);
  return index < 0 ? index + size : index;
}

//===----------------------------------------------------------------------===//
// Gather
//===----------------------------------------------------------------------===//

// Gathers at one known index by a slice, which is cheaper than a gather kernel.
static Value gatherKnown(NodeImporter &node, Value data, int64_t axis,
                         int64_t index) {
  ArrayRef<int64_t> shape = NodeImporter::shapeOf(data);
  ArrayRef<int64_t> indices = node.operandShape(1);
  SmallVector<int64_t> offsets(shape.size(), 0), sizes(shape);
  offsets[axis] = index;
  sizes[axis] = 1;
  SmallVector<int64_t> result(shape.take_front(axis));
  llvm::append_range(result, indices);
  llvm::append_range(result, shape.drop_front(axis + 1));
  return node.reshape(slice(node, data, offsets, sizes), result);
}

// Stops the gradient at those of `rows` that were looked up for the index
// `padding`.
static Value stopAtPadding(NodeImporter &node, Value rows, int64_t padding) {
  if (!rows)
    return {};
  Value ids = node.operand(1);
  Type element = NodeImporter::typeOf(ids).getElementType();
  Value isPadding = node.emit<EqualOp>(
      {ids, numberConstant(node, static_cast<double>(padding), element)});
  // A last axis of size 1 broadcasts one flag along each row.
  SmallVector<int64_t> shape(NodeImporter::shapeOf(ids));
  shape.push_back(1);
  if (isPadding)
    isPadding = node.reshape(isPadding, shape);
  Value stopped =
      node.emit<StopGradientOp>({rows}, {}, NodeImporter::typeOf(rows));
  return node.emit<SelectOp>({isPadding, stopped, rows});
}

static LogicalResult importGather(NodeImporter &node) {
  auto axis =
      node.normalizeAxis(node.integer("axis", 0), node.operandShape(0).size());
  if (failed(axis))
    return failure();
  int64_t size = node.operandShape(0)[*axis];
  if (failed(checkIndices(node, /*input=*/1, size)))
    return failure();
  // The padding row of an embedding is not trained.
  std::optional<int64_t> padding = findPaddingRow(readCall(node.getNode()));
  if (!padding)
    padding = findLostPadding(node.getFunction().getGraph(), node.getNode());
  if (padding &&
      (*axis != 0 || *padding >= size || node.operandShape(0).size() != 2))
    padding = std::nullopt;
  if (std::optional<int64_t> index = getKnownIndex(node, size)) {
    Value row = gatherKnown(node, node.operand(0), *axis, *index);
    if (padding == index)
      row = node.emit<StopGradientOp>({row}, {}, NodeImporter::typeOf(row));
    return node.define(0, row);
  }
  Value rows = gather(node, node.operand(0), node.operand(1), *axis);
  if (padding)
    rows = stopAtPadding(node, rows, *padding);
  return node.define(0, rows);
}

// Reads the axis of a node such as GatherElements. The indices have the rank of
// the data, and may be shorter than the data along the other axes.
static FailureOr<int64_t> readLines(NodeImporter &node) {
  ArrayRef<int64_t> data = node.operandShape(0), index = node.operandShape(1);
  auto axis = node.normalizeAxis(node.integer("axis", 0), data.size());
  if (failed(axis))
    return failure();
  if (data.size() != index.size())
    return node.invalid("expected indices of rank " + Twine(data.size()) +
                        ", found " + Twine(index.size()));
  for (auto [d, extents] : llvm::enumerate(llvm::zip_equal(data, index))) {
    auto [whole, part] = extents;
    if (static_cast<int64_t>(d) != *axis && part > whole)
      return node.invalid("axis " + Twine(d) + " of the indices has " +
                          Twine(part) + " elements, expected at most " +
                          Twine(whole) + " as in the data");
  }
  if (failed(checkIndices(node, /*input=*/1, data[*axis])))
    return failure();
  return *axis;
}

// Returns the shape of the part of the data, from the origin, that the indices
// can reach: the whole `axis`, and along other axes the extents of the indices.
static SmallVector<int64_t> getBox(NodeImporter &node, int64_t axis) {
  SmallVector<int64_t> box(node.operandShape(1));
  box[axis] = node.operandShape(0)[axis];
  return box;
}

static LogicalResult importGatherElements(NodeImporter &node) {
  FailureOr<int64_t> axis = readLines(node);
  if (failed(axis))
    return failure();
  SmallVector<int64_t> box = getBox(node, *axis);
  SmallVector<int64_t> origin(box.size(), 0);
  Value data = slice(node, node.operand(0), origin, box);
  return node.define(
      0, node.emit<GatherElementsOp>({data, node.operand(1)},
                                     {node.attribute("axis", *axis)}));
}

//===----------------------------------------------------------------------===//
// Scatter
//===----------------------------------------------------------------------===//

static FailureOr<NamedAttribute> readReduction(NodeImporter &node,
                                               int64_t since) {
  std::string word =
      node.getOpset() < since ? "none" : node.string("reduction", "none");
  std::optional<ScatterReduction> reduction = symbolizeScatterReduction(word);
  if (!reduction)
    return node.invalid("attribute 'reduction' is '" + word +
                        "', expected none, add, mul, max or min");
  return node.attribute(
      "reduction", ScatterReductionAttr::get(node.getContext(), *reduction));
}

static LogicalResult importScatterElements(NodeImporter &node) {
  FailureOr<int64_t> axis = readLines(node);
  if (failed(axis))
    return failure();
  FailureOr<NamedAttribute> reduction = readReduction(node, 16);
  if (failed(reduction))
    return failure();
  SmallVector<int64_t> box = getBox(node, *axis);
  SmallVector<int64_t> origin(box.size(), 0);
  Value data = node.operand(0);
  Value scattered = node.emit<ScatterElementsOp>(
      {slice(node, data, origin, box), node.operand(1), node.operand(2)},
      {node.attribute("axis", *axis), *reduction});
  return node.define(0, replaceBox(node, data, scattered));
}

//===----------------------------------------------------------------------===//
// Tuples of indices
//===----------------------------------------------------------------------===//

namespace {
/// The tuples in the last axis of the indices of GatherND and ScatterND. A
/// tuple has an index for each of several axes of the data, behind the batch
/// axes. mpc merges these axes into one.
struct Tuples {
  int64_t batchDims;
  SmallVector<int64_t> extents; ///< of the axes that a tuple indexes
  SmallVector<int64_t> merged;  ///< the data's shape, these axes merged
  SmallVector<int64_t> shape;   ///< the indices' shape without the last axis
};
} // namespace

// Reads input 1 as tuples that index data of shape `data`.
static FailureOr<Tuples> readTuples(NodeImporter &node, ArrayRef<int64_t> data,
                                    int64_t batchDims) {
  // The indices are (batch..., tuples..., elements of a tuple).
  ArrayRef<int64_t> index = node.operandShape(1);
  int64_t rank = data.size();
  if (index.empty())
    return node.invalid("expected indices of rank 1 or more" + node.found({1}));
  int64_t tuple = index.back();
  int64_t most = std::min<int64_t>(rank, index.size()) - 1;
  if (batchDims < 0 || batchDims > most)
    return node.invalid("attribute 'batch_dims' is " + Twine(batchDims) +
                        ", expected one in [0, " + Twine(most) + "]");
  if (tuple < 1 || batchDims + tuple > rank)
    return node.invalid("the last axis of the indices has " + Twine(tuple) +
                        " elements, expected one to " +
                        Twine(rank - batchDims));
  // Merge the indexed axes: on axes of 4 and 6, the tuple (i, j) is element 6 i
  // + j of the merged axis.
  Tuples tuples;
  tuples.batchDims = batchDims;
  tuples.extents = SmallVector<int64_t>(data.slice(batchDims, tuple));
  tuples.merged = SmallVector<int64_t>(data.take_front(batchDims));
  tuples.merged.push_back(ShapedType::getNumElements(tuples.extents));
  llvm::append_range(tuples.merged, data.drop_front(batchDims + tuple));
  tuples.shape = SmallVector<int64_t>(index.drop_back());
  return tuples;
}

// Turns known tuples into indices of the merged axis.
static Value flattenKnown(NodeImporter &node, const HostTensor &indices,
                          const Tuples &tuples) {
  SmallVector<int64_t> values = indices.getIntegers(), flat;
  for (size_t i = 0; i < values.size();) {
    int64_t number = 0;
    for (int64_t extent : tuples.extents) {
      int64_t index = values[i++];
      if (index < -extent || index >= extent) {
        (void)node.invalid("index " + Twine(index) + " of '" +
                           node.getInputName(1) + "' is outside an axis of " +
                           Twine(extent) + " elements");
        return {};
      }
      number = number * extent + (index < 0 ? index + extent : index);
    }
    flat.push_back(number);
  }
  return integerConstant(node, tuples.shape, flat);
}

// Returns index `number` of every tuple, as i64.
static Value takeIndex(NodeImporter &node, const Tuples &tuples,
                       int64_t number) {
  Value indices = node.operand(1);
  SmallVector<int64_t> sizes(NodeImporter::shapeOf(indices));
  SmallVector<int64_t> offsets(sizes.size(), 0);
  offsets.back() = number;
  sizes.back() = 1;
  Value index =
      node.reshape(slice(node, indices, offsets, sizes), tuples.shape);
  return castTo(node, index, node.attributes().getI64Type());
}

// Ensures that every index of a tuple is in range on the axis that it indexes.
static LogicalResult markTuples(NodeImporter &node, const Tuples &tuples) {
  IndexBox box = createWholeBox(node.operandShape(1), 0);
  for (auto [number, extent] : llvm::enumerate(tuples.extents)) {
    box.begin.back() = number;
    box.end.back() = number + 1;
    box.size = extent;
    if (failed(markIndices(node, 1, box)))
      return failure();
  }
  return success();
}

// Turns computed tuples into indices of the merged axis. If any index of a
// tuple is out of range, so is the result.
static Value flattenComputed(NodeImporter &node, const Tuples &tuples) {
  Value number = integerConstant(node, {}, 0), exist;
  for (auto [i, extent] : llvm::enumerate(tuples.extents)) {
    Value index = takeIndex(node, tuples, i);
    Value size = integerConstant(node, {}, extent);
    Value zero = integerConstant(node, {}, 0);
    Value fromEnd = node.emit<AddOp>({index, size});
    Value place =
        node.emit<SelectOp>({node.emit<LessOp>({index, zero}), fromEnd, index});
    Value exists = node.emit<AndOp>({node.emit<LessOrEqualOp>({zero, place}),
                                     node.emit<LessOp>({place, size})});
    exist = exist ? node.emit<AndOp>({exist, exists}) : exists;
    number = node.emit<AddOp>({node.emit<MulOp>({number, size}), place});
  }
  Value beyond =
      integerConstant(node, {}, ShapedType::getNumElements(tuples.extents));
  return node.emit<SelectOp>({exist, number, beyond});
}

static Value flattenTuples(NodeImporter &node, const Tuples &tuples) {
  std::optional<HostTensor> indices = node.constant(1);
  if (indices && !indices->isFloat() && !node.isState(1))
    return flattenKnown(node, *indices, tuples);
  if (failed(markTuples(node, tuples)))
    return {};
  if (tuples.extents.size() == 1)
    return node.reshape(node.operand(1), tuples.shape);
  return flattenComputed(node, tuples);
}

static LogicalResult importGatherND(NodeImporter &node) {
  int64_t batchDims = node.integer("batch_dims", 0);
  FailureOr<Tuples> tuples = readTuples(node, node.operandShape(0), batchDims);
  if (failed(tuples))
    return failure();
  Value data = node.reshape(node.operand(0), tuples->merged);
  return node.define(0, gather(node, data, flattenTuples(node, *tuples),
                               batchDims, batchDims));
}

static LogicalResult importScatterND(NodeImporter &node) {
  FailureOr<Tuples> tuples = readTuples(node, node.operandShape(0), 0);
  FailureOr<NamedAttribute> reduction = readReduction(node, 16);
  if (failed(tuples) || failed(reduction))
    return failure();
  Value data = node.reshape(node.operand(0), tuples->merged);
  Value scattered = node.emit<ScatterOp>(
      {data, flattenTuples(node, *tuples), node.operand(2)},
      {node.attribute("axis", int64_t(0)), *reduction});
  return scattered
             ? node.define(0, node.reshape(scattered, node.operandShape(0)))
             : failure();
}

//===----------------------------------------------------------------------===//
// Gradients
//===----------------------------------------------------------------------===//

// Returns a tensor of zeros, to which a gradient op adds the gradients of
// elements.
static Value zeros(NodeImporter &node, ArrayRef<int64_t> shape, Type element) {
  auto type = RankedTensorType::get(shape, element);
  Attribute zero = node.attributes().getZeroAttr(element);
  return node.emit<ConstantOp>(
      {}, {node.attribute("value", DenseElementsAttr::get(type, zero))}, type);
}

static NamedAttribute addition(NodeImporter &node) {
  return node.attribute(
      "reduction",
      ScatterReductionAttr::get(node.getContext(), ScatterReduction::Add));
}

// Reads input `input`, the shape of the data that the forward op has indexed.
static FailureOr<SmallVector<int64_t>>
readDataShape(NodeImporter &node, unsigned input, Value gradient) {
  auto shape = node.integers(input, "shape");
  if (failed(shape))
    return failure();
  if (!getCheckedBytes(*shape, elementTypeOf(gradient)))
    return node.invalid("expected input " + Twine(input) +
                        " to be the shape of a tensor, found " +
                        printShape(*shape));
  return shape;
}

// Imports GatherGrad(shape, indices, dY).
static LogicalResult importGatherGrad(NodeImporter &node) {
  Value dy = node.operand(2);
  auto shape = readDataShape(node, 0, dy);
  if (failed(shape))
    return failure();
  auto axis = node.normalizeAxis(node.integer("axis", 0), shape->size());
  if (failed(axis) || failed(checkIndices(node, /*input=*/1, (*shape)[*axis])))
    return failure();
  return node.define(
      0, node.emit<ScatterOp>(
             {zeros(node, *shape, elementTypeOf(dy)), node.operand(1), dy},
             {node.attribute("axis", *axis), addition(node)}));
}

// GatherElementsGrad(dY, shape, indices).
static LogicalResult importGatherElementsGrad(NodeImporter &node) {
  Value dy = node.operand(0);
  auto shape = readDataShape(node, 1, dy);
  if (failed(shape))
    return failure();
  ArrayRef<int64_t> index = node.operandShape(2);
  auto axis = node.normalizeAxis(node.integer("axis", 0), shape->size());
  if (failed(axis))
    return failure();
  if (index.size() != shape->size() || NodeImporter::shapeOf(dy) != index)
    return node.invalid("expected gradient and indices of equal shapes, with "
                        "the rank of the data, " +
                        Twine(shape->size()) + node.found({0, 2}));
  if (failed(checkIndices(node, /*input=*/2, (*shape)[*axis])))
    return failure();
  // Scatter into the part of the data that the indices can reach, and pad this
  // part with zeros to the whole shape.
  SmallVector<int64_t> box(index), origin(index.size(), 0);
  box[*axis] = (*shape)[*axis];
  for (auto [part, whole] : llvm::zip_equal(box, *shape))
    if (part > whole)
      return node.invalid(
          "expected no more indices along an axis than the data of shape " +
          printShape(*shape) + " has elements" + node.found({2}));
  Value sum = node.emit<ScatterElementsOp>(
      {zeros(node, box, elementTypeOf(dy)), node.operand(2), dy},
      {node.attribute("axis", *axis), addition(node)});
  if (box == *shape)
    return node.define(0, sum);
  return node.define(
      0, node.emit<PadOp>({sum},
                          {node.attribute("offsets", ArrayRef<int64_t>(origin)),
                           node.attribute("shape", ArrayRef<int64_t>(*shape)),
                           node.attribute("value", 0.0)}));
}

// Imports GatherNDGrad(shape, indices, dY). In old files, 'batch_dims' has the
// name 'axis'.
static LogicalResult importGatherNDGrad(NodeImporter &node) {
  Value dy = node.operand(2);
  int64_t batchDims = node.integer("batch_dims", node.integer("axis", 0));
  if (node.hasAttribute("axis") && batchDims != node.integer("axis", 0))
    return node.invalid("attributes 'axis' and 'batch_dims' have the same "
                        "meaning, but differ: " +
                        Twine(node.integer("axis", 0)) + " and " +
                        Twine(batchDims));
  auto shape = readDataShape(node, 0, dy);
  if (failed(shape))
    return failure();
  FailureOr<Tuples> tuples = readTuples(node, *shape, batchDims);
  if (failed(tuples))
    return failure();
  Value sum = node.emit<ScatterOp>(
      {zeros(node, tuples->merged, elementTypeOf(dy)),
       flattenTuples(node, *tuples), dy},
      {node.attribute("axis", batchDims),
       node.attribute("batch_dims", batchDims), addition(node)});
  return sum ? node.define(0, node.reshape(sum, *shape)) : failure();
}

ArrayRef<OpEntry> mpc::onnx_frontend::getIndexedOps() {
  static const OpEntry entries[] = {
      {"", "Gather", 1, kNoEnd, 2, 2, 1, importGather},
      {"", "GatherElements", 11, kNoEnd, 2, 2, 1, importGatherElements},
      {"", "GatherND", 11, kNoEnd, 2, 2, 1, importGatherND},
      {"", "Scatter", 9, 10, 3, 3, 1, importScatterElements},
      {"", "ScatterElements", 11, kNoEnd, 3, 3, 1, importScatterElements},
      {"", "ScatterND", 11, kNoEnd, 3, 3, 1, importScatterND},
      {kMicrosoft, "GatherElementsGrad", 1, kNoEnd, 3, 3, 1,
       importGatherElementsGrad},
      {kMicrosoft, "GatherGrad", 1, kNoEnd, 3, 3, 1, importGatherGrad},
      {kMicrosoft, "GatherNDGrad", 1, kNoEnd, 3, 3, 1, importGatherNDGrad},
  };
  return entries;
}
