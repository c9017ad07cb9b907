// Imports ops that write parts onto a whole: Col2Im adds the columns of a
// convolution to its image; TensorScatter writes new positions into a cache.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Importer/Assemble.h"
#include "frontends/ONNX/Importer/FoldElements.h"
#include "frontends/ONNX/Ops/NN/Window.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx_frontend;

// Lists where Col2Im adds each element: for every element of every block the
// number of an image element, or one past the last if the element lies outside
// the image. A block is the window of a convolution at one position.
static SmallVector<int64_t> listBlockElements(const Window &window,
                                              ArrayRef<int64_t> image,
                                              ArrayRef<int64_t> blocks) {
  int64_t total = ShapedType::getNumElements(image);
  int64_t taps = ShapedType::getNumElements(window.kernel);
  int64_t count = ShapedType::getNumElements(blocks);
  SmallVector<int64_t> numbers;
  numbers.reserve(taps * count);
  forEachIndex(window.kernel, [&](ArrayRef<int64_t> tap) {
    forEachIndex(blocks, [&](ArrayRef<int64_t> block) {
      int64_t number = 0;
      bool exists = true;
      for (size_t d = 0; d < image.size(); ++d) {
        int64_t place = block[d] * window.strides[d] - window.pads[d] +
                        tap[d] * window.dilations[d];
        exists &= place >= 0 && place < image[d];
        number = number * image[d] + place;
      }
      numbers.push_back(exists ? number : total);
    });
  });
  return numbers;
}

// Returns the number of positions of a block along each axis of an image, as
// for a convolution with `window`; 0 if the block does not fit.
static SmallVector<int64_t> countBlocks(const Window &window,
                                        ArrayRef<int64_t> image) {
  SmallVector<int64_t> blocks;
  size_t rank = image.size();
  for (size_t d = 0; d < rank; ++d) {
    int64_t free = image[d] + window.pads[d] + window.pads[rank + d] -
                   (window.kernel[d] - 1) * window.dilations[d] - 1;
    blocks.push_back(free < 0 ? 0 : free / window.strides[d] + 1);
  }
  return blocks;
}

// Imports Col2Im: adds every element of the columns (N, C * block, L) to an
// image element. Column l holds the elements of the block at position l.
static LogicalResult importCol2Im(NodeImporter &node) {
  auto type = node.operandType(0);
  auto image = node.integers(1, "the shape of the image");
  auto block = node.integers(2, "the shape of a block");
  if (failed(image) || failed(block))
    return failure();
  // readWindow() would also read these attributes of Conv, but Col2Im has
  // inputs instead.
  if (node.hasAttribute("kernel_shape") || node.hasAttribute("auto_pad"))
    return node.invalid("Col2Im has no attributes 'kernel_shape' and "
                        "'auto_pad'; input 2 is the shape of a block");
  constexpr int64_t kMost = int64_t(1) << 24; // as canList allows
  auto isSane = [&](ArrayRef<int64_t> extents) {
    return getCheckedBytes(extents, node.attributes().getI64Type()) &&
           ShapedType::getNumElements(extents) <= kMost &&
           !llvm::is_contained(extents, 0);
  };
  if (type.getRank() != 3 || image->empty() || image->size() != block->size() ||
      !isSane(*image) || !isSane(*block))
    return node.invalid(
        "expected an input of rank 3, and an image and a block "
        "of one rank, of 1 to " +
        Twine(kMost) + " elements, found " + printTensorType(type) +
        ", image " + printShape(*image) + " and block " + printShape(*block));
  // readWindow() takes the shape of a convolution's input, with batch and
  // channel axes.
  SmallVector<int64_t> whole = {type.getDimSize(0), 1};
  whole.append(*image);
  auto window = readWindow(node, whole, *block);
  if (failed(window))
    return failure();
  SmallVector<int64_t> blocks = countBlocks(*window, *image);
  if (!isSane(blocks))
    return node.invalid("the image " + printShape(*image) +
                        " has room for no block " + printShape(*block) +
                        ", or for too many: " + printShape(blocks));
  // The columns have C * `taps` elements, where `taps` is the size of a block,
  // for each position of the block.
  int64_t taps = ShapedType::getNumElements(*block);
  int64_t count = ShapedType::getNumElements(blocks);
  if (type.getDimSize(1) % taps != 0 || type.getDimSize(2) != count)
    return node.invalid("expected columns of a multiple of " + Twine(taps) +
                        " elements for " + Twine(count) + " blocks" +
                        node.found({0}));
  if (!canList(node, taps * count))
    return failure();
  // Scatter into the flattened image: element (y, x) is number y * width + x.
  SmallVector<int64_t> numbers = listBlockElements(*window, *image, blocks);
  SmallVector<int64_t> result = {type.getDimSize(0), type.getDimSize(1) / taps};
  auto line = RankedTensorType::get(
      {result[0], result[1], ShapedType::getNumElements(*image)},
      type.getElementType());
  Value zeros = node.emit<ConstantOp>(
      {}, {node.attribute("value", node.attributes().getZeroAttr(line))}, line);
  Value sums = node.emit<ScatterOp>(
      {zeros, integerConstant(node, {taps * count}, numbers),
       node.reshape(node.operand(0), {result[0], result[1], taps * count})},
      {node.attribute("axis", int64_t(2)),
       node.attribute("reduction",
                      ScatterReductionAttr::get(node.getContext(),
                                                ScatterReduction::Add))});
  result.append(*image);
  return node.define(0, node.reshape(sums, result));
}

