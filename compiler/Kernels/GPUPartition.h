// How the threads of a GPU share the work of a kernel.
//
// A slice is a block of threads. They divide in teams of `lanes` adjacent ones:
// a team takes a row, its threads share the columns. The parallel axis is that
// of a CPU except in column reductions, where an index is a block of columns
// and the teams share what is reduced, and in transposes and products on Tensor
// Cores, where it is a tile of the result.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_KERNELS_GPUPARTITION_H
#define MPC_COMPILER_KERNELS_GPUPARTITION_H

#include "compiler/Kernels/KernelPartition.h"

namespace mpc {

/// The partition of `kernel`, which is of any kind but epilogue, on a GPU. Ask
/// getKernelPartition, which asks here.
KernelPartition getGPUPartition(mlir::func::FuncOp kernel,
                                const TargetInfo &target);

} // namespace mpc

#endif // MPC_COMPILER_KERNELS_GPUPARTITION_H
