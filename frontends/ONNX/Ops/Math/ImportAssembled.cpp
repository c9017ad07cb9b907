// Imports ops without a counterpart in the IR: LRN, Tile, ConvTranspose and
// others. They are assembled from IR ops, which have gradients, precision
// policies and code.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Importer/ShapeArguments.h"
#include "frontends/ONNX/Ops/Math/Norms.h"
#include "frontends/ONNX/Ops/NN/Window.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx_frontend;

//===----------------------------------------------------------------------===//
// Elementwise
//===----------------------------------------------------------------------===//

static LogicalResult importMean(NodeImporter &node) {
  Value sum = node.operand(0);
  for (unsigned i = 1; i < node.getNumInputs(); ++i)
    sum = node.emit<AddOp>({sum, node.operand(i)});
  if (!sum)
    return failure();
  Value share = node.scalarConstant(1.0 / node.getNumInputs(),
                                    NodeImporter::typeOf(sum).getElementType());
  return node.define(0, node.emit<MulOp>({sum, share}));
}

// Computes x if x > 0, else slope * x. The gradient at 0 is the slope, as in
// PyTorch.
static LogicalResult assemblePRelu(NodeImporter &node, Value slope) {
  Value x = node.operand(0);
  auto shape =
      broadcastShapes(NodeImporter::shapeOf(x), NodeImporter::shapeOf(slope));
  if (failed(shape) || ArrayRef<int64_t>(*shape) != NodeImporter::shapeOf(x))
    return node.invalid("the slope does not broadcast to the input" +
                        node.found({0, 1}));
  Value zero =
      numberConstant(node, 0, NodeImporter::typeOf(x).getElementType());
  Value isPositive = node.emit<LessOp>({zero, x});
  Value scaled = node.emit<MulOp>({x, slope});
  return node.define(0, node.emit<SelectOp>({isPositive, x, scaled}));
}

static LogicalResult importPRelu(NodeImporter &node) {
  return assemblePRelu(node, node.operand(1));
}

// Imports PRelu before opset 7, which has one slope, or one slope per channel.
static LogicalResult importChannelPRelu(NodeImporter &node) {
  SmallVector<int64_t> shape(node.operandShape(1));
  if (shape.size() == 1 && node.operandShape(0).size() > 2)
    shape.append(node.operandShape(0).size() - 2, 1);
  return assemblePRelu(node, node.reshape(node.operand(1), shape));
}

//===----------------------------------------------------------------------===//
// Movement
//===----------------------------------------------------------------------===//

// Imports Tile: puts an axis of size 1 in front of every axis, expands each new
// axis to the number of copies, and merges it with the axis behind. For
// example, [4, 6] in copies of [2, 1] is reshaped to [1, 4, 1, 6], expanded to
// [2, 4, 1, 6], and reshaped to [8, 6].
static LogicalResult importTile(NodeImporter &node) {
  auto copies = node.integers(1, "the number of copies");
  if (failed(copies))
    return failure();
  auto type = node.operandType(0);
  if (copies->size() != static_cast<size_t>(type.getRank()))
    return node.invalid("expected a number of copies for each of " +
                        Twine(type.getRank()) + " axes, found " +
                        Twine(copies->size()));
  // The intermediate shapes: before and after the expansion, and the result.
  SmallVector<int64_t> apart, spread, joined;
  for (auto [extent, count] : llvm::zip(type.getShape(), *copies)) {
    if (count < 0 || llvm::MulOverflow(extent, count, joined.emplace_back()))
      return node.invalid("cannot make " + Twine(count) +
                          " copies of an axis of " + Twine(extent) +
                          " elements: expected at least 0 copies, and a result "
                          "that fits 64 bits");
    apart.append({1, extent});
    spread.append({count, extent});
  }
  if (!getCheckedBytes(joined, type.getElementType()))
    return node.invalid("the result of shape " + printShape(joined) +
                        " is too large");
  Value expanded =
      node.emit<ExpandOp>({node.reshape(node.operand(0), apart)}, {},
                          RankedTensorType::get(spread, type.getElementType()));
  return node.define(0, expanded ? node.reshape(expanded, joined) : Value());
}

