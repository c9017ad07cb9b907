// Kernels that process several shapes in one launch.
//
// An optimizer does the same little work for every parameter: a launch per
// parameter would cost more than the work. A kernel of kind pointwise or
// row_reduce may therefore hold regions of its kind instead of ops. Each region
// is a segment with its own shape, and processes its elements or rows as a
// separate kernel would. The kernel's parallel axis joins the axes of all
// segments, and each segment starts at a multiple of the grain. No slice is
// part of two segments.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_KERNELS_KERNELSEGMENTS_H
#define MPC_COMPILER_KERNELS_KERNELSEGMENTS_H

#include "compiler/Dialect/MPC/MPC.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mpc {

/// The indices [begin, begin + size) of a segmented kernel's parallel axis.
struct KernelSegment {
  RegionOp region;
  int64_t begin = 0, size = 0;
};

/// True if the kernel has segments.
bool isSegmented(mlir::func::FuncOp kernel);

/// Returns the segments of a kernel with slices of `grain` indices.
llvm::SmallVector<KernelSegment> getKernelSegments(mlir::func::FuncOp kernel,
                                                   int64_t grain);

/// Returns the length of a segmented kernel's parallel axis.
int64_t getSegmentedExtent(mlir::func::FuncOp kernel, int64_t grain);

/// Copies the region's body into `kernel`, a declaration with the region's
/// signature.
void cloneBody(RegionOp region, mlir::func::FuncOp kernel);

/// True if a pointwise region can be a segment: every tensor in the region has
/// the shape of the results or a single element, and no op depends on the
/// position of an element.
bool canBeSegment(RegionOp region);

/// True if two pointwise segments differ in tensor sizes alone. The same code
/// can then do both.
bool computeAlike(RegionOp a, RegionOp b);

} // namespace mpc

#endif // MPC_COMPILER_KERNELS_KERNELSEGMENTS_H
