// Ops that move elements without computing: a transpose, concat, slice or pad.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Kernels/Heroes/Heroes.h"
#include "compiler/Kernels/Heroes/Partitions.h"
#include "compiler/Kernels/KernelSpace.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::heroes;

namespace {
class MovementHero : public KernelHero {
public:
  RegionRole getRole() const override { return RegionRole::Movement; }
  Company getCompany() const override { return Company::None; }
  bool readsMemory() const override { return true; }
  KernelPartition partition(func::FuncOp kernel) const override {
    return sliceRows(kernel);
  }
  KernelPartition partition(func::FuncOp kernel,
                            const TargetInfo &gpu) const override;
};
} // namespace

// Divides a transpose of matrices into tiles, a tile per block.
static KernelPartition shareTiles(const TransposeSpace &space,
                                  int64_t elements) {
  TransposeTile tile = getTransposeTile(space);
  int64_t rows = space.rows.back().size, columns = space.columns.size;
  int64_t matrices = elements / (rows * columns);
  int64_t tiles = llvm::divideCeilSigned(rows, tile.rows) *
                  llvm::divideCeilSigned(columns, tile.columns);
  int64_t threads = std::clamp<int64_t>(
      llvm::PowerOf2Ceil(tile.rows * tile.columns), kWarp, kBlockThreads);
  return {matrices * tiles, 1, columns, threads, threads, 1};
}

KernelPartition MovementHero::partition(func::FuncOp kernel,
                                        const TargetInfo &gpu) const {
  auto transpose = dyn_cast<TransposeOp>(kernel.getBody().front().front());
  if (!transpose || shapeOf(transpose.getOutput()).empty())
    return shareRows(kernel, gpu);
  TransposeSpace space = getTransposeSpace(transpose);
  if (!space.turnsMatrices())
    return shareRows(kernel, gpu);
  return shareTiles(space, ShapedType::getNumElements(getResultShape(kernel)));
}

const KernelHero &heroes::getMovement() {
  static const MovementHero hero;
  return hero;
}
