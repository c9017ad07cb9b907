// SPDX-License-Identifier: Apache-2.0
#include "compiler/Analysis/KernelPartition.h"

#include "compiler/Dialect/MPC/MPC.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mpc;

//===----------------------------------------------------------------------===//
// Kinds
//===----------------------------------------------------------------------===//

static constexpr std::pair<KernelKind, llvm::StringLiteral> kKindNames[] = {
    {KernelKind::Pointwise, "pointwise"},
    {KernelKind::RowReduce, "row_reduce"},
    {KernelKind::ColumnReduce, "column_reduce"},
    {KernelKind::Contraction, "contraction"},
    {KernelKind::Window, "window"},
    {KernelKind::Movement, "movement"},
    {KernelKind::Epilogue, "epilogue"},
};

StringRef mpc::stringifyKernelKind(KernelKind kind) {
  for (const auto &[candidate, name] : kKindNames)
    if (candidate == kind)
      return name;
  llvm_unreachable("a kind without a name");
}

std::optional<KernelKind> mpc::symbolizeKernelKind(StringRef name) {
  for (const auto &[kind, candidate] : kKindNames)
    if (candidate == name)
      return kind;
  return std::nullopt;
}

std::optional<KernelKind> mpc::getKernelKind(func::FuncOp function) {
  auto kind = function->getAttrOfType<StringAttr>(kKernelAttr);
  return kind ? symbolizeKernelKind(kind.getValue()) : std::nullopt;
}

//===----------------------------------------------------------------------===//
// Spaces
//===----------------------------------------------------------------------===//

static ArrayRef<int64_t> shapeOf(Value value) {
  return cast<RankedTensorType>(value.getType()).getShape();
}

static int64_t product(ArrayRef<int64_t> extents) {
  int64_t result = 1;
  for (int64_t extent : extents)
    result *= extent;
  return result;
}

std::optional<ReductionSpace> mpc::getReductionSpace(ArrayRef<int64_t> shape,
                                                     ArrayRef<int64_t> axes) {
  ReductionSpace space;
  bool sawReduced = false, sawInner = false;
  for (auto [axis, extent] : llvm::enumerate(shape)) {
    if (extent == 1)
      continue;
    if (llvm::is_contained(axes, static_cast<int64_t>(axis))) {
      if (sawInner)
        return std::nullopt;
      sawReduced = true;
      space.reduced *= extent;
    } else if (sawReduced) {
      sawInner = true;
      space.inner *= extent;
    } else {
      space.outer *= extent;
    }
  }
  return space;
}

std::optional<SmallVector<int64_t>> mpc::getReducedAxes(Operation *op) {
  using Axes = std::optional<SmallVector<int64_t>>;
  return llvm::TypeSwitch<Operation *, Axes>(op)
      .Case<ReduceSumOp, ReduceMeanOp, ReduceMaxOp>([](auto reduction) {
        return SmallVector<int64_t>(reduction.getAxes());
      })
      .Case([](SumToSizeOp sum) {
        ArrayRef<int64_t> input = sum.getInput().getType().getShape();
        ArrayRef<int64_t> output = sum.getType().getShape();
        size_t missing = input.size() - output.size();
        SmallVector<int64_t> axes;
        for (auto [axis, extent] : llvm::enumerate(input))
          if (axis < missing || output[axis - missing] != extent)
            axes.push_back(axis);
        return axes;
      })
      .Default([](Operation *) { return std::nullopt; });
}

// Rows are all but the last axis of the result in NHWC and in matrix products.
static ContractionSpace spaceOf(Value result, int64_t depth) {
  ArrayRef<int64_t> shape = shapeOf(result);
  return {product(shape.drop_back()), shape.back(), depth};
}

ContractionSpace mpc::getContractionSpace(Operation *contraction) {
  return llvm::TypeSwitch<Operation *, ContractionSpace>(contraction)
      .Case([](MatMulOp op) {
        ArrayRef<int64_t> lhs = shapeOf(op.getLhs());
        return spaceOf(op.getOutput(),
                       lhs[lhs.size() - (op.getTransA() ? 2 : 1)]);
      })
      .Case([](GemmOp op) {
        return spaceOf(op.getOutput(),
                       shapeOf(op.getA())[op.getTransA() ? 0 : 1]);
      })
      .Case([](ConvOp op) {
        return spaceOf(op.getOutput(),
                       product(shapeOf(op.getWeight()).drop_front()));
      })
      .Case([](ConvInputGradOp op) {
        ArrayRef<int64_t> weight = shapeOf(op.getWeight());
        return spaceOf(op.getDInput(), weight[0] /
                                           static_cast<int64_t>(op.getGroup()) *
                                           product(weight.drop_front(2)));
      })
      .Case([](ConvWeightGradOp op) {
        ArrayRef<int64_t> weight = shapeOf(op.getDWeight());
        return ContractionSpace{weight[0], product(weight.drop_front()),
                                product(shapeOf(op.getDOutput())) / weight[0]};
      })
      .DefaultUnreachable("not a contraction");
}

//===----------------------------------------------------------------------===//
// Partition
//===----------------------------------------------------------------------===//

