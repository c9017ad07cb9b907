// Emits kernels of several segments: independent regions in one launch, each
// with its own iteration space.
//
// A slice is part of one segment. Pointwise segments with equal computations
// share one loop nest. A binary search through the segments' first elements
// chooses the buffers of the nest at run time. All threads of a block take the
// same branches, so a loop nest may contain barriers.
//
// SPDX-License-Identifier: Apache-2.0
#include "passes/Codegen/Kernels/EmitSegments.h"

#include "compiler/Kernels/KernelHero.h"
#include "compiler/Kernels/KernelSegments.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::codegen;

namespace {
class SegmentEmitter {
public:
  explicit SegmentEmitter(KernelContext &context)
      : context(context), b(context.b),
        segments(getKernelSegments(context.kernel, context.partition.grain)) {}

  LogicalResult emit();

private:
  using Segments = ArrayRef<KernelSegment>;
  SmallVector<Segments> divide() const;
  LogicalResult emitNests(ArrayRef<Segments> classes);
  LogicalResult emitNest(Segments alike);
  LogicalResult emitElements(Segments alike);
  LogicalResult emitRows(const KernelSegment &segment);
  SmallVector<Value> boundsIn(Value first, Value size);
  SmallVector<Value> select(Segments among);
  SmallVector<Value> choose(const KernelSegment &segment);
  Value isAtOrAfter(int64_t element);

  KernelContext &context;
  ImplicitLocOpBuilder &b;
  SmallVector<KernelSegment> segments;
};
} // namespace

// Returns the inputs of a segment, then its results.
static SmallVector<Value> buffersOf(RegionOp region) {
  SmallVector<Value> values(region.getInputs());
  llvm::append_range(values, region.getResults());
  return values;
}

// Divides the segments into classes: runs of neighbouring segments with equal
// computations.
SmallVector<ArrayRef<KernelSegment>> SegmentEmitter::divide() const {
  SmallVector<Segments> classes;
  Segments rest = segments;
  while (!rest.empty()) {
    size_t count = 1;
    while (count < rest.size() &&
           computeAlike(rest[0].region, rest[count].region))
      ++count;
    classes.push_back(rest.take_front(count));
    rest = rest.drop_front(count);
  }
  return classes;
}

Value SegmentEmitter::isAtOrAfter(int64_t element) {
  return arith::CmpIOp::create(b, arith::CmpIPredicate::uge, context.bounds[0],
                               createIndex(b, element));
}

