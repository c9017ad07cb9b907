// Builds the gradient of a sliced value from the gradients of the slices.
//
// A model may slice a value into adjacent boxes, x[0:5] and x[5:9]. A concat of
// their gradients is the gradient of x. Padding each to the size of x, and
// adding up, would take the memory of x once per slice. Only a box without an
// adjacent box is padded.
//
// SPDX-License-Identifier: Apache-2.0
#include "passes/Differentiation/GradientRules.h"

#include "llvm/ADT/STLExtras.h"

#include <map>

using namespace mlir;
using namespace mpc;

/// The most inputs of one concat; more are joined in several steps. A kernel
/// needs a loop per input, and a kernel of a GPU can take some hundred
/// operands.
static constexpr size_t kMostInputs = 64;

static RankedTensorType typeOfBox(const GradientBox &box) {
  return cast<RankedTensorType>(box.gradient.getType());
}

// Returns the only axis along which `box` is smaller than `shape`; nullopt if
// several axes are smaller, or none.
static std::optional<int64_t> findAxis(ArrayRef<int64_t> shape,
                                       const GradientBox &box) {
  std::optional<int64_t> found;
  for (auto [axis, extent] : llvm::enumerate(typeOfBox(box).getShape())) {
    if (extent == shape[axis])
      continue;
    if (found)
      return std::nullopt;
    found = axis;
  }
  return found;
}

namespace {
/// A run of boxes along `axis`: each box starts where the previous box ends. A
/// box that cannot be joined is a run without an axis.
struct Run {
  std::optional<int64_t> axis;
  SmallVector<GradientBox> boxes;
};
} // namespace

// Groups boxes into runs. Appends a box to a run that ends where the box
// starts, or else begins a run.
static SmallVector<Run> findRuns(ArrayRef<int64_t> shape,
                                 ArrayRef<GradientBox> boxes) {
  // Only boxes that are smaller than the value along a single axis can be
  // joined.
  SmallVector<Run> runs;
  std::map<int64_t, SmallVector<const GradientBox *>> alongAxis;
  for (const GradientBox &box : boxes) {
    std::optional<int64_t> axis = findAxis(shape, box);
    if (axis)
      alongAxis[*axis].push_back(&box);
    else
      runs.push_back({axis, {box}});
  }
  for (auto &[number, sorted] : alongAxis) {
    int64_t axis = number;
    llvm::stable_sort(sorted, [&](auto *a, auto *b) {
      return a->offsets[axis] < b->offsets[axis];
    });
    // Maps an end index to the runs that end there. The loop visits boxes in
    // order of their start.
    std::multimap<int64_t, size_t> byEnd;
    for (const GradientBox *box : sorted) {
      int64_t begin = box->offsets[axis];
      size_t run = runs.size();
      if (auto open = byEnd.find(begin); open != byEnd.end()) {
        run = open->second;
        byEnd.erase(open);
      } else {
        runs.push_back({axis, {}});
      }
      runs[run].boxes.push_back(*box);
      byEnd.emplace(begin + typeOfBox(*box).getDimSize(axis), run);
    }
  }
  return runs;
}

// Joins the boxes of a run into one box.
static GradientBox concat(OpBuilder &builder, ArrayRef<GradientBox> boxes,
                          int64_t axis) {
  // Concatenate in a tree, with at most kMostInputs inputs per node.
  SmallVector<GradientBox> parts(boxes);
  while (parts.size() > 1) {
    SmallVector<GradientBox> joined;
    for (size_t i = 0; i < parts.size(); i += kMostInputs) {
      auto some =
          ArrayRef(parts).slice(i, std::min(kMostInputs, parts.size() - i));
      joined.push_back(some.front());
      if (some.size() == 1)
        continue;
      // The boxes differ only along `axis`, so the extents add up.
      SmallVector<Value> inputs;
      SmallVector<int64_t> shape(typeOfBox(some.front()).getShape());
      shape[axis] = 0;
      for (const GradientBox &box : some) {
        inputs.push_back(box.gradient);
        shape[axis] += typeOfBox(box).getDimSize(axis);
      }
      joined.back().gradient =
          ConcatOp::create(builder, some.front().location,
                           typeOfBox(some.front()).clone(shape), inputs, axis);
    }
    parts = std::move(joined);
  }
  return parts.front();
}

SmallVector<Value> mpc::joinBoxes(OpBuilder &builder, ArrayRef<int64_t> shape,
                                  ArrayRef<GradientBox> boxes) {
  SmallVector<Value> wholes;
  for (const Run &run : findRuns(shape, boxes)) {
    GradientBox box =
        run.axis ? concat(builder, run.boxes, *run.axis) : run.boxes.front();
    if (typeOfBox(box).getShape() != shape)
      box.gradient =
          PadOp::create(builder, box.location, typeOfBox(box).clone(shape),
                        box.gradient, box.offsets, shape, APFloat(0.0));
    wholes.push_back(box.gradient);
  }
  return wholes;
}