// Reads the block size of DepthToSpace or SpaceToDepth, and checks the rank.
static FailureOr<int64_t> readBlock(NodeImporter &node) {
  int64_t block = node.integer("blocksize", 0);
  if (node.operandShape(0).size() != 4)
    return node.invalid("expected an input of rank 4, found rank " +
                        Twine(node.operandShape(0).size()));
  if (block < 1)
    return node.invalid("expected attribute 'blocksize' of at least 1, found " +
                        Twine(block));
  return block;
}

// True if the depth axis is ordered (block row, block column, channel); false
// if the channel comes first.
static FailureOr<bool> readDepthFirst(NodeImporter &node) {
  std::string mode = node.string("mode", "DCR");
  if (mode != "DCR" && mode != "CRD")
    return node.invalid("expected attribute 'mode' to be DCR or CRD, found '" +
                        mode + "'");
  return mode == "DCR";
}

static LogicalResult importDepthToSpace(NodeImporter &node) {
  FailureOr<int64_t> read = readBlock(node);
  FailureOr<bool> depthFirst = readDepthFirst(node);
  if (failed(read) || failed(depthFirst))
    return failure();
  int64_t b = *read, area;
  ArrayRef<int64_t> shape = node.operandShape(0);
  if (llvm::MulOverflow(b, b, area) || shape[1] % area != 0)
    return node.invalid("blocks of " + Twine(b) + " x " + Twine(b) +
                        " do not divide " + Twine(shape[1]) + " channels");
  int64_t n = shape[0], c = shape[1] / area, h = shape[2], w = shape[3];
  // Split the depth, and move each axis of a block (b) behind height or width:
  // (n, c, h, b, w, b).
  bool isDepthFirst = *depthFirst;
  Value apart = node.reshape(
      node.operand(0), isDepthFirst ? ArrayRef<int64_t>{n, b, b, c, h, w}
                                    : ArrayRef<int64_t>{n, c, b, b, h, w});
  Value moved = transpose(node, apart,
                          isDepthFirst ? ArrayRef<int64_t>{0, 3, 4, 1, 5, 2}
                                       : ArrayRef<int64_t>{0, 1, 4, 2, 5, 3});
  return node.define(0, moved ? node.reshape(moved, {n, c, h * b, w * b})
                              : Value());
}

static LogicalResult importSpaceToDepth(NodeImporter &node) {
  FailureOr<int64_t> read = readBlock(node);
  FailureOr<bool> depthFirst = readDepthFirst(node);
  if (failed(read) || failed(depthFirst))
    return failure();
  int64_t b = *read;
  ArrayRef<int64_t> shape = node.operandShape(0);
  if (shape[2] % b != 0 || shape[3] % b != 0)
    return node.invalid("blocks of " + Twine(b) + " x " + Twine(b) +
                        " do not divide an image of " + Twine(shape[2]) +
                        " x " + Twine(shape[3]));
  int64_t n = shape[0], c = shape[1], h = shape[2] / b, w = shape[3] / b;
  Value apart = node.reshape(node.operand(0), {n, c, h, b, w, b});
  Value moved = transpose(node, apart,
                          *depthFirst ? ArrayRef<int64_t>{0, 3, 5, 1, 2, 4}
                                      : ArrayRef<int64_t>{0, 1, 3, 5, 2, 4});
  return node.define(0, moved ? node.reshape(moved, {n, b * b * c, h, w})
                              : Value());
}

//===----------------------------------------------------------------------===//
// Distances
//===----------------------------------------------------------------------===//

