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
// For profilers, NodesFormat.h describes one more section, also optional.
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
//               ("features" lists every CPU feature that the code needs, by
//               LLVM's name. A feature that runtime/cpu/CPUFeatures.cpp cannot
//               detect counts as missing. A triple of nvptx64 means a plan for
//               a GPU. Only the steps of such a plan have the fields for GPUs.)
//     "constant_bytes": optional. The size of the constants, which come first
//               in .mpc.data; steps read them in place. Default: all of it.
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
//               optional, of i32 and i64: "indices": [IndexBox...],
//               optional: "batch_axis" }
//             "batch_axis" is the axis along which samples lie, by default 0.
//             It is -1 if the input has no such axis.
//   BUFFER    { "space": "arena|state|input|constant", "type", "shape",
//               "offset": byte offset into the arena or .mpc.data. For state
//               and inputs, "index" is the number of the variable or input,
//               and "offset" is optional }
//             Buffers may overlap (views, reuse); the order of steps makes
//             overlap safe.
//   KERNEL    { "reads": [TENSOR...], "writes": [TENSOR...], fields of
//               KernelWork } or, for an epilogue,
//             { "reads", "writes", "rows", "columns" }
//             The arguments and sizes that the code of the kernel is made for.
//             A step that calls the kernel must match exactly. The step lists
//             the arguments that the kernel reads, then the arguments that it
//             writes, with these types and shapes. A launch repeats the fields
//             of KernelWork. A contraction with an epilogue has a result of
//             "rows" x "columns". Written arguments are in the arena or the
//             state. A written argument may be the same buffer as a read
//             argument; any other overlap is an error.
//   TENSOR    { "type", "shape" }
//   STEP      {"op", "name", optional: "others", fields of the op}
//             PlanSchema.def states the fields of each op. Steps refer to
//             buffers by indices into "buffers".
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

/// True if a library can count the positions of a padded axis of a
/// convolution's input, and one stride beyond the end, with 32-bit integers.
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
