// The gradient of a value that was sliced, made of its slices' gradients.
//
// Split along an axis is as many slices, whose gradients lie side by side
// again: one concat, where a sum of as many tensors between zeros would take
// their number times the memory. What does not meet another slice is padded.
//
// SPDX-License-Identifier: Apache-2.0
#include "passes/Differentiation/GradientRules.h"

#include "llvm/ADT/STLExtras.h"

#include <map>

using namespace mlir;
using namespace mpc;

/// More inputs than this are joined in several steps: a kernel has a loop for
/// each, and a GPU's kernel can take some hundreds.
static constexpr size_t kMostInputs = 64;

static RankedTensorType typeOfBox(const GradientBox &box) {
  return cast<RankedTensorType>(box.gradient.getType());
}

// The only axis along which the box is not all of `shape`; nothing where there
// are several.
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
/// Boxes that lie side by side, in order.
struct Run {
  std::optional<int64_t> axis;
  SmallVector<GradientBox> boxes;
};
} // namespace

// Every box goes to the first run that ends where it begins.
static SmallVector<Run> findRuns(ArrayRef<int64_t> shape,
                                 ArrayRef<GradientBox> boxes) {
  // Boxes that are narrower than the whole along one axis are joined along that
  // axis; others stay alone.
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
    // The runs that end at each place. Boxes come in order of where they begin.
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

// Joins the boxes of a run, which lie side by side along `axis`, into one.
static GradientBox concat(OpBuilder &builder, ArrayRef<GradientBox> boxes,
                          int64_t axis) {
  // A tree of concatenations, each of so many inputs as one may have.
  SmallVector<GradientBox> parts(boxes);
  while (parts.size() > 1) {
    SmallVector<GradientBox> joined;
    for (size_t i = 0; i < parts.size(); i += kMostInputs) {
      auto some =
          ArrayRef(parts).slice(i, std::min(kMostInputs, parts.size() - i));
      joined.push_back(some.front());
      if (some.size() == 1)
        continue;
      // The boxes differ along `axis` alone: its extents add up.
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
