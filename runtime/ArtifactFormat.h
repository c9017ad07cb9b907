// The .mpc file: names and the plan's schema, shared by the compiler's
// ArtifactWriter and the runtime's reader.
//
// A .mpc file is an ELF shared object, so readelf, objdump, perf and gdb work
// on it. Behind the kernels' text it has three sections, which are not loaded
// with it and may have any size (objcopy --dump-section extracts them):
//
//   .mpc.plan    the plan, JSON (UTF-8), schema below
//   .mpc.data    initial values and constants, raw little-endian bytes; every
//                entry starts at a multiple of 64 bytes
//   .mpc.digest  XXH3-64 (8 bytes, little-endian) over the whole file with
//                these eight bytes taken as zero
//
// An artifact for a GPU has no text. Its kernels are in two more sections, of
// which the second is optional:
//
//   .mpc.ptx     PTX, one module for all functions, ended by a zero byte
//   .mpc.cubin   the same assembled for exactly the target's "cpu"
//
// The runtime reads and checks these from the mapped file, without executing
// anything, and calls dlopen only on a file that passed.
//
// The plan. Every field is there unless it says optional, and a field that the
// reader does not know is an error, except in "model" and "recipe".
//
//   { "format": 2, "producer": "mpc 0.1.0",
//     "model": {"name", "hash", "opset"}, "precision": "bf16-mixed",
//     "recipe": {"loss": "softmax_cross_entropy", "optimizer": "adamw",
//                "accumulate": 1, "accumulate_reduction": "mean", ...},
//     "target": {"triple", "cpu", "features": ["avx512bf16", ...]},
//               (all the features the code needs, by LLVM's names; one that
//               runtime/cpu/CPUFeatures.cpp cannot detect counts as missing.
//               A triple of nvptx64 makes it a plan for a GPU, whose steps
//               have the fields marked GPU below and no others have.)
//     "constant_bytes": optional, default all: how much of .mpc.data, from its
//               start, is constants; all that is kept where steps read it
//     "state": [STATE...], "functions": {"step": FUNCTION, ...},
//     "kernels": {"relu": KERNEL, ...} }
//
// Roles, kinds and other words are enumerations of Names.h.
//
//   STATE     { "name", "role": "parameter|frozen|optimizer_state|average|
//                      statistic|loss_scale|counter|accumulator|derived" (an
//               average is that of the parameter "P" over the steps, called
//               "P.ema"),
//               "type": "f32", "shape": [..],
//               "init": {"offset", "bytes"} | {"fill": number} }
//   FUNCTION  { "arena_bytes", "inputs": [{"name", "role": "data|label|scalar",
//               "buffer", optional, of i32 and i64: "indices": [{"begin":
//               [..], "end": [..], "size": n}, ...], elements from begin to
//               before end along each axis, which must be in [-n, n), or with
//               "label": true in [0, n) or what "ignored", optional, is, and
//               "batch_axis": the axis that samples are along if not 0, -1
//               where there is none}],
//               "outputs": [{"name", "role": "loss|sample_loss|
//               sample_weight|prediction|correct|grad_norm|finite|loss_scale|
//               output", "buffer"}],
//               "buffers": [BUFFER...], "steps": [STEP...] }
//   BUFFER    { "space": "arena|state|input|constant", "type", "shape",
//               "offset": byte offset into the arena or .mpc.data; for state
//               and inputs "index" says which, "offset" is optional }
//             Buffers may overlap (views, reuse); order of steps makes it safe.
//   KERNEL    { "reads": [TENSOR...], "writes": [TENSOR...],
//               "extent", "grain", CPU, optional: "scratch_bytes", GPU:
//               "threads", optional "shared_bytes" } or, of an epilogue,
//             { "reads", "writes", "rows", "columns" }
//             What the code of the kernel of that name is made for. A step that
//             calls it has just that: arguments of these types and shapes,
//             first those that it reads, then those that it writes; in a launch
//             the same numbers; of a contraction with an epilogue as many rows
//             and columns as the result has. What it writes is in the arena or
//             state, and overlaps none of the other arguments unless it is one
//             that it reads, as a whole.
//   TENSOR    { "type", "shape" }
//   STEP      one of, buffers given as indices into "buffers", each with
//             "name": the ONNX node it is reported under, "others": more
//             nodes that it computes, where there are any
//     {"op": "launch", "kernel", "args": [..], "extent", "grain",
//      CPU, optional: "scratch_bytes",
//      GPU: "threads", optional "shared_bytes"}
//         mpc_kernel_fn over [0, extent) in slices of grain, with scratch_bytes
//         (default 0) of memory for each worker. On a GPU one block of
//         `threads` threads does one slice, with shared_bytes (default 0) of
//         dynamic shared memory.
//     {"op": "matmul", "a", "b", "c": buffer | null, "batch", "m", "n", "k",
//      "trans_a", "trans_b", "lda", "ldb", "ldc", "stride_a", "stride_b",
//      "stride_c", "alpha", "tile_m", "tile_n",
//      "epilogue": {"kernel", "args": [..]} | null,
//      optional: "offset_a", "offset_b",
//      optional: "outer": {"extents", "a", "b", "c": [..]},
//      optional: "fused": FUSED,
//      GPU, optional: "compute": "f32|tf32|f64"}
//         c[b] = alpha * op(a[b]) op(b[b]); row-major, strides in elements, a
//         stride of 0 repeats the matrix. Matrices of a and b start at their
//         offset. "outer" has the axes of the batch around "batch", outermost
//         first, and the strides along them. fp32 accumulation whatever a, b
//         and c are. Work is sliced in tile_m x tile_n tiles of the result.
//         With an epilogue, c is null and "args" are the epilogue's args 1..n:
//         ldc, stride_c and outer's c are multiples of n and say which of its
//         rows each row of the product is.
//         On a GPU there is no epilogue, tile_m and tile_n are 0, and a and b
//         have one type: c is of that type or f32. "compute" (default f32) is
//         what products are computed and accumulated in: tf32 rounds f32
//         operands first, f64 is for f64 operands and no others are.
//   FUSED     {"kind", "bias" | "aux" | "bias_grad": those the kind names,
//              "unfused": optional, [STEP...], launches alone}
//             What the library does with p = alpha * op(a) op(b), batch 1:
//       bias           c = p + bias          bias: [n], of c's type
//       relu_bias      c = max(p + bias, 0), or 0 where that is NaN
//       relu_aux_bias  as relu_bias; writes aux, a bit p + bias > 0 an element
//       drelu          c = aux bit ? p : 0   reads aux
//       drelu_bgrad    as drelu; bias_grad: [n] = sum of c's rows
//       bgrad_a        c = p; bias_grad: [m] = op(a) summed along k; a is
//                      transposed
//       bgrad_b        c = p; bias_grad: [n] = op(b) summed along k; b is not
//                      transposed
//             A CPU does no others than bgrad_a and bgrad_b, with an epilogue
//             or without, and without "unfused"; bias_grad is f32. On a GPU it
//             has c's type. aux is u8, m rows of n bits padded to 128
//             (16 bytes); the order of bits within is the library's affair.
//             Where the library has no algorithm for the kind, it writes p to
//             c, and "unfused" makes c or bias_grad of that.
//     {"op": "conv", "kind": "forward|input_grad|weight_grad", "x", "w", "y":
//      buffer | null, "batch", "groups", "in_channels", "out_channels",
//      "in_spatial": [..], "out_spatial": [..], "kernel": [..], "strides":
//      [..], "dilations": [..], "pads_begin": [..], "pads_end": [..],
//      "epilogue": as above, GPU, optional: "compute": as above,
//      "filter_layout": "OIHW|OHWI"}
//         x and y in NHWC (N, spatial.., C), w in filter_layout, by default
//         OIHW (O, I, spatial..); OHWI is (O, spatial.., I). forward writes y,
//         input_grad reads y (its gradient) and writes x, weight_grad reads x
//         and y and writes w. The one that is written is null with an epilogue
//         (not for weight_grad, which has none). fp32 accumulation. On a GPU x,
//         w and y have one type.
//     {"op": "copy", "src", "dst", optional: "rows", "offset", "stride",
//      with these, optional: "row_bytes", "to_offset", "to_stride"}
//         Buffers of one type and size; or, not on a GPU, "rows" of src, the
//         first "offset" bytes from its begin and each "stride" bytes behind
//         the one before it. They fill dst, side by side; or are "row_bytes"
//         long and go to dst by "to_offset" and "to_stride".
//     {"op": "check_indices", "buffer", "indices": [BOX...]}
//         the run ends with an error where an integer of a box is not in
//         [-size, size)
//     {"op": "if", "predicate": i1 scalar buffer, "then": [STEP...],
//      optional: "else": [STEP...]}
//         not on a GPU, where a function is captured once and replayed
//     {"op": "for", "count": N, "moving": [{"buffer": I, "bytes": B}, ...],
//      CPU, optional: "private": {"offset", "bytes"}, "steps": [STEP...]}
//         the steps N times; buffer I, which lies at its offset in the first
//         iteration, lies B bytes further on (or back) in each of the others.
//         With "private", a range of the arena, iterations may run at the same
//         time, each in a range of its own: they write nothing else but what
//         moves, and find nothing there that another left.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_ARTIFACTFORMAT_H
#define MPC_RUNTIME_ARTIFACTFORMAT_H