// Imports com.microsoft's CDist: the distance of each row of input 0, [m,
// size], from each row of input 1, [n, size], as [m, n]. Each distance is
// computed from the differences of elements: the form |a|^2 - 2 a b + |b|^2
// loses digits for close rows. The gradient of a distance of 0 is 0, as in
// PyTorch, so the square root never sees 0.
static LogicalResult importCDist(NodeImporter &node) {
  std::string metric = node.string("metric", "sqeuclidean");
  if (metric != "sqeuclidean" && metric != "euclidean")
    return node.unsupported("attribute 'metric' is '" + metric +
                            "', expected 'sqeuclidean' or 'euclidean'");
  SmallVector<int64_t> a(node.operandShape(0)), b(node.operandShape(1));
  if (a.size() != 2 || b.size() != 2 || a[1] != b[1])
    return node.invalid("expected two matrices with rows of equal size" +
                        node.found({0, 1}));
  // Broadcast each row of one input against each row of the other: [m, n,
  // size].
  Value difference =
      node.emit<SubOp>({node.reshape(node.operand(0), {a[0], 1, a[1]}),
                        node.reshape(node.operand(1), {1, b[0], b[1]})});
  const int64_t last[] = {2};
  Value squares =
      node.emit<ReduceSumOp>({node.emit<MulOp>({difference, difference})},
                             {node.attribute("axes", ArrayRef<int64_t>(last))});
  if (!squares || metric == "sqeuclidean")
    return node.define(0, squares);
  Type element = NodeImporter::typeOf(squares).getElementType();
  Value zero = numberConstant(node, 0, element);
  Value isZero = node.emit<EqualOp>({squares, zero});
  Value positive =
      node.emit<SelectOp>({isZero, numberConstant(node, 1, element), squares});
  return node.define(
      0, node.emit<SelectOp>({isZero, zero, node.emit<SqrtOp>({positive})}));
}

//===----------------------------------------------------------------------===//
// Windows
//===----------------------------------------------------------------------===//

static LogicalResult importGlobalMaxPool(NodeImporter &node) {
  int64_t rank = node.operandShape(0).size();
  if (rank < 3)
    return node.invalid("expected an input with spatial axes, found rank " +
                        Twine(rank));
  auto axes = llvm::to_vector(llvm::seq<int64_t>(2, rank));
  return node.define(0, node.emit<ReduceMaxOp>(
                            {node.operand(0)},
                            {node.attribute("axes", ArrayRef<int64_t>(axes)),
                             node.attribute("keepdims", true)}));
}

// Imports LRN: x / (bias + alpha / size * sum(x^2 over neighbouring
// channels))^beta. The channels become the only pooled axis of an average pool;
// padding counts as 0.
static LogicalResult importLRN(NodeImporter &node) {
  Value x = node.operand(0);
  SmallVector<int64_t> shape(NodeImporter::shapeOf(x));
  Type element = NodeImporter::typeOf(x).getElementType();
  int64_t size = node.integer("size", 0);
  if (shape.size() < 2 || size < 1)
    return node.invalid("expected an input of at least rank 2 and an attribute "
                        "'size' of at least 1, found rank " +
                        Twine(shape.size()) + " and size " + Twine(size));
  int64_t pixels =
      ShapedType::getNumElements(ArrayRef<int64_t>(shape).drop_front(2));
  Value squares = node.emit<MulOp>({x, x});
  if (!squares)
    return failure();
  // A wider window would only cover more padding, so clip the window to the
  // channels.
  int64_t farthest = std::max<int64_t>(shape[1], 1) - 1;
  int64_t before = std::min((size - 1) / 2, farthest);
  int64_t after = std::min(size / 2, farthest);
  int64_t window = before + 1 + after;
  Value mean = node.emit<AveragePoolOp>(
      {node.reshape(squares, {shape[0], 1, shape[1], pixels})},
      {node.attribute("kernel", ArrayRef<int64_t>{window, 1}),
       node.attribute("strides", ArrayRef<int64_t>{1, 1}),
       node.attribute("pads", ArrayRef<int64_t>{before, 0, after, 0}),
       node.attribute("ceil_mode", false),
       node.attribute("count_include_pad", true)});
  if (!mean)
    return failure();
  // The average pool divides by the size of the window, LRN by attribute
  // 'size'. Correct the difference in alpha.
  auto scalar = [&](StringRef name, double byDefault, double factor = 1.0) {
    return node.scalarConstant(factor * node.real(name, byDefault), element);
  };
  double share = static_cast<double>(window) / size;
  Value scaled = node.emit<MulOp>(
      {node.reshape(mean, shape), scalar("alpha", 0.0001, share)});
  Value base = node.emit<AddOp>({scaled, scalar("bias", 1.0)});
  Value power = node.emit<PowOp>({base, scalar("beta", 0.75)});
  return node.define(0, node.emit<DivOp>({x, power}));
}

