// What compiled code and the runtime agree on: how a kernel is called.
//
// Compiled kernels live in the text of an artifact (an ELF shared object) and
// are found by symbol name. They allocate nothing, call nothing of the runtime,
// keep no state and write only to the buffers a step lists and to scratch
// memory.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_ABI_H
#define MPC_RUNTIME_ABI_H

#include <cstdint>

extern "C" {

/// A kernel of a `launch` step. `args[i]` points to the first byte of the i-th
/// buffer of the step. The kernel does the work of the indices [begin, end) of
/// its parallel axis; `begin` is a multiple of the step's grain, so the
/// `begin / grain`-th slice of the work is the same whichever thread runs it.
/// `scratch` points to the step's `scratch_bytes` bytes, at a multiple of 64:
/// the kernel's own while it runs, of any content when it is called. It is not
/// read where the step declares none.
typedef void (*mpc_kernel_fn)(void *const *args, int64_t begin, int64_t end,
                              void *scratch);

/// The epilogue of a contraction step. `args[0]` points to the fp32 accumulator
/// of element (row_begin, col_begin), with `ld` elements from one row to the
/// next; the other args are whole buffers, as in `mpc_kernel_fn`. Rows and
/// columns are those of the contraction's result seen as a matrix: for a matrix
/// product (row, column) of the result that the step's strides of c describe,
/// as one matrix; for an NHWC
/// convolution (pixel, channel).
typedef void (*mpc_epilogue_fn)(void *const *args, int64_t row_begin,
                                int64_t row_end, int64_t col_begin,
                                int64_t col_end, int64_t ld);
}

#endif // MPC_RUNTIME_ABI_H