#include <cstddef>
#include <cstdint>
#include <initializer_list>

namespace mpc::format {

inline constexpr int64_t kVersion = 2;
inline constexpr char kPlanSection[] = ".mpc.plan";
inline constexpr char kDataSection[] = ".mpc.data";
inline constexpr char kDigestSection[] = ".mpc.digest";
inline constexpr char kPTXSection[] = ".mpc.ptx";
inline constexpr char kCubinSection[] = ".mpc.cubin";
inline constexpr size_t kDataAlignment = 64;

/// Extents of contractions stay below this, so that products of two of them
/// and an element size fit 64 bits, and the library's 32-bit fields hold them.
inline constexpr int64_t kMaxExtent = (int64_t(1) << 31) - 1;

/// Whether libraries, which step through an axis of a convolution's input, and
/// once beyond it, in 32 bits, can do so.
constexpr bool canStepThrough(int64_t extent, int64_t padsBegin,
                              int64_t padsEnd, int64_t stride) {
  int64_t room = kMaxExtent;
  for (int64_t part : {extent, padsBegin, padsEnd, stride}) {
    if (part < 0 || part > room)
      return false;
    room -= part;
  }
  return true;
}

} // namespace mpc::format

#endif // MPC_RUNTIME_ARTIFACTFORMAT_H