//===----------------------------------------------------------------------===//
// Determinants
//===----------------------------------------------------------------------===//

namespace {
/// Describes the minors of the first `size` rows, one per set of columns. Minor
/// i is a sum over the columns c of set i. Each term is sign * the last row's
/// element in column c * the minor of the rows above without column c.
struct Minors {
  int64_t sets = 0, terms = 0;
  SmallVector<int64_t> columns, others; ///< [sets, terms]: c, smaller minor
  SmallVector<double> signs;
};
} // namespace

// Lists the minors of `size` rows: one for each set of `size` of the `n`
// columns.
static Minors listMinors(int64_t n, int64_t size) {
  assert(size > 0 && size <= n && n < 32 && "a set of columns has 32 bits");
  // A set of columns is a bit mask; number the sets.
  auto numberSets = [&](int64_t elements) {
    llvm::DenseMap<uint32_t, int64_t> numbers;
    for (uint32_t set = 0; set < uint32_t(1) << n; ++set)
      if (llvm::popcount(set) == elements)
        numbers.try_emplace(set, numbers.size());
    return numbers;
  };
  Minors minors;
  minors.terms = size;
  // Expand the minor along its last row, with alternating signs.
  auto smaller = numberSets(size - 1);
  for (uint32_t set = 0; set < uint32_t(1) << n; ++set) {
    if (llvm::popcount(set) != size)
      continue;
    ++minors.sets;
    double sign = size % 2 ? 1 : -1;
    for (int64_t column = 0; column < n; ++column) {
      uint32_t bit = uint32_t(1) << column;
      if (!(set & bit))
        continue;
      minors.columns.push_back(column);
      minors.others.push_back(smaller.lookup(set & ~bit));
      minors.signs.push_back(sign);
      sign = -sign;
    }
  }
  return minors;
}

// Computes the determinants of (count, n, n) by Laplace expansion, row by row,
// each minor once. The result is a polynomial, so gradients of singular
// matrices are right, too.
static Value determinants(NodeImporter &node, Value x) {
  int64_t count = NodeImporter::shapeOf(x)[0], n = NodeImporter::shapeOf(x)[1];
  Type element = elementTypeOf(x);
  // The minor of zero rows is 1.
  Value minors = expand(node, numberConstant(node, 1, element), {count, 1});
  for (int64_t size = 1; size <= n && minors; ++size) {
    Minors next = listMinors(n, size);
    SmallVector<int64_t> shape = {next.sets, next.terms};
    Value row = slice(node, x, {0, size - 1, 0}, {count, 1, n});
    if (!row)
      return {};
    Value factors = gather(node, node.reshape(row, {count, n}),
                           integerConstant(node, shape, next.columns), 1);
    Value others =
        gather(node, minors, integerConstant(node, shape, next.others), 1);
    Value terms =
        node.emit<MulOp>({node.emit<MulOp>({factors, others}),
                          floatConstant(node, element, shape, next.signs)});
    minors = reduce<ReduceSumOp>(node, terms, {2}, /*keepDims=*/false);
  }
  return minors;
}

