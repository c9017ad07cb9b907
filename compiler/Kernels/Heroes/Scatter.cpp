// Scatters: write each row of updates into the result, at the row that an index
// names. A CPU slice owns rows of the result along the scattered axis, and
// applies all updates of its rows. Each element thus receives its updates in
// order and without atomics. If indices are unique, a slice owns rows of
// updates instead, and the result's buffer already holds the updated tensor's
// elements.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Kernels/Heroes/Heroes.h"
#include "compiler/Kernels/Heroes/Partitions.h"
#include "compiler/Kernels/KernelSpace.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::heroes;

namespace {
class ScatterHero : public KernelHero {
public:
  RegionRole getRole() const override { return RegionRole::Scatter; }
  Company getCompany() const override { return Company::Elementwise; }
  Growth getGrowth() const override { return Growth::Updates; }
  LogicalResult verify(Operation *hero) const override;
  KernelPartition partition(func::FuncOp kernel) const override;
  KernelPartition partition(func::FuncOp kernel,
                            const TargetInfo &gpu) const override;
};
} // namespace

// The kernel iterates over the shape of the updates, but the data has the
// result's shape. The data must be an input of the region or a constant.
LogicalResult ScatterHero::verify(Operation *hero) const {
  auto scatter = cast<ScatterOpInterface>(hero);
  Value data = scatter.getDataOperand().get();
  if (scatter.hasUniqueIndices() && !isa<BlockArgument>(data))
    return hero->emitOpError("expected to write over an input of its region, "
                             "found the result of ")
           << data.getDefiningOp()->getName();
  if (isa<BlockArgument>(data) || data.getDefiningOp<ConstantOp>())
    return success();
  return hero->emitOpError("expected to start from an input of its region or a "
                           "constant, found the result of ")
         << data.getDefiningOp()->getName();
}

// Counts the rows that slices own: rows of updates if indices are unique,
// otherwise rows of the result.
static int64_t countRows(func::FuncOp kernel, const ScatterSpace &space) {
  bool isUnique = findScatter(kernel.getBody().front()).hasUniqueIndices();
  return space.outer * (isUnique ? space.updates : space.size);
}

KernelPartition ScatterHero::partition(func::FuncOp kernel) const {
  ScatterSpace space = getScatterSpace(kernel);
  return slice(countRows(kernel, space), space.inner);
}

// Gives each block many rows, so that there are few blocks: all threads of
// every block read all indices, even if rows are short. With unique indices, a
// block reads only the indices of its own updates.
KernelPartition ScatterHero::partition(func::FuncOp kernel,
                                       const TargetInfo &gpu) const {
  ScatterSpace space = getScatterSpace(kernel);
  ScatterOpInterface scatter = findScatter(kernel.getBody().front());
  int64_t rows = countRows(kernel, space);
  int64_t grain = countRounds(rows, 1, kFewBlocks);
  if (scatter.hasUniqueIndices()) {
    int64_t lanes = std::min<int64_t>(
        llvm::PowerOf2Ceil(std::max<int64_t>(kWarp, space.inner)),
        kBlockThreads);
    return {rows, grain, space.inner, lanes, lanes, 1};
  }
  // A row of the result may span several axes, but a vector must not cross the
  // end of the last axis.
  ArrayRef<int64_t> row =
      shapeOf(scatter->getResult(0)).drop_front(scatter.getScatteredAxis() + 1);
  while (!row.empty() && row.back() == 1)
    row = row.drop_back();
  int64_t vector = vectorOf(kernel, row.empty() ? 1 : row.back(), gpu);
  return {rows, grain, space.inner, kBlockThreads, kBlockThreads, vector};
}

const KernelHero &heroes::getScatter() {
  static const ScatterHero hero;
  return hero;
}
