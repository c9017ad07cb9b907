// SPDX-License-Identifier: Apache-2.0
#include "compiler/Analysis/KernelPartition.h"

#include "compiler/Analysis/KernelSegments.h"
#include "compiler/Analysis/TensorCoreTiling.h"
#include "compiler/Dialect/MPC/FilterLayout.h"
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
        int64_t taps = hasInputChannelsLast(op)
                           ? product(weight.drop_front().drop_back())
                           : product(weight.drop_front(2));
        return spaceOf(op.getDInput(),
                       weight[0] / static_cast<int64_t>(op.getGroup()) * taps);
      })
      .Case([](ConvWeightGradOp op) {
        ArrayRef<int64_t> weight = shapeOf(op.getDWeight());
        return ContractionSpace{weight[0], product(weight.drop_front()),
                                product(shapeOf(op.getDOutput())) / weight[0]};
      })
      .DefaultUnreachable("not a contraction");
}

SmallVector<MovedAxis> mpc::mergeAxes(ArrayRef<MovedAxis> axes) {
  SmallVector<MovedAxis> merged;
  for (MovedAxis axis : axes) {
    if (axis.size == 1)
      continue;
    if (!merged.empty() && merged.back().stride == axis.stride * axis.size)
      merged.back() = {merged.back().size * axis.size, axis.stride};
    else
      merged.push_back(axis);
  }
  return merged;
}

