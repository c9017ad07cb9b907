// Divides kernels that have become too large, for RegionAnalysis alone.
//
// What a model computes elementwise may be thousands of ops long. In one kernel
// they would be a piece of code that takes longer to compile than to run, keeps
// more values than there are registers, and reads more buffers than a kernel
// can be given. So it becomes several, cut where the least passes from one to
// the next.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_REGIONS_REGIONSPLIT_H
#define MPC_COMPILER_REGIONS_REGIONSPLIT_H

#include "compiler/Regions/RegionAnalysis.h"

namespace mpc {

/// The most ops of a kernel, and the most buffers that it reads and writes: an
/// epilogue is given fewer than 128 by the runtime.
inline constexpr size_t kMaxRegionOps = 64, kMaxRegionBuffers = 96;

/// Splits `region` into kernels within these limits, in an order in which they
/// can run. A region within the limits comes back alone. Ops are in program
/// order.
llvm::SmallVector<KernelRegion> splitRegion(KernelRegion region);

} // namespace mpc

#endif // MPC_COMPILER_REGIONS_REGIONSPLIT_H
