// The .mpc file: names and the plan's schema, shared by the compiler's
// ArtifactWriter and the runtime's reader.
//
// A .mpc file is an ELF shared object, so readelf, objdump, perf and gdb work
// with it. Three sections follow the kernels' text. The loader skips these
// sections, so any size is fine. objcopy --dump-section extracts them:
//
//   .mpc.plan    The plan, JSON (UTF-8), with the schema below.
//   .mpc.data    Initial values and constants, raw little-endian bytes. Every
//                entry starts at a multiple of 64 bytes.
//   .mpc.digest  XXH3-64 (8 bytes, little-endian) over the whole file, with
//                these eight bytes taken as zero.
//
// An artifact for a GPU has no text. Its kernels are in two more sections; the
// second is optional:
//
//   .mpc.ptx     PTX, one module for all functions, ended by a zero byte.
//   .mpc.cubin   The PTX, assembled for exactly the target's "cpu".
//
// The runtime reads and checks the sections in the mapped file, without
// executing anything. Only a file that passed the checks is loaded with dlopen.
//
// The plan. Every field is required unless marked optional. An unknown field is
// an error, except in "model" and "recipe".
//
//   { "format": 2, "producer": "mpc 0.1.0",
//     "model": {"name", "hash", "opset"}, "precision": "bf16-mixed",
//     "recipe": {"loss": "softmax_cross_entropy", "optimizer": "adamw",
//                "accumulate": 1, "accumulate_reduction": "mean", ...},
//     "target": {"triple", "cpu", "features": ["avx512bf16", ...]},
//               (Features are all that the code needs, by LLVM's names. A
//               feature that runtime/cpu/CPUFeatures.cpp cannot detect counts
//               as missing. A triple of nvptx64 means a plan for a GPU. Only
//               its steps have the fields marked GPU below.)
//     "constant_bytes": optional. The size of the constants, which come first
//               in .mpc.data and stay where steps read them. Default: all.
//     "state": [STATE...], "functions": {"step": FUNCTION, ...},
//     "kernels": {"relu": KERNEL, ...} }
//
// Names.h defines the enumerations for roles, kinds and other words.
//
//   STATE     { "name", "role": "parameter|frozen|optimizer_state|average|
//                      statistic|loss_scale|counter|accumulator|derived",
//               "type": "f32", "shape": [..],
//               "init": {"offset", "bytes"} | {"fill": number} }
//             The average of the parameter "P" over the steps is called
//             "P.ema".
//   FUNCTION  { "arena_bytes", "inputs": [INPUT...],
//               "outputs": [{"name", "role": "loss|sample_loss|
//               sample_weight|prediction|correct|grad_norm|finite|loss_scale|
//               output", "buffer"}],
//               "buffers": [BUFFER...], "steps": [STEP...] }
//   INPUT     { "name", "role": "data|label|scalar", "buffer",
//               optional, of i32 and i64: "indices": [BOX...],
//               optional: "batch_axis" }
//             "batch_axis" is the axis along which samples lie, by default 0.
//             It is -1 if the input has no such axis.
//   BOX       { "begin": [..], "end": [..], "size": n, optional: "label": true,
//               "ignored" }
//             The elements from "begin" to before "end" along each axis must be
//             in [-n, n). Labels must be in [0, n) or equal to "ignored".
//   BUFFER    { "space": "arena|state|input|constant", "type", "shape",
//               "offset": byte offset into the arena or .mpc.data; for state
//               and inputs "index" selects which, "offset" is optional }
//             Buffers may overlap (views, reuse); the order of steps makes
//             overlap safe.
//   KERNEL    { "reads": [TENSOR...], "writes": [TENSOR...],
//               "extent", "grain", CPU, optional: "scratch_bytes", GPU:
//               "threads", optional "shared_bytes" } or, for an epilogue,
//             { "reads", "writes", "rows", "columns" }
//             The arguments and sizes that the code of the kernel is made for.
//             A step that calls the kernel must match exactly. Its arguments
//             have these types and shapes: first those read, then those
//             written. A launch has equal numbers. A contraction with an
//             epilogue has a result of "rows" x "columns". Written arguments
//             are in the arena or the state. They overlap no other argument,
//             unless they are equal to one that is read.
//   TENSOR    { "type", "shape" }
//   STEP      One of the following, with buffers as indices into "buffers".
//             "name" is the ONNX node that reports show for the step. "others",
//             optional, lists more nodes that the step computes.
//     {"op": "launch", "kernel", "args": [..], "extent", "grain",
//      CPU, optional: "scratch_bytes",
//      GPU: "threads", optional "shared_bytes"}
//          Calls mpc_kernel_fn over [0, extent) in slices of grain, with
//          scratch_bytes (default 0) of memory per worker. On a GPU a block of
//          `threads` threads does one slice, with shared_bytes (default 0) of
//          dynamic shared memory.
//     {"op": "matmul", "a", "b", "c": buffer | null, "batch", "m", "n", "k",
//      "trans_a", "trans_b", "lda", "ldb", "ldc", "stride_a", "stride_b",
//      "stride_c", "alpha", "tile_m", "tile_n",
//      "epilogue": {"kernel", "args": [..]} | null,
//      optional: "offset_a", "offset_b",
//      optional: "outer": {"extents", "a", "b", "c": [..]},
//      optional: "fused": FUSED,
//      GPU, optional: "compute": "f32|tf32|f64"}
//          c[b] = alpha * op(a[b]) op(b[b]). Matrices are row-major, strides
//          are in elements, and a stride of 0 repeats the matrix. The matrices
//          of a and b start at their offsets. "outer" has the batch axes around
//          "batch", outermost first, and the strides along them. Accumulates in
//          fp32 for all types of a, b and c. Work is divided into tiles of
//          tile_m x tile_n elements of the result.
//          With an epilogue, c is null and "args" are the epilogue's args 1..n.
//          Then ldc, stride_c and outer's c are multiples of n. They map each
//          row of the product to a row of the epilogue's result.
//          On a GPU there is no epilogue, and tile_m and tile_n are 0. There a
//          and b have one type, and c has that type or f32. "compute" (default
//          f32) is the type in which products are computed and accumulated.
//          tf32 rounds f32 operands first; f64 is for f64 operands, which
//          require it.
//   FUSED     {"kind", "bias" | "aux" | "bias_grad": as the kind requires,
//              "unfused": optional, [STEP...], launches only}
//             The operation that the library fuses with the product
//             p = alpha * op(a) op(b), for batch 1:
//       bias           c = p + bias          bias: [n], of c's type
//       relu_bias      c = max(p + bias, 0), or 0 if p + bias is NaN
//       relu_aux_bias  Like relu_bias. Also writes aux: per element, the bit
//                      p + bias > 0.
//       drelu          c = aux bit ? p : 0   reads aux
//       drelu_bgrad    Like drelu. Also bias_grad: [n] = sum of c's rows.
//       bgrad_a        c = p; bias_grad: [m] = op(a) summed along k. Requires a
//                      transposed a.
//       bgrad_b        c = p; bias_grad: [n] = op(b) summed along k. Requires a
//                      b that is not transposed.
//             A CPU supports only bgrad_a and bgrad_b, with or without an
//             epilogue, and without "unfused"; its bias_grad is f32. On a GPU
//             bias_grad has c's type. aux is u8: m rows of n bits, padded to
//             128 bits (16 bytes). The library chooses the order of the bits.
//             If the library has no algorithm for the kind, it writes p to c,
//             and the launches in "unfused" complete c or bias_grad.
//     {"op": "conv", "kind": "forward|input_grad|weight_grad", "x", "w", "y":
//      buffer | null, "batch", "groups", "in_channels", "out_channels",
//      "in_spatial": [..], "out_spatial": [..], "kernel": [..], "strides":
//      [..], "dilations": [..], "pads_begin": [..], "pads_end": [..],
//      "epilogue": as above, GPU, optional: "compute": as above,
//      "filter_layout": "OIHW|OHWI"}
//          x and y are NHWC (N, spatial.., C). w has filter_layout, by default
//          OIHW (O, I, spatial..); OHWI is (O, spatial.., I). forward writes y.
//          input_grad reads y (its gradient) and writes x. weight_grad reads x
//          and y and writes w, and has no epilogue. With an epilogue the
//          written operand is null. Accumulates in fp32. On a GPU x, w and y
//          have one type.
//     {"op": "copy", "src", "dst", optional: "rows", "offset", "stride",
//      with these, optional: "row_bytes", "to_offset", "to_stride"}
//          Copies between buffers of one type and size. On a CPU, may instead
//          copy "rows" rows of src: the first starts at byte "offset", each
//          next one "stride" bytes further. The rows fill dst side by side. Or
//          they have "row_bytes" bytes and are placed in dst by "to_offset" and
//          "to_stride".
//     {"op": "check_indices", "buffer", "indices": [BOX...]}
//          Ends the run with an error if an integer of a box is out of range.
//     {"op": "if", "predicate": i1 scalar buffer, "then": [STEP...],
//      optional: "else": [STEP...]}
//          Not on a GPU, where a function is captured once and replayed.
//     {"op": "for", "count": N, "moving": [{"buffer": I, "bytes": B}, ...],
//      CPU, optional: "private": {"offset", "bytes"}, "steps": [STEP...]}
//          Runs the steps N times. Buffer I starts at its offset, and moves B
//          bytes forward (or back) after each iteration. With "private", a
//          range of the arena, iterations may run at the same time, each in its
//          own copy of the range. Such iterations write nothing outside the
//          range but moving buffers, and read nothing there that another
//          iteration left.
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

/// The limit for extents of contractions. Products of two extents and an
/// element size then fit 64 bits, and each extent fits the 32-bit fields of
/// libraries.
inline constexpr int64_t kMaxExtent = (int64_t(1) << 31) - 1;

/// True if libraries can step through an axis of a convolution's input, and one
/// step beyond, in 32 bits.
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
