// Cumulative sums along an axis. A line is all elements along the summed axis
// at a fixed position of the other axes. A CPU slice owns adjacent lines; a GPU
// thread sums one line at a time.
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
class CumulativeHero : public KernelHero {
public:
  RegionRole getRole() const override { return RegionRole::Cumulative; }
  Company getCompany() const override { return Company::None; }
  bool readsMemory() const override { return true; }
  KernelPartition partition(func::FuncOp kernel) const override;
  KernelPartition partition(func::FuncOp kernel,
                            const TargetInfo &gpu) const override;
};
} // namespace

// Counts the lines; 0 if the summed axis has length 0.
static int64_t countLines(const CumulativeSpace &space) {
  return space.size == 0 ? 0 : space.outer * space.inner;
}

// A slice owns adjacent lines: at each position of the axis, the elements of
// the lines fill whole cache lines.
KernelPartition CumulativeHero::partition(func::FuncOp kernel) const {
  CumulativeSpace space = getCumulativeSpace(kernel);
  return slice(countLines(space), space.size,
               std::min(space.inner, kColumnBlock));
}

KernelPartition CumulativeHero::partition(func::FuncOp kernel,
                                          const TargetInfo &gpu) const {
  CumulativeSpace space = getCumulativeSpace(kernel);
  int64_t lines = countLines(space);
  // If there are few lines, use blocks of fewer threads, so that the lines
  // spread over more multiprocessors.
  int64_t threads = std::clamp<int64_t>(
      llvm::PowerOf2Ceil(llvm::divideCeilSigned(lines, kFewBlocks)), kWarp,
      kBlockThreads);
  return {lines, threads * countRounds(lines, threads), 1, threads, threads, 1};
}

const KernelHero &heroes::getCumulative() {
  static const CumulativeHero hero;
  return hero;
}