static LogicalResult importDet(NodeImporter &node) {
  constexpr int64_t kLargest = 10; // 5120 products, twice as many for 11
  ArrayRef<int64_t> shape = node.operandShape(0);
  if (shape.size() < 2 || shape.back() != shape[shape.size() - 2])
    return node.invalid("expected square matrices" + node.found({0}));
  int64_t n = shape.back();
  if (n > kLargest)
    return node.unsupported("determinants of " + Twine(n) + " x " + Twine(n) +
                            " are not supported, expected " + Twine(kLargest) +
                            " at most");
  ArrayRef<int64_t> batch = shape.drop_back(2);
  int64_t count = ShapedType::getNumElements(batch);
  return defineInF32(node, [&](Value x) -> Value {
    Value result = determinants(node, node.reshape(x, {count, n, n}));
    return result ? node.reshape(result, batch) : Value();
  });
}

//===----------------------------------------------------------------------===//
// Transposed convolution
//===----------------------------------------------------------------------===//

// Returns the spatial extents of the result. If the node gives them
// (output_shape) or auto_pad determines them, sets the pads of `window`
// accordingly.
static FailureOr<SmallVector<int64_t>>
readTransposedExtents(NodeImporter &node, ArrayRef<int64_t> input,
                      Window &window) {
  size_t rank = input.size();
  std::string autoPad = node.string("auto_pad", "NOTSET");
  auto padding = node.integerList("output_padding");
  auto wanted = node.integerList("output_shape");
  for (const auto &list : {padding, wanted})
    if (list && (list->size() != rank || llvm::any_of(*list, [](int64_t value) {
                   return value < 0 || value > (int64_t(1) << 30);
                 })))
      return node.invalid(
          "expected attributes 'output_padding' and 'output_shape' to have a "
          "value from 0 to 2^30 for each of the " +
          Twine(rank) + " spatial axes, found " + printShape(*list));
  bool isUpper = autoPad == "SAME_UPPER";
  SmallVector<int64_t> extents;
  // `covered` is the extent from the start of the first window to the end of
  // the last.
  for (size_t i = 0; i < rank; ++i) {
    int64_t covered = window.strides[i] * (input[i] - 1) +
                      (padding ? (*padding)[i] : 0) +
                      (window.kernel[i] - 1) * window.dilations[i] + 1;
    if (!wanted && !isUpper && autoPad != "SAME_LOWER") {
      extents.push_back(covered - window.pads[i] - window.pads[rank + i]);
    } else {
      extents.push_back(wanted ? (*wanted)[i] : input[i] * window.strides[i]);
      int64_t total = std::max<int64_t>(covered - extents.back(), 0);
      window.pads[i] = isUpper ? total / 2 : total - total / 2;
      window.pads[rank + i] = total - window.pads[i];
    }
    if (extents.back() < 1)
      return node.invalid("the result would have " + Twine(extents.back()) +
                          " elements along spatial axis " + Twine(i) +
                          ", expected at least 1");
  }
  return extents;
}

// Emits the gradient of a convolution with respect to the input; the gradient
// has shape `result`. The windows of a convolution leave less than one stride
// of the padded input unread at the end. So if `result` is too long, first
// remove padding at the end, then compute a shorter gradient and append zeros.
static Value emitTransposed(NodeImporter &node, Value input, Value weight,
                            Window window, int64_t group,
                            ArrayRef<int64_t> result) {
  SmallVector<int64_t> reached(result);
  size_t rank = window.kernel.size();
  for (size_t i = 0; i < rank; ++i) {
    // The most elements that the padded input may have: up to the end of the
    // last window, and less than one stride more.
    int64_t covered = window.strides[i] * NodeImporter::shapeOf(input)[i + 2] +
                      (window.kernel[i] - 1) * window.dilations[i];
    int64_t &behind = window.pads[rank + i];
    int64_t over =
        std::max<int64_t>(result[i + 2] + window.pads[i] + behind - covered, 0);
    int64_t unpadded = std::min(over, behind);
    behind -= unpadded;
    reached[i + 2] -= over - unpadded;
  }
  if (llvm::any_of(ArrayRef(reached).drop_front(2),
                   [](int64_t extent) { return extent < 1; })) {
    (void)node.invalid("no window reaches the result of shape " +
                       printShape(result));
    return Value();
  }
  Value output = node.emit<ConvInputGradOp>(
      {input, weight}, window.convAttributes(node, group),
      NodeImporter::typeOf(input).clone(reached));
  if (!output || ArrayRef(reached) == result)
    return output;
  SmallVector<int64_t> offsets(result.size(), 0);
  return node.emit<PadOp>(
      {output}, {node.attribute("offsets", ArrayRef<int64_t>(offsets)),
                 node.attribute("shape", result)});
}

