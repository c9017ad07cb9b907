// Kernels of several shapes in one launch.
//
// What an optimizer does is the same for every parameter, and for most of them
// little: one launch each costs more than the work. A kernel of kind pointwise
// or row_reduce may hold regions of its kind instead of ops; each is a segment
// with a shape of its own, over whose elements or rows it runs as a kernel of
// its own would. The parallel axis of the whole is that of all segments, one
// after the other, each starting at a multiple of the grain, so that no slice
// is part of two.
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

/// Whether the kernel's body holds segments.
bool isSegmented(mlir::func::FuncOp kernel);

/// The segments of a kernel whose slices are `grain` indices.
llvm::SmallVector<KernelSegment> getKernelSegments(mlir::func::FuncOp kernel,
                                                   int64_t grain);

/// The length of the parallel axis of such a kernel.
int64_t getSegmentedExtent(mlir::func::FuncOp kernel, int64_t grain);

/// Gives `kernel`, a declaration with the region's signature, its body.
void cloneBody(RegionOp region, mlir::func::FuncOp kernel);

/// Whether a pointwise region can be a segment: every tensor it reads or makes
/// has all its elements or a single one.
bool canBeSegment(RegionOp region);

/// Whether two pointwise segments do the same to tensors of different sizes, so
/// that one piece of code can do both.
bool computeAlike(RegionOp a, RegionOp b);

} // namespace mpc

#endif // MPC_COMPILER_KERNELS_KERNELSEGMENTS_H