// Emits one loop nest per class of segments, and a binary tree of branches to
// the nest of the slice's segment.
LogicalResult SegmentEmitter::emitNests(ArrayRef<Segments> classes) {
  if (classes.size() == 1)
    return emitNest(classes.front());
  size_t half = classes.size() / 2;
  auto branch = scf::IfOp::create(b, TypeRange(),
                                  isAtOrAfter(classes[half].front().begin),
                                  /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  if (failed(emitNests(classes.drop_front(half))))
    return failure();
  b.setInsertionPointToStart(branch.elseBlock());
  return emitNests(classes.take_front(half));
}

// Returns the values that a shared loop nest uses for a segment: its buffers,
// cast to dynamic length, then its first element and its size.
SmallVector<Value> SegmentEmitter::choose(const KernelSegment &segment) {
  SmallVector<Value> chosen;
  for (Value value : buffersOf(segment.region)) {
    Value buffer = context.getBuffer(value);
    auto type = cast<MemRefType>(buffer.getType());
    chosen.push_back(memref::CastOp::create(
        b,
        MemRefType::get({ShapedType::kDynamic}, type.getElementType(),
                        type.getLayout(), type.getMemorySpace()),
        buffer));
  }
  chosen.push_back(createIndex(b, segment.begin));
  chosen.push_back(createIndex(b, segment.size));
  return chosen;
}

SmallVector<Value> SegmentEmitter::select(Segments among) {
  if (among.size() == 1)
    return choose(among.front());
  size_t half = among.size() / 2;
  SmallVector<Value> upper, lower;
  Value condition = isAtOrAfter(among[half].begin);
  auto build = [&](Segments part) {
    return [&, part](OpBuilder &nested, Location) {
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToEnd(nested.getInsertionBlock());
      scf::YieldOp::create(b, select(part));
    };
  };
  auto branch = scf::IfOp::create(b, condition, build(among.drop_front(half)),
                                  build(among.take_front(half)));
  return SmallVector<Value>(branch.getResults());
}

// Creates a kernel that contains only the segment `region`, next to the kernel
// `whole`.
static func::FuncOp createKernel(RegionOp region, func::FuncOp whole) {
  OpBuilder builder(whole);
  auto kernel = func::FuncOp::create(
      builder, region.getLoc(), whole.getName(),
      builder.getFunctionType(region.getInputs().getTypes(),
                              region.getResultTypes()));
  kernel->setAttr(kKernelAttr, whole->getAttr(kKernelAttr));
  cloneBody(region, kernel);
  return kernel;
}

// Returns the slice's range [begin, end) within the segment, relative to the
// segment's first element.
SmallVector<Value> SegmentEmitter::boundsIn(Value first, Value size) {
  Value begin = arith::SubIOp::create(b, context.bounds[0], first);
  Value end = arith::SubIOp::create(b, context.bounds[1], first);
  return {begin, arith::MinUIOp::create(b, end, size)};
}

// Returns the one of several segments with equal computations whose loop nest
// serves all of them. The nest depends on a segment's size in two ways: whether
// a vector fits, and whether elements remain after the last whole vector. So
// the choice is the largest segment with a remainder, or the largest of all if
// none has a remainder.
static const KernelSegment *findTypical(ArrayRef<KernelSegment> alike,
                                        int64_t width) {
  return llvm::max_element(
      alike, [&](const KernelSegment &a, const KernelSegment &other) {
        return std::pair(a.size % width != 0, a.size) <
               std::pair(other.size % width != 0, other.size);
      });
}

LogicalResult SegmentEmitter::emitElements(Segments alike) {
  SmallVector<Value> chosen = select(alike);
  Value size = chosen.pop_back_val(), first = chosen.pop_back_val();
  const KernelSegment *typical = findTypical(alike, context.getVectorWidth());
  func::FuncOp kernel = createKernel(typical->region, context.kernel);
  KernelContext part{kernel,         b,
                     chosen,         boundsIn(first, size),
                     context.target, context.partition,
                     context.rows,   context.columns};
  LogicalResult result = emitPointwise(part);
  kernel.erase();
  return result;
}

// Emits the rows of one segment; all threads of a block share each row.
LogicalResult SegmentEmitter::emitRows(const KernelSegment &segment) {
  // Create a separate kernel of the segment, on the segment's buffers.
  RegionOp region = segment.region;
  SmallVector<Value> buffers;
  for (Value value : buffersOf(region))
    buffers.push_back(context.getBuffer(value));
  func::FuncOp kernel = createKernel(region, context.kernel);
  // All segments share the grain and the threads of the launch.
  KernelPartition partition = getKernelPartition(kernel, context.target);
  partition.grain = context.partition.grain;
  partition.threads = context.partition.threads;
  partition.lanes = context.partition.lanes;
  KernelContext part{
      kernel,
      b,
      buffers,
      boundsIn(createIndex(b, segment.begin), createIndex(b, segment.size)),
      context.target,
      partition,
      context.rows,
      context.columns};
  LogicalResult result = emitRowReduce(part);
  kernel.erase();
  return result;
}

LogicalResult SegmentEmitter::emitNest(Segments alike) {
  KernelKind kind = *getKernelKind(context.kernel);
  return KernelHero::get(kind).isElementwise() ? emitElements(alike)
                                               : emitRows(alike.front());
}

LogicalResult SegmentEmitter::emit() { return emitNests(divide()); }

LogicalResult codegen::emitSegments(KernelContext &context) {
  return SegmentEmitter(context).emit();
}
