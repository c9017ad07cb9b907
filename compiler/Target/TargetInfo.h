// Answers what a target can execute. Passes ask these questions and never
// compare names of CPUs.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_TARGET_TARGETINFO_H
#define MPC_COMPILER_TARGET_TARGETINFO_H

#include "mlir/IR/Types.h"
#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <string>

namespace mpc {

/// A CPU or GPU to compile for. CPU code is generated for baseline x86-64 plus
/// the listed features; a particular CPU only decides the order of
/// instructions. So an artifact requires exactly these features. GPU code is
/// generated for a compute capability such as sm_90; the only feature is the
/// version of PTX.
class TargetInfo {
public:
  /// The alignment in bytes that GPU kernels expect of buffers.
  static constexpr int64_t kGPUAlignment = 16;

  /// Returns the target of a `--target` name: a level of CPUs such as x86-64-v3
  /// or zen5, or the architecture of a GPU such as sm_90. `native` is the CPU
  /// of this machine, which in a virtual machine may have fewer features than
  /// the name suggests.
  static llvm::Expected<TargetInfo> get(llvm::StringRef name);

  /// Returns all names that `get` accepts.
  static llvm::ArrayRef<llvm::StringLiteral> getNames();

  llvm::StringRef getName() const { return name; }
  llvm::StringRef getTriple() const {
    return gpu ? "nvptx64-nvidia-cuda" : "x86_64-unknown-linux-gnu";
  }

  /// True if the target is a GPU. GPU kernels run as blocks of many threads,
  /// which load and store vectors but compute element by element.
  bool isGPU() const { return gpu; }

  /// True if contraction libraries call a generated kernel, the epilogue, on
  /// every finished tile of the result (runtime/ABI.h). Otherwise the library
  /// itself or a later kernel computes what follows the product.
  bool callsEpilogues() const { return !gpu; }

  /// True if a kernel over rows can also sum columns: one thread computes a
  /// slice of the rows, and keeps one sum per column in cache.
  bool addsColumnsBesideRows() const { return !gpu; }

  /// True if the library of matrix products can sum an operand while packing it
  /// for AMX, at no cost in memory traffic.
  bool sumsOperands() const { return hasAMX(); }

  /// True if launching a kernel takes as long as running a small kernel.
  bool hasCostlyLaunches() const { return gpu; }

  /// Returns the nanoseconds from the start of a small kernel to the start of
  /// the next one in a captured graph; 0 on a CPU, where launches are calls.
  double getLaunchTime() const { return gpu ? 2000 : 0; }

  /// Returns the nanoseconds that each further library call costs if a product
  /// is split into several calls on a GPU: the start, idle multiprocessors at
  /// the end, and the gap after the call. On an H100 a call of 16 products of
  /// 512 x 64 by 64 x 512 elements takes 7.5 to 9.6 us plus the gap, of which
  /// memory needs 3.5 to 6.3 us (docs/measured/gpu.md). 0 on a CPU.
  double getCallTime() const { return gpu ? 5000 : 0; }

  /// Returns the nanoseconds that the memory of a GPU needs for `bytes`, by the
  /// data sheet of the architecture's usual GPU in data centres: an H100 for
  /// sm_90. 0 on a CPU, where no caller uses the result.
  double getMemoryTime(int64_t bytes) const;

  /// Returns the nanoseconds that a GPU's Tensor Cores need for `operations`
  /// multiplications and additions of 16-bit numbers. Only the rate of sm_90
  /// was measured, on an H100. `aligned` means that rows are multiples of 16
  /// bytes. 0 on a CPU.
  double getTensorCoreTime(double operations, bool aligned) const;

  /// Returns the most buffers that a kernel may have. A GPU passes the buffers'
  /// addresses in 4 KiB of parameters.
  unsigned getMaxKernelBuffers() const { return gpu ? 512 : ~0u; }

  /// Returns the number of threads that execute together and exchange registers
  /// (a warp); 1 on a CPU.
  unsigned getWarpSize() const { return gpu ? 32 : 1; }

  /// Returns the CPU for whose instruction costs LLVM schedules code.
  llvm::StringRef getTuneCPU() const { return tuneCPU; }

  /// Returns the sorted features that generated code and contraction libraries
  /// may use, by LLVM's names. The machine that runs the artifact must have all
  /// of the features.
  llvm::ArrayRef<std::string> getFeatures() const { return features; }
  bool hasFeature(llvm::StringRef feature) const;

  /// Returns the features as LLVM expects them: "+avx,+avx2,...".
  std::string getFeatureString() const;

  /// Returns the bits of the widest vector register worth using; on a GPU, of a
  /// thread's widest load or store.
  unsigned getVectorBits() const;

  /// True if f32 -> bf16 is one instruction, not a sequence of integer
  /// instructions.
  bool hasNativeBF16Conversion() const;

  /// True if f16 <-> f32 are instructions, not library calls.
  bool hasNativeF16Conversion() const;

  /// True if f32 fused multiply-add is an instruction, not a library call.
  bool hasNativeFMA() const;

  /// True if matrix products of this element type are at least as fast as those
  /// of f32. Always true for f32 and f64.
  bool hasNativeContraction(mlir::Type elementType) const;

  /// True if the CPU has AMX, which multiplies tiles of bf16.
  bool hasAMX() const { return hasFeature("amx-bf16"); }

private:
  std::string name, tuneCPU;
  bool gpu = false;
  llvm::SmallVector<std::string> features;
};

} // namespace mpc

#endif // MPC_COMPILER_TARGET_TARGETINFO_H
