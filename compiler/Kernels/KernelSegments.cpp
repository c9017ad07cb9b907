// SPDX-License-Identifier: Apache-2.0
#include "compiler/Kernels/KernelSegments.h"

#include "compiler/Kernels/KernelHero.h"
#include "compiler/Kernels/KernelSpace.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mpc;

bool mpc::isSegmented(func::FuncOp kernel) {
  return !kernel.isExternal() &&
         isa<RegionOp>(kernel.getBody().front().front());
}

static int64_t elementsOf(RegionOp region) {
  assert(region.getNumResults() > 0 && "a segment stores results");
  return typeOf(region.getResult(0)).getNumElements();
}

// Returns the elements of a pointwise segment, or the rows of a segment that
// reduces rows.
static int64_t sizeOf(RegionOp region) {
  for (Operation &op : region.getBody().front())
    if (isa<ReductionOpInterface>(op))
      return getReductionSpace(&op)->outer;
  return elementsOf(region);
}

SmallVector<KernelSegment> mpc::getKernelSegments(func::FuncOp kernel,
                                                  int64_t grain) {
  assert(isSegmented(kernel) && grain > 0 && "a kernel of segments");
  SmallVector<KernelSegment> segments;
  int64_t begin = 0;
  for (auto region : kernel.getBody().front().getOps<RegionOp>()) {
    int64_t size = sizeOf(region);
    segments.push_back({region, begin, size});
    begin += llvm::alignTo(size, grain);
  }
  return segments;
}

int64_t mpc::getSegmentedExtent(func::FuncOp kernel, int64_t grain) {
  KernelSegment last = getKernelSegments(kernel, grain).back();
  return last.begin + last.size;
}

void mpc::cloneBody(RegionOp region, func::FuncOp kernel) {
  assert(kernel.getBody().empty() && "the body becomes the kernel's own");
  IRMapping mapping;
  region.getBody().cloneInto(&kernel.getBody(), mapping);
  Operation *yield = kernel.getBody().front().getTerminator();
  OpBuilder builder(yield);
  func::ReturnOp::create(builder, region.getLoc(), yield->getOperands());
  yield->erase();
}

bool mpc::canBeSegment(RegionOp region) {
  if (!KernelHero::get(region.getKind()).isElementwise() ||
      region.getNumResults() == 0)
    return false;
  ArrayRef<int64_t> shape = typeOf(region.getResult(0)).getShape();
  auto isDense = [&](Value value) { return typeOf(value).getShape() == shape; };
  if (!llvm::all_of(region.getResults(), isDense))
    return false;
  return llvm::all_of(region.getBody().front(), [&](Operation &op) {
    // A random op, for example, depends on the position of an element in the
    // tensor, and so on the tensor's shape. A segment must not.
    return !dependsOnPlace(&op) &&
           llvm::all_of(op.getOperands(), [&](Value operand) {
             return isDense(operand) || typeOf(operand).getNumElements() == 1;
           });
  });
}

//===----------------------------------------------------------------------===//
// Likeness
//===----------------------------------------------------------------------===//

static bool haveLikeTypes(Value a, Value b) {
  return typeOf(a).getElementType() == typeOf(b).getElementType() &&
         (typeOf(a).getNumElements() == 1) == (typeOf(b).getNumElements() == 1);
}

static bool areLikeConstants(ConstantOp a, ConstantOp b) {
  auto first = dyn_cast<DenseElementsAttr>(a.getValue());
  auto second = dyn_cast<DenseElementsAttr>(b.getValue());
  return first && second && first.isSplat() && second.isSplat() &&
         first.getSplatValue<Attribute>() == second.getSplatValue<Attribute>();
}

// True if `a` and `b` are the same op on corresponding operands. `like` maps a
// value of the first region to its counterpart in the second.
static bool areLike(Operation &a, Operation &b,
                    const DenseMap<Value, Value> &like) {
  if (a.getName() != b.getName() || a.getNumOperands() != b.getNumOperands() ||
      a.getNumResults() != b.getNumResults())
    return false;
  for (auto [first, second] : llvm::zip(a.getOperands(), b.getOperands()))
    if (like.lookup(first) != second)
      return false;
  for (auto [first, second] : llvm::zip(a.getResults(), b.getResults()))
    if (!haveLikeTypes(first, second))
      return false;
  if (auto constant = dyn_cast<ConstantOp>(a))
    return areLikeConstants(constant, cast<ConstantOp>(b));
  return a.getPropertiesAsAttribute() == b.getPropertiesAsAttribute();
}

bool mpc::computeAlike(RegionOp a, RegionOp b) {
  Block &first = a.getBody().front(), &second = b.getBody().front();
  // Both segments must be elementwise and have the same number of ops. A
  // segment of a single element is compiled without vectors, and so needs
  // different code.
  if (first.getNumArguments() != second.getNumArguments() ||
      first.getOperations().size() != second.getOperations().size() ||
      a.getKind() != b.getKind() ||
      !KernelHero::get(a.getKind()).isElementwise() ||
      (elementsOf(a) == 1) != (elementsOf(b) == 1))
    return false;
  DenseMap<Value, Value> like;
  for (auto [x, y] : llvm::zip(first.getArguments(), second.getArguments())) {
    if (!haveLikeTypes(x, y))
      return false;
    like[x] = y;
  }
  for (auto [x, y] : llvm::zip(first, second)) {
    if (!areLike(x, y, like))
      return false;
    for (auto [from, to] : llvm::zip(x.getResults(), y.getResults()))
      like[from] = to;
  }
  return true;
}
