// Elementwise ops over one shape, or over several shapes as segments
// (KernelSegments.h): the same kind of work for many small tensors.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Kernels/Heroes/Heroes.h"
#include "compiler/Kernels/Heroes/Partitions.h"
#include "compiler/Kernels/KernelSegments.h"
#include "compiler/Kernels/KernelSpace.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::heroes;

namespace {
class PointwiseHero : public KernelHero {
public:
  RegionRole getRole() const override { return RegionRole::Elementwise; }
  Company getCompany() const override { return Company::Heroes; }
  Growth getGrowth() const override { return Growth::Elementwise; }
  bool hasSegments() const override { return true; }
  bool loadsByElement() const override { return true; }
  bool loadsInAnyOrder() const override { return true; }
  bool storesJoined() const override { return true; }
  bool writesWhereItReads(func::FuncOp kernel,
                          const TargetInfo &) const override {
    return llvm::none_of(kernel.getBody().front(),
                         [](Operation &op) { return isa<TransposeOp>(op); });
  }
  KernelPartition partition(func::FuncOp kernel) const override;
  KernelPartition partition(func::FuncOp kernel,
                            const TargetInfo &gpu) const override;
};
} // namespace

KernelPartition PointwiseHero::partition(func::FuncOp kernel) const {
  if (isSegmented(kernel))
    return {getSegmentedExtent(kernel, kSliceElements), kSliceElements, 1};
  ArrayRef<int64_t> space = getElementShape(kernel);
  size_t axis = findUniformAxis(kernel, space);
  // Only scalars are broadcast, so an index is an element.
  if (axis == 0)
    return slice(ShapedType::getNumElements(space), 1, kColumnBlock);
  return slice(ShapedType::getNumElements(space.take_front(axis)),
               ShapedType::getNumElements(space.drop_front(axis)));
}

// True if every thread first computes scalars of the step in f64, such as a
// bias correction. A thread should then process several elements, to compute
// the scalars less often.
static bool hasCostlyScalars(func::FuncOp kernel) {
  return llvm::any_of(kernel.getBody().front(), [](Operation &op) {
    return isa<OptimizerOpInterface>(op);
  });
}

// One index of the parallel axis is an element. Vectors have at most four
// elements: the state of optimizers is f32, and four f32 are 16 bytes.
static KernelPartition shareSegments(func::FuncOp kernel,
                                     const TargetInfo &target) {
  int64_t vector = std::min<int64_t>(4, vectorOf(kernel, 0, target));
  int64_t grain = kBlockThreads * vector;
  int64_t blocks =
      llvm::divideCeilSigned(getSegmentedExtent(kernel, grain), grain);
  grain *= llvm::divideCeilSigned(blocks, kEnoughBlocks);
  return {getSegmentedExtent(kernel, grain),
          grain,
          1,
          kBlockThreads,
          kBlockThreads,
          vector};
}

// One index of the parallel axis is an element. Elements past the last whole
// vector are processed one by one.
static KernelPartition shareElements(func::FuncOp kernel, int64_t elements,
                                     const TargetInfo &target) {
  int64_t vector = vectorOf(kernel, 0, target);
  int64_t block = kBlockThreads * vector;
  int64_t enough = hasCostlyScalars(kernel) ? kFewBlocks : kEnoughBlocks;
  int64_t grain = block * countRounds(elements, block, enough);
  return {elements, grain, 1, kBlockThreads, kBlockThreads, vector};
}

// Shares rows among threads. For rows of more than a warp's vectors, chooses a
// number of threads that leaves few threads idle in the last round. 288 vectors
// get 288 threads: 256 threads would need a second round for the last 32
// vectors.
static KernelPartition shareWholeRows(int64_t rows, int64_t columns,
                                      int64_t vector) {
  constexpr int64_t mostThreads = 384;
  KernelPartition partition = shareRows(rows, columns, vector);
  int64_t vectors = columns / vector;
  if (vectors <= kWarp || vectors > 4 * kBlockThreads)
    return partition;
  int64_t rounds = llvm::divideCeilSigned(vectors, mostThreads);
  int64_t lanes = llvm::alignTo(llvm::divideCeilSigned(vectors, rounds), kWarp);
  int64_t done = llvm::alignTo(vectors, partition.lanes);
  if (lanes * rounds >= done)
    return partition;
  int64_t teams = std::max<int64_t>(1, kBlockThreads / lanes);
  partition.grain = teams * countRounds(rows, teams);
  partition.threads = teams * lanes;
  partition.lanes = lanes;
  return partition;
}

KernelPartition PointwiseHero::partition(func::FuncOp kernel,
                                         const TargetInfo &gpu) const {
  if (isSegmented(kernel))
    return shareSegments(kernel, gpu);
  ArrayRef<int64_t> space = getElementShape(kernel);
  int64_t elements = ShapedType::getNumElements(space);
  size_t uniform = findUniformAxis(kernel, space);
  if (uniform == 0)
    return shareElements(kernel, elements, gpu);
  // Treat the trailing axes as one row, just as many axes as keep a block busy.
  // Fewer joined axes leave more rows to share among blocks.
  size_t axis = space.size() - 1;
  while (axis > uniform && ShapedType::getNumElements(space.drop_front(axis)) <
                               kBlockThreads * kWarp)
    --axis;
  // Use at least 1: the product is 0 for a tensor without elements, and would
  // be a divisor below.
  int64_t inner =
      std::max<int64_t>(1, ShapedType::getNumElements(space.drop_front(axis)));
  return shareWholeRows(
      elements / inner, inner,
      vectorOfRows(kernel, space.back() == 1 ? inner : space.back(), gpu));
}

const KernelHero &heroes::getPointwise() {
  static const PointwiseHero hero;
  return hero;
}