// Imports a transposed convolution as the gradient of a convolution with
// respect to the input. Both ops take the same weight, (C, M / group,
// kernel...).
static LogicalResult importConvTranspose(NodeImporter &node) {
  // Kernel, strides and pads of the node are those of the convolution whose
  // gradient is computed.
  Value input = node.operand(0), weight = node.operand(1);
  ArrayRef<int64_t> shape = NodeImporter::shapeOf(input);
  ArrayRef<int64_t> filters = NodeImporter::shapeOf(weight);
  int64_t group = node.integer("group", 1);
  if (filters.size() < 3 || filters.size() != shape.size() || group < 1 ||
      filters[0] != shape[1])
    return node.invalid(
        "expected an input of shape (N, C, d...), a weight of shape (C, "
        "M/group, k...) and attribute 'group' of at least 1" +
        node.found({0, 1}) + ", group " + Twine(group));
  auto window = readWindow(node, shape, filters.drop_front(2));
  if (failed(window))
    return failure();
  auto extents = readTransposedExtents(node, shape.drop_front(2), *window);
  if (failed(extents))
    return failure();
  SmallVector<int64_t> result = {shape[0]};
  if (llvm::MulOverflow(filters[1], group, result.emplace_back()))
    return node.invalid("attribute 'group' of " + Twine(group) +
                        " is too large: " + Twine(filters[1]) + " * " +
                        Twine(group) + " output channels overflow");
  result.append(*extents);
  Type element = NodeImporter::typeOf(input).getElementType();
  if (!getCheckedBytes(result, element))
    return node.invalid("the result of shape " + printShape(result) +
                        " is too large");
  Value output = emitTransposed(node, input, weight, *window, group, result);
  if (output && node.hasInput(2)) {
    SmallVector<int64_t> perChannel(result.size() - 1, 1);
    perChannel[0] = result[1];
    if (node.operandShape(2) != ArrayRef<int64_t>(result[1]))
      return node.invalid("expected a bias of " + Twine(result[1]) +
                          " elements" + node.found({2}));
    output =
        node.emit<AddOp>({output, node.reshape(node.operand(2), perChannel)});
  }
  return node.define(0, output);
}

ArrayRef<OpEntry> mpc::onnx_frontend::getAssembledOps() {
  static const OpEntry entries[] = {
      {"", "ConvTranspose", 1, kNoEnd, 2, 3, 1, importConvTranspose},
      {kMicrosoft, "CDist", 1, kNoEnd, 2, 2, 1, importCDist},
      {"", "Det", 11, kNoEnd, 1, 1, 1, importDet},
      {"", "DepthToSpace", 1, kNoEnd, 1, 1, 1, importDepthToSpace},
      {"", "GlobalMaxPool", 1, kNoEnd, 1, 1, 1, importGlobalMaxPool},
      {"", "LRN", 1, kNoEnd, 1, 1, 1, importLRN},
      {"", "Mean", 6, kNoEnd, 1, kAnyNumber, 1, importMean},
      {"", "PRelu", 6, 6, 2, 2, 1, importChannelPRelu},
      {"", "PRelu", 7, kNoEnd, 2, 2, 1, importPRelu},
      {"", "SpaceToDepth", 1, kNoEnd, 1, 1, 1, importSpaceToDepth},
      {"", "Tile", 6, kNoEnd, 2, 2, 1, importTile},
  };
  return entries;
}