/// A slice has about this many elements: microseconds of work, so that handing
/// it out costs little and a few threads still share a mid-sized tensor.
static constexpr int64_t kSliceElements = 16384;
/// More slices than this help no load balance on one socket.
static constexpr int64_t kMaxSlices = 64;
/// Columns of a column reduction that one slice owns: whole cache lines.
static constexpr int64_t kColumnBlock = 64;
/// Multiply-adds of a slice of a generated contraction.
static constexpr int64_t kSliceProducts = 1 << 18;

// Slices of whole multiples of `unit` indices, each about `work` elements where
// one index is `inner` elements.
static KernelPartition partition(int64_t extent, int64_t inner,
                                 int64_t unit = 1,
                                 int64_t work = kSliceElements) {
  int64_t grain = std::max<int64_t>(1, work / std::max<int64_t>(1, inner));
  grain = std::max(grain, llvm::divideCeilSigned(extent, kMaxSlices));
  grain = llvm::divideCeilSigned(grain, unit) * unit;
  return {extent, grain, inner};
}

// Whether a value of `shape`, broadcast to `space`, is dense or one value over
// the axes of `space` from `axis` on.
static bool isUniformFrom(ArrayRef<int64_t> shape, ArrayRef<int64_t> space,
                          size_t axis) {
  size_t missing = space.size() - shape.size();
  bool dense = true, single = true;
  for (size_t d = axis; d < space.size(); ++d) {
    int64_t extent = d < missing ? 1 : shape[d - missing];
    dense &= extent == space[d];
    single &= extent == 1;
  }
  return dense || single;
}

// The shapes at which a pointwise kernel reads its arguments. An argument of
// one_hot is read as if it had the new axis, with size 1.
static SmallVector<SmallVector<int64_t>> readShapes(func::FuncOp kernel) {
  SmallVector<SmallVector<int64_t>> shapes;
  for (Operation &op : kernel.getBody().front().without_terminator()) {
    for (Value operand : op.getOperands()) {
      SmallVector<int64_t> shape(shapeOf(operand));
      if (auto oneHot = dyn_cast<OneHotOp>(op))
        shape.insert(shape.begin() + oneHot.getAxis(), 1);
      shapes.push_back(std::move(shape));
    }
  }
  return shapes;
}

static KernelPartition partitionPointwise(func::FuncOp kernel) {
  ArrayRef<int64_t> space =
      cast<RankedTensorType>(kernel.getResultTypes().front()).getShape();
  SmallVector<SmallVector<int64_t>> shapes = readShapes(kernel);
  size_t axis = space.size();
  while (axis > 0 && llvm::all_of(shapes, [&](ArrayRef<int64_t> shape) {
           return isUniformFrom(shape, space, axis - 1);
         }))
    --axis;
  // Nothing is broadcast but scalars: one index is one element.
  if (axis == 0)
    return partition(product(space), 1, kColumnBlock);
  return partition(product(space.take_front(axis)),
                   product(space.drop_front(axis)));
}

// The first op of the kernel that `matches`; there is one in a valid kernel.
template <typename Predicate>
static Operation *findOp(func::FuncOp kernel, Predicate matches) {
  for (Operation &op : kernel.getBody().front())
    if (matches(&op))
      return &op;
  llvm_unreachable("the kernel has no hero op");
}

static ReductionSpace reductionSpaceOf(func::FuncOp kernel) {
  Operation *hero = findOp(
      kernel, [](Operation *op) { return getReducedAxes(op).has_value(); });
  return getReductionSpace(shapeOf(hero->getOperand(0)), *getReducedAxes(hero))
      .value();
}

static KernelPartition partitionColumns(const ReductionSpace &space) {
  // A slice owns whole blocks of columns, or whole groups of columns where
  // these are few.
  int64_t unit = std::min(space.inner, kColumnBlock);
  return partition(space.outer * space.inner, 1, unit,
                   kSliceElements / std::max<int64_t>(1, space.reduced));
}

static KernelPartition partitionContraction(func::FuncOp kernel) {
  ContractionSpace space =
      getContractionSpace(findOp(kernel, [](Operation *op) {
        auto candidate = dyn_cast<RegionOpInterface>(op);
        return candidate &&
               candidate.getRegionRole() == RegionRole::Contraction;
      }));
  KernelPartition result =
      partition(space.rows, space.columns * space.depth, 1, kSliceProducts);
  result.inner = space.columns;
  return result;
}

static KernelPartition partitionRows(func::FuncOp kernel) {
  ArrayRef<int64_t> space =
      cast<RankedTensorType>(kernel.getResultTypes().front()).getShape();
  if (space.empty())
    return {1, 1, 1};
  return partition(product(space.drop_back()), space.back());
}

KernelPartition mpc::getKernelPartition(func::FuncOp kernel) {
  switch (*getKernelKind(kernel)) {
  case KernelKind::Pointwise:
    return partitionPointwise(kernel);
  case KernelKind::RowReduce: {
    ReductionSpace space = reductionSpaceOf(kernel);
    return partition(space.outer, space.reduced);
  }
  case KernelKind::ColumnReduce:
    return partitionColumns(reductionSpaceOf(kernel));
  case KernelKind::Contraction:
    return partitionContraction(kernel);
  case KernelKind::Window:
  case KernelKind::Movement:
    return partitionRows(kernel);
  case KernelKind::Epilogue:
    break;
  }
  llvm_unreachable("an epilogue is called per tile");
}
