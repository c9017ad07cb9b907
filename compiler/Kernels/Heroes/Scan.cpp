// Sums along an axis that each depend on the one before: a slice owns lines,
// and a thread of a GPU takes a line at a time.
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
class Scan : public KernelHero {
public:
  RegionRole getRole() const override { return RegionRole::Scan; }
  Company getCompany() const override { return Company::None; }
  bool readsMemory() const override { return true; }
  KernelPartition partition(func::FuncOp kernel) const override;
  KernelPartition partition(func::FuncOp kernel,
                            const TargetInfo &gpu) const override;
};
} // namespace

// A slice owns whole cache lines of adjacent lines.
KernelPartition Scan::partition(func::FuncOp kernel) const {
  ScanSpace space = getScanSpace(kernel);
  return slice(space.outer * space.inner, space.size,
               std::min(space.inner, kColumnBlock));
}

KernelPartition Scan::partition(func::FuncOp kernel,
                                const TargetInfo &gpu) const {
  ScanSpace space = getScanSpace(kernel);
  int64_t lines = space.outer * space.inner;
  // Few lines are spread over blocks of few threads.
  int64_t threads = std::clamp<int64_t>(
      llvm::PowerOf2Ceil(llvm::divideCeilSigned(lines, kFewBlocks)), kWarp,
      kBlockThreads);
  return {lines, threads * countRounds(lines, threads), 1, threads, threads, 1};
}

const KernelHero &heroes::getScan() {
  static const Scan hero;
  return hero;
}
