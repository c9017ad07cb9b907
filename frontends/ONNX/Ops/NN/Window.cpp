// Reads the attributes of sliding windows.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Ops/NN/Window.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx_frontend;

// The largest value of a window's attribute: sums and products stay far from
// overflow.
static constexpr int64_t kLargest = int64_t(1) << 30;
// The largest stride, dilation and pad of a convolution, which libraries
// compute. For steps of 2^24 over a few pixels oneDNN took more than a minute,
// and oneDNN refuses some steps of 2^30.
static constexpr int64_t kLargestOfConv = int64_t(1) << 20;

namespace {
/// The values that an attribute may have, both ends included.
struct AttributeRange {
  int64_t smallest, largest;
};
} // namespace

// Reads attribute `name`, a list with one value per spatial axis (two for
// pads), in `range`. An absent list is filled with range.smallest.
static FailureOr<SmallVector<int64_t>> readList(NodeImporter &node,
                                                StringRef name, size_t count,
                                                AttributeRange range) {
  auto list = node.integerList(name);
  if (!list)
    return SmallVector<int64_t>(count, range.smallest);
  if (list->size() != count)
    return node.invalid("attribute '" + name + "' has " + Twine(list->size()) +
                        " values, expected " + Twine(count));
  for (int64_t value : *list)
    if (value < range.smallest || value > range.largest)
      return node.invalid("attribute '" + name + "' holds " + Twine(value) +
                          (value < range.smallest
                               ? ", expected at least " + Twine(range.smallest)
                               : ", expected at most " + Twine(range.largest)));
  return *list;
}

// Sets the pads of ONNX's SAME: the result has ceil(input / stride) positions.
// An odd pad is larger at the end if `upper`, otherwise at the start.
static void padSame(Window &window, ArrayRef<int64_t> spatial, bool upper) {
  assert(window.kernel.size() == spatial.size() &&
         window.pads.size() == 2 * spatial.size() && "values per spatial axis");
  size_t rank = spatial.size();
  for (size_t d = 0; d < rank; ++d) {
    int64_t stride = window.strides[d];
    int64_t count = (spatial[d] + stride - 1) / stride;
    int64_t extent = (window.kernel[d] - 1) * window.dilations[d] + 1;
    int64_t total =
        std::max<int64_t>((count - 1) * stride + extent - spatial[d], 0);
    int64_t smaller = total / 2;
    window.pads[d] = upper ? smaller : total - smaller;
    window.pads[rank + d] = total - window.pads[d];
  }
}

FailureOr<Window> mpc::onnx_frontend::readWindow(NodeImporter &node,
                                                 ArrayRef<int64_t> inputShape,
                                                 ArrayRef<int64_t> kernel) {
  if (inputShape.size() < 3)
    return node.invalid("expected an input with spatial axes, found rank " +
                        Twine(inputShape.size()));
  ArrayRef<int64_t> spatial = inputShape.drop_front(2);
  size_t rank = spatial.size();
  if (!kernel.empty() && kernel.size() != rank)
    return node.invalid("expected a weight of rank " + Twine(rank + 2) +
                        ", found rank " + Twine(kernel.size() + 2));
  Window window;
  bool given = node.hasAttribute("kernel_shape");
  if (!given && kernel.empty())
    return node.invalid("attribute 'kernel_shape' is missing");
  const int64_t largest = kernel.empty() ? kLargest : kLargestOfConv;
  auto kernelShape = readList(node, "kernel_shape", rank, {1, kLargest});
  auto strides = readList(node, "strides", rank, {1, largest});
  auto dilations = readList(node, "dilations", rank, {1, largest});
  auto pads = readList(node, "pads", 2 * rank, {0, largest});
  if (failed(kernelShape) || failed(strides) || failed(dilations) ||
      failed(pads))
    return failure();
  window.kernel = given ? *kernelShape : SmallVector<int64_t>(kernel);
  if (!kernel.empty() && ArrayRef<int64_t>(window.kernel) != kernel)
    return node.invalid(
        "expected attribute 'kernel_shape' to be " + printShape(kernel) +
        ", the shape of the weight, found " + printShape(window.kernel));
  window.strides = *strides;
  window.dilations = *dilations;
  window.pads = *pads;

  std::string autoPad = node.string("auto_pad", "NOTSET");
  if (autoPad == "SAME_UPPER" || autoPad == "SAME_LOWER")
    padSame(window, spatial, autoPad == "SAME_UPPER");
  else if (autoPad == "VALID")
    window.pads.assign(2 * rank, 0);
  else if (autoPad != "NOTSET")
    return node.invalid("attribute 'auto_pad' has the unknown value '" +
                        autoPad +
                        "', expected NOTSET, SAME_UPPER, SAME_LOWER or VALID");
  return window;
}

SmallVector<NamedAttribute> Window::convAttributes(NodeImporter &node,
                                                   int64_t group) const {
  return {node.attribute("strides", strides), node.attribute("pads", pads),
          node.attribute("dilations", dilations),
          node.attribute("group", group)};
}

SmallVector<NamedAttribute> Window::poolAttributes(NodeImporter &node,
                                                   bool ceilMode) const {
  return {node.attribute("kernel", kernel), node.attribute("strides", strides),
          node.attribute("pads", pads), node.attribute("ceil_mode", ceilMode)};
}

PoolEdges mpc::onnx_frontend::readPoolEdges(NodeImporter &node) {
  PoolEdges edges;
  edges.ceilMode = node.integer("ceil_mode", 0) != 0;
  edges.countsPadding = node.integer("count_include_pad", 0) != 0;
  return edges;
}

SmallVector<NamedAttribute> Window::meanAttributes(NodeImporter &node,
                                                   PoolEdges edges) const {
  auto attributes = poolAttributes(node, edges.ceilMode);
  if (llvm::any_of(dilations, [](int64_t d) { return d != 1; }))
    attributes.push_back(node.attribute("dilations", dilations));
  attributes.push_back(
      node.attribute("count_include_pad", edges.countsPadding));
  return attributes;
}
