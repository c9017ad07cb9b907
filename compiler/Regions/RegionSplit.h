// Splits kernels that have become too large, for RegionAnalysis alone.
//
// A model may have thousands of elementwise ops in a row. A single kernel would
// take longer to compile than to run. The kernel would keep more values than
// there are registers, and read more buffers than a kernel can receive. Large
// kernels are therefore split where the fewest elements have to be stored by
// one kernel and loaded by the next.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_REGIONS_REGIONSPLIT_H
#define MPC_COMPILER_REGIONS_REGIONSPLIT_H

#include "compiler/Regions/RegionAnalysis.h"

namespace mpc {

/// The most ops of a kernel, and the most buffers that a kernel reads and
/// writes. The runtime gives an epilogue fewer than 128 buffers.
inline constexpr size_t kMaxRegionOps = 64, kMaxRegionBuffers = 96;

/// Splits `region` into kernels within the limits, in an order in which the
/// kernels can run. A region within the limits is returned as the only kernel.
/// Expects ops in program order.
llvm::SmallVector<KernelRegion> splitRegion(KernelRegion region);

} // namespace mpc

#endif // MPC_COMPILER_REGIONS_REGIONSPLIT_H
