// Declares how the runtime calls compiled kernels.
//
// Kernels live in the text of an artifact, an ELF shared object, and are found
// by symbol name. A kernel allocates nothing, calls nothing of the runtime and
// keeps no state. It writes only to the buffers that its step lists, and to
// scratch memory.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_ABI_H
#define MPC_RUNTIME_ABI_H

#include <cstdint>

extern "C" {

/// A kernel of a `launch` step. `args[i]` points to the first byte of the
/// step's i-th buffer. The kernel does the work of the indices [begin, end) of
/// its parallel axis. `begin` is a multiple of the step's grain, so the slices
/// do not depend on the number of threads. `scratch` points to the step's
/// `scratch_bytes` bytes, at a multiple of 64. No other call uses this memory
/// while the kernel runs; its initial content is undefined. A kernel without
/// scratch bytes does not read `scratch`.
typedef void (*mpc_kernel_fn)(void *const *args, int64_t begin, int64_t end,
                              void *scratch);

/// The epilogue of a contraction step. Processes rows [row_begin, row_end) and
/// columns [col_begin, col_end) of the contraction's result. `args[0]` points
/// to the fp32 accumulator of element (row_begin, col_begin); the next row
/// starts `ld` elements further. The other args are whole buffers, as in
/// `mpc_kernel_fn`. Rows and columns index the whole result as one matrix. For
/// a matrix product, an element's offset by ldc and the batch strides of c,
/// divided by n, is its row. For an NHWC convolution, rows are pixels and
/// columns are channels.
typedef void (*mpc_epilogue_fn)(void *const *args, int64_t row_begin,
                                int64_t row_end, int64_t col_begin,
                                int64_t col_end, int64_t ld);
}

#endif // MPC_RUNTIME_ABI_H
