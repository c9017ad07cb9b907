// Generated kernels for matrix products and convolutions, with their epilogues.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Kernels/Heroes/Heroes.h"
#include "compiler/Kernels/Heroes/Partitions.h"
#include "compiler/Kernels/KernelSpace.h"
#include "compiler/Kernels/ProductBlocks.h"
#include "compiler/Kernels/TensorCoreTiling.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::heroes;

namespace {
class ContractionHero : public KernelHero {
public:
  RegionRole getRole() const override { return RegionRole::Contraction; }
  Company getCompany() const override { return Company::Elementwise; }
  Growth getGrowth() const override { return Growth::Epilogue; }
  bool readsMemory() const override { return true; }
  bool storesArranged() const override { return true; }
  bool writesWhereItReads(func::FuncOp kernel,
                          const TargetInfo &target) const override;
  LogicalResult verify(Operation *hero) const override;
  KernelPartition partition(func::FuncOp kernel) const override;
  KernelPartition partition(func::FuncOp kernel,
                            const TargetInfo &gpu) const override;
};
} // namespace

LogicalResult ContractionHero::verify(Operation *hero) const {
  for (Value operand : hero->getOperands())
    if (!isa<BlockArgument>(operand))
      return hero->emitOpError("expected to read only inputs of its region, "
                               "found the result of ")
             << operand.getDefiningOp()->getName();
  if (isa<MatMulOp>(hero))
    return success();
  auto conv = dyn_cast<LayoutOpInterface>(hero);
  if (!conv)
    return hero->emitOpError("expected a matrix product or a convolution, run "
                             "mpc-split-contractions first");
  if (conv.getActivationLayout() != Layout::NHWC)
    return hero->emitOpError("expected layout NHWC, found ")
           << stringifyLayout(conv.getActivationLayout())
           << ", run mpc-convert-layout first";
  if (auto conv = dyn_cast<ConvOp>(hero); conv && conv.getBias())
    return hero->emitOpError("expected no bias, run mpc-split-contractions "
                             "first");
  return success();
}

// True if a single worker (CPU) or thread (Tensor Cores) computes each element.
// Other GPU kernels for products share rows among threads.
bool ContractionHero::writesWhereItReads(func::FuncOp kernel,
                                         const TargetInfo &target) const {
  Block &body = kernel.getBody().front();
  Operation *product = findContraction(body);
  bool hasOwner =
      !target.isGPU() || (product && getTensorCoreTiling(product, target));
  return hasOwner &&
         llvm::none_of(body, [](Operation &op) { return isArrangement(&op); });
}

/// The multiply-adds that a slice of the CPU kernel performs, about.
static constexpr int64_t kSliceProducts = 1 << 20;
/// Slices have a multiple of this many rows of the result, because the loops
/// sum this many rows at once. For a convolution's weight gradient, the rows
/// lie in the lanes of a vector.
static constexpr int64_t kRowBlock = 4, kWeightRowBlock = 8;

// One index of the parallel axis is a tile of a large product, or a row of any
// other contraction.
KernelPartition ContractionHero::partition(func::FuncOp kernel) const {
  Operation *hero = findContraction(kernel.getBody().front());
  if (std::optional<ProductBlocks> blocks = getProductBlocks(hero)) {
    KernelPartition tiles{blocks->countTiles(), 1,
                          blocks->rows * blocks->columns};
    tiles.scratch = blocks->getScratchBytes();
    return tiles;
  }
  ContractionSpace space =
      cast<ContractionOpInterface>(hero).getContractionSpace();
  int64_t block = isa<ConvWeightGradOp>(hero) ? kWeightRowBlock : kRowBlock;
  KernelPartition result =
      slice(space.rows, space.columns * space.depth, block, kSliceProducts);
  result.inner = space.columns;
  return result;
}

// On Tensor Cores, one index of the parallel axis is a tile of the result;
// otherwise one index is a row.
KernelPartition ContractionHero::partition(func::FuncOp kernel,
                                           const TargetInfo &gpu) const {
  Operation *hero = findContraction(kernel.getBody().front());
  if (std::optional<TensorCoreTiling> tiling = getTensorCoreTiling(hero, gpu)) {
    int64_t threads = tiling->getThreads();
    return {tiling->getTileCount(),
            1,
            tiling->blockM * tiling->blockN,
            threads,
            threads,
            1,
            tiling->getSharedBytes()};
  }
  ContractionSpace space =
      cast<ContractionOpInterface>(hero).getContractionSpace();
  return shareRows(space.rows, space.columns, 1);
}

const KernelHero &heroes::getContraction() {
  static const ContractionHero hero;
  return hero;
}