TransposeSpace mpc::getTransposeSpace(TransposeOp transpose) {
  ArrayRef<int64_t> input = shapeOf(transpose.getInput());
  SmallVector<int64_t> strides(input.size(), 1);
  for (size_t axis = input.size(); axis-- > 1;)
    strides[axis - 1] = strides[axis] * input[axis];
  SmallVector<MovedAxis> axes;
  for (auto [size, source] :
       llvm::zip_equal(shapeOf(transpose.getOutput()), transpose.getPerm()))
    axes.push_back({size, strides[source]});
  TransposeSpace space;
  if (!axes.empty())
    space.columns = axes.pop_back_val();
  space.rows = mergeAxes(axes);
  return space;
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
static constexpr int64_t kSliceProducts = 1 << 20;
/// Rows of a generated contraction that are summed at once, and those of the
/// gradient of a convolution's weights, which lie in the lanes of a vector.
static constexpr int64_t kRowBlock = 4, kWeightRowBlock = 8;

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

// The first axis from which on every operand is dense or one value; 0 where
// nothing is broadcast but scalars.
static size_t findUniformAxis(func::FuncOp kernel, ArrayRef<int64_t> space) {
  SmallVector<SmallVector<int64_t>> shapes = readShapes(kernel);
  size_t axis = space.size();
  while (axis > 0 && llvm::all_of(shapes, [&](ArrayRef<int64_t> shape) {
           return isUniformFrom(shape, space, axis - 1);
         }))
    --axis;
  return axis;
}

static ArrayRef<int64_t> resultShape(func::FuncOp kernel) {
  return cast<RankedTensorType>(kernel.getResultTypes().front()).getShape();
}

// The length of the parallel axis of a kernel with segments.
static int64_t segmentedExtent(func::FuncOp kernel, int64_t grain) {
  KernelSegment last = getKernelSegments(kernel, grain).back();
  return last.begin + last.size;
}

static KernelPartition partitionPointwise(func::FuncOp kernel) {
  if (isSegmented(kernel))
    return {segmentedExtent(kernel, kSliceElements), kSliceElements, 1};
  ArrayRef<int64_t> space = resultShape(kernel);
  size_t axis = findUniformAxis(kernel, space);
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

static Operation *findReduction(func::FuncOp kernel) {
  return findOp(kernel,
                [](Operation *op) { return getReducedAxes(op).has_value(); });
}

static ReductionSpace reductionSpaceOf(func::FuncOp kernel) {
  Operation *hero = findReduction(kernel);
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

static Operation *findContraction(func::FuncOp kernel) {
  return findOp(kernel, [](Operation *op) {
    auto candidate = dyn_cast<RegionOpInterface>(op);
    return candidate && candidate.getRegionRole() == RegionRole::Contraction;
  });
}

static KernelPartition partitionContraction(func::FuncOp kernel) {
  Operation *contraction = findContraction(kernel);
  ContractionSpace space = getContractionSpace(contraction);
  int64_t block =
      isa<ConvWeightGradOp>(contraction) ? kWeightRowBlock : kRowBlock;
  KernelPartition result =
      partition(space.rows, space.columns * space.depth, block, kSliceProducts);
  result.inner = space.columns;
  return result;
}

static KernelPartition partitionRows(func::FuncOp kernel) {
  ArrayRef<int64_t> space = resultShape(kernel);
  if (space.empty())
    return {1, 1, 1};
  return partition(product(space.drop_back()), space.back());
}

KernelPartition mpc::getKernelPartition(func::FuncOp kernel) {
  switch (*getKernelKind(kernel)) {
  case KernelKind::Pointwise:
    return partitionPointwise(kernel);
  case KernelKind::RowReduce: {
    if (isSegmented(kernel))
      return {segmentedExtent(kernel, 1), 1, 1};
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

//===----------------------------------------------------------------------===//
// Partition on a GPU
//===----------------------------------------------------------------------===//

/// Threads of a block unless there is a reason for another number: eight warps,
/// of which several blocks fit a multiprocessor.
static constexpr int64_t kBlockThreads = 256;
/// Threads of a block that reduces one long row: still enough registers.
static constexpr int64_t kWideBlockThreads = 512;
static constexpr int64_t kWarp = 32;
/// More blocks than this are no better balanced; each does more instead.
static constexpr int64_t kEnoughBlocks = 4096;
/// As many as fill every multiprocessor a few times.
static constexpr int64_t kFewBlocks = 1024;
/// With fewer rows than this, a block shares a row rather than a warp.
static constexpr int64_t kManyRows = 1024;

static int64_t divideCeil(int64_t x, int64_t y) {
  return llvm::divideCeilSigned(x, y);
}

/// How often a block does `work` indices, so that there are not too many.
static int64_t countRounds(int64_t extent, int64_t work,
                           int64_t enoughBlocks = kEnoughBlocks) {
  return std::max<int64_t>(1,
                           divideCeil(divideCeil(extent, work), enoughBlocks));
}

/// Elements of a vector such that the narrowest floats fill 16 bytes and runs
/// of `run` elements divide in whole vectors.
static int64_t vectorOf(func::FuncOp kernel, int64_t run,
                        const TargetInfo &target) {
  unsigned bits = 64;
  auto visit = [&](Type type) {
    auto tensor = cast<RankedTensorType>(type);
    if (isa<FloatType>(tensor.getElementType()) && tensor.getNumElements() > 1)
      bits = std::min(bits, tensor.getElementTypeBitWidth());
  };
  llvm::for_each(kernel.getArgumentTypes(), visit);
  llvm::for_each(kernel.getResultTypes(), visit);
  int64_t vector = target.getVectorBits() / bits;
  while (vector > 1 && run % vector != 0)
    vector /= 2;
  return vector;
}

/// `rows` rows of `columns` elements, each for as many threads as it has
/// vectors, up to the whole block.
static KernelPartition shareRows(int64_t rows, int64_t columns,
                                 int64_t vector) {
  int64_t lanes = std::min<int64_t>(
      llvm::PowerOf2Ceil(std::max<int64_t>(1, columns / vector)),
      kBlockThreads);
  int64_t teams = kBlockThreads / lanes;
  return {rows,    teams * countRounds(rows, teams),
          columns, kBlockThreads,
          lanes,   vector};
}

/// Whether every thread first computes in f64 what depends on the step alone;
/// then each should have several elements.
static bool hasCostlyScalars(func::FuncOp kernel) {
  return llvm::any_of(kernel.getBody().front(), [](Operation &op) {
    return isa<OptimizerOpInterface>(op);
  });
}

// One index is a row, for which there is a block.
static KernelPartition shareRowSegments(func::FuncOp kernel) {
  return {segmentedExtent(kernel, 1), 1, 1, kBlockThreads, kBlockThreads, 1};
}

// One index is one element. Optimizers' state is wide: vectors of four.
static KernelPartition shareSegments(func::FuncOp kernel,
                                     const TargetInfo &target) {
  int64_t vector = std::min<int64_t>(4, vectorOf(kernel, 0, target));
  int64_t grain = kBlockThreads * vector;
  int64_t blocks = divideCeil(segmentedExtent(kernel, grain), grain);
  grain *= divideCeil(blocks, kEnoughBlocks);
  return {segmentedExtent(kernel, grain),
          grain,
          1,
          kBlockThreads,
          kBlockThreads,
          vector};
}

static KernelPartition sharePointwise(func::FuncOp kernel,
                                      const TargetInfo &target) {
  if (isSegmented(kernel))
    return shareSegments(kernel, target);
  ArrayRef<int64_t> space = resultShape(kernel);
  int64_t elements = product(space);
  size_t uniform = findUniformAxis(kernel, space);
  if (uniform == 0) {
    // One index is one element. A remainder is done element by element.
    int64_t vector = vectorOf(kernel, 0, target);
    int64_t block = kBlockThreads * vector;
    int64_t enough = hasCostlyScalars(kernel) ? kFewBlocks : kEnoughBlocks;
    int64_t grain = block * countRounds(elements, block, enough);
    return {elements, grain, 1, kBlockThreads, kBlockThreads, vector};
  }
  // As few trailing axes as keep a block busy, so that there are many rows.
  size_t axis = space.size() - 1;
  while (axis > uniform &&
         product(space.drop_front(axis)) < kBlockThreads * kWarp)
    --axis;
  int64_t inner = product(space.drop_front(axis));
  return shareRows(
      elements / inner, inner,
      vectorOf(kernel, space.back() == 1 ? inner : space.back(), target));
}

static KernelPartition shareRowReduction(func::FuncOp kernel,
                                         const TargetInfo &target) {
  if (isSegmented(kernel))
    return shareRowSegments(kernel);
  ReductionSpace space = reductionSpaceOf(kernel);
  int64_t vector = vectorOf(kernel, space.reduced, target);
  int64_t vectors = divideCeil(space.reduced, vector);
  // A team is a part of a warp, or a block, which takes shared memory.
  bool byBlock =
      vectors > 8 * kWarp || (vectors >= 2 * kWarp && space.outer < kManyRows);
  if (byBlock) {
    int64_t threads = vectors > 4 * kWideBlockThreads ? kWideBlockThreads
                      : vectors >= kBlockThreads      ? kBlockThreads
                                                      : 2 * kWarp;
    return {space.outer,   divideCeil(space.outer, kEnoughBlocks),
            space.reduced, threads,
            threads,       vector};
  }
  KernelPartition result = shareRows(space.outer, space.reduced, vector);
  result.lanes = std::min(result.lanes, kWarp);
  int64_t teams = result.threads / result.lanes;
  result.grain = teams * countRounds(space.outer, teams);
  return result;
}

// One index is a block of columns, as wide as a warp reads at once; the teams
// share what is reduced.
static KernelPartition shareColumns(func::FuncOp kernel,
                                    const TargetInfo &target) {
  ReductionSpace space = reductionSpaceOf(kernel);
  // A vector must not reach beyond the last axis, whichever axes are merged.
  ArrayRef<int64_t> shape = shapeOf(findReduction(kernel)->getOperand(0));
  while (!shape.empty() && shape.back() == 1)
    shape = shape.drop_back();
  int64_t run = space.inner == 1 ? 1 : shape.back();
  int64_t vector = vectorOf(kernel, run, target);
  int64_t vectors = space.inner / vector;
  // Half a warp reads whole cache lines already. Two threads still read all of
  // what memory gives at once, which is worth it where there are few blocks.
  int64_t lanes = std::min<int64_t>(llvm::PowerOf2Ceil(vectors), kWarp / 2);
  while (lanes > 2 && space.outer * divideCeil(vectors, lanes) < kFewBlocks / 4)
    lanes /= 2;
  int64_t threads = kBlockThreads;
  while (threads > kWarp && threads / lanes > space.reduced)
    threads /= 2;
  return {space.outer * divideCeil(vectors, lanes),
          1,
          space.inner,
          threads,
          std::min(lanes, threads),
          vector};
}

static KernelPartition shareMovement(func::FuncOp kernel,
                                     const TargetInfo &target) {
  ArrayRef<int64_t> shape = resultShape(kernel);
  if (shape.empty())
    return {1, 1, 1, kWarp, kWarp, 1};
  if (auto transpose =
          dyn_cast<TransposeOp>(kernel.getBody().front().front())) {
    TransposeSpace space = getTransposeSpace(transpose);
    if (space.turnsMatrices()) {
      int64_t rows = space.rows.back().size;
      int64_t matrices = product(shape) / (rows * space.columns.size);
      int64_t tiles = divideCeil(rows, kTransposeTile) *
                      divideCeil(space.columns.size, kTransposeTile);
      return {matrices * tiles, 1, space.columns.size, kBlockThreads, kWarp, 1};
    }
  }
  return shareRows(product(shape.drop_back()), shape.back(),
                   vectorOf(kernel, shape.back(), target));
}

// On Tensor Cores one index is a tile of the result, elsewhere a row of it.
static KernelPartition shareContraction(func::FuncOp kernel,
                                        const TargetInfo &target) {
  Operation *hero = findContraction(kernel);
  if (std::optional<TensorCoreTiling> tiling =
          getTensorCoreTiling(hero, target)) {
    int64_t threads = tiling->getThreads();
    return {tiling->getTileCount(),
            1,
            tiling->blockM * tiling->blockN,
            threads,
            threads,
            1};
  }
  ContractionSpace space = getContractionSpace(hero);
  return shareRows(space.rows, space.columns, 1);
}

static KernelPartition getGPUPartition(func::FuncOp kernel,
                                       const TargetInfo &target) {
  switch (*getKernelKind(kernel)) {
  case KernelKind::Pointwise:
    return sharePointwise(kernel, target);
  case KernelKind::RowReduce:
    return shareRowReduction(kernel, target);
  case KernelKind::ColumnReduce:
    return shareColumns(kernel, target);
  case KernelKind::Contraction:
    return shareContraction(kernel, target);
  case KernelKind::Window: {
    ArrayRef<int64_t> shape = resultShape(kernel);
    return shareRows(product(shape.drop_back()), shape.back(),
                     vectorOf(kernel, shape.back(), target));
  }
  case KernelKind::Movement:
    return shareMovement(kernel, target);
  case KernelKind::Epilogue:
    break;
  }
  llvm_unreachable("there are no epilogues on a GPU");
}

KernelPartition mpc::getKernelPartition(func::FuncOp kernel,
                                        const TargetInfo &target) {
  return target.isGPU() ? getGPUPartition(kernel, target)
                        : getKernelPartition(kernel);
}