// Returns the cache position of each update, [batch, length]: consecutive from
// each sample's first position, modulo `size` if the cache is a ring.
static Value placeUpdates(NodeImporter &node, int64_t batch, int64_t length,
                          int64_t size, bool isRing) {
  Value first = node.reshape(
      castTo(node, node.operand(2), node.attributes().getI64Type()),
      {batch, 1});
  Value place = node.emit<AddOp>({first, iota(node, 2, 1, length)});
  Value extent = integerConstant(node, {}, size);
  if (isRing)
    return node.emit<ModOp>({place, extent});
  // gather and scatter count negative positions from the end, so replace them
  // by `size`, which is out of range.
  Value isBefore = node.emit<LessOp>({place, integerConstant(node, {}, 0)});
  Value placed = node.emit<SelectOp>({isBefore, extent, place});
  markIndices(node, placed, size);
  return placed;
}

static LogicalResult importTensorScatter(NodeImporter &node) {
  ArrayRef<int64_t> cache = node.operandShape(0), update = node.operandShape(1);
  auto axis = node.normalizeAxis(node.integer("axis", -2), cache.size());
  std::string mode = node.string("mode", "linear");
  if (failed(axis))
    return failure();
  if (mode != "linear" && mode != "circular")
    return node.invalid("expected attribute 'mode' to be linear or circular, "
                        "found '" +
                        mode + "'");
  SmallVector<int64_t> expected(cache);
  if (update.size() == cache.size())
    expected[*axis] = update[*axis];
  if (*axis == 0 || ArrayRef<int64_t>(expected) != update ||
      update[*axis] > cache[*axis])
    return node.invalid(
        "expected an update of the shape of the cache, except that axis " +
        Twine(*axis) + " may be shorter; this axis cannot be 0" +
        node.found({0, 1}));
  int64_t batch = cache[0], length = update[*axis], size = cache[*axis];
  // Without input 2, every update starts at position 0.
  if (!node.hasInput(2))
    return node.define(0, replaceBox(node, node.operand(0), node.operand(1)));
  if (node.operandShape(2) != ArrayRef<int64_t>(batch))
    return node.invalid("expected " + Twine(batch) + " places, one per sample" +
                        node.found({2}));
  bool isRing = mode == "circular";
  std::optional<HostTensor> known = node.constant(2);
  if (!isRing && known && !known->isFloat() && !node.isState(2)) {
    for (int64_t first : known->getIntegers())
      if (first < 0 || first > size - length)
        return node.invalid("an update of " + Twine(length) +
                            " elements at place " + Twine(first) +
                            " is not within a cache of " + Twine(size) +
                            " elements");
  } else if (!isRing && failed(markIndices(node, 2, size))) {
    return failure();
  }
  if (size == 0 || length == 0)
    return node.define(0, node.operand(0));
  // Axis 0 is the batch, because each sample has its own positions.
  return node.define(
      0, node.emit<ScatterOp>(
             {node.operand(0), placeUpdates(node, batch, length, size, isRing),
              node.operand(1)},
             {node.attribute("axis", *axis),
              node.attribute("batch_dims", int64_t(1)),
              node.attribute("reduction",
                             ScatterReductionAttr::get(node.getContext(),
                                                       ScatterReduction::None)),
              node.attribute("unique_indices", true)}));
}

ArrayRef<OpEntry> mpc::onnx_frontend::getOverlayOps() {
  static const OpEntry entries[] = {
      {"", "Col2Im", 18, kNoEnd, 3, 3, 1, importCol2Im},
      {"", "TensorScatter", 24, kNoEnd, 2, 3, 1, importTensorScatter},
  };
  return entries;
}
