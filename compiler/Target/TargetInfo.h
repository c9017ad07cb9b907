// What a target can execute, answered by question: passes ask here and never
// compare CPU names.
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

/// A CPU or GPU to compile for. Code for a CPU is generated for a baseline
/// x86-64 plus the listed features and only scheduled for a CPU, so an
/// artifact's needs are exactly that list. Code for a GPU is generated for its
/// compute capability; its features are the version of PTX it is written in.
class TargetInfo {
public:
  /// What kernels for a GPU expect of the addresses they are given, in bytes.
  static constexpr int64_t kGPUAlignment = 16;

  /// The target of a `--target` name: native, x86-64, x86-64-v3, x86-64-v4,
  /// zen5, sapphirerapids, sm_80 or sm_90. `native` is what this machine's CPU
  /// offers, which on a virtual machine may be less than its name promises.
  static llvm::Expected<TargetInfo> get(llvm::StringRef name);

  /// All names `get` knows.
  static llvm::ArrayRef<llvm::StringLiteral> getNames();

  llvm::StringRef getName() const { return name; }
  llvm::StringRef getTriple() const {
    return gpu ? "nvptx64-nvidia-cuda" : "x86_64-unknown-linux-gnu";
  }

  /// Whether kernels run as blocks of many threads each, which load and store
  /// in vectors but compute element by element.
  bool isGPU() const { return gpu; }

  /// Whether contraction libraries call a kernel on every tile they finish
  /// (runtime/ABI.h); elsewhere what follows a product is theirs or a kernel's.
  bool callsEpilogues() const { return !gpu; }

  /// Whether kernels over rows can add up columns as well: a slice is done by
  /// one thread, whose caches keep a sum for each column meanwhile.
  bool addsColumnsBesideRows() const { return !gpu; }

  /// Whether the library of matrix products adds up an operand as it packs it
  /// for AMX, at no cost in memory.
  bool sumsOperands() const { return hasAMX(); }

  /// Whether a launch costs as much as a small kernel does.
  bool hasCostlyLaunches() const { return gpu; }

  /// Nanoseconds from the start of a small kernel to that of the next one of a
  /// captured graph; 0 on a CPU, whose launches are calls.
  double getLaunchTime() const { return gpu ? 2000 : 0; }

  /// Nanoseconds that each call of a GPU's library costs that a product is
  /// parted into: its start, the multiprocessors that idle at its end, and the
  /// gap behind it. On an H100 a call of 16 products of 512 x 64 by 512
  /// elements takes 7.5 to 9.6 us where memory needs 3.5 to 6.3, beside the gap
  /// (docs/measured/gpu.md); 0 on a CPU.
  double getCallTime() const { return gpu ? 5000 : 0; }

  /// Nanoseconds that memory takes for `bytes`, by the data sheet of the GPU
  /// (A100 for sm_80, H100 for sm_90); 0 on a CPU, of which nobody asks.
  double getMemoryTime(int64_t bytes) const;

  /// Nanoseconds that a GPU's Tensor Cores take for so many multiplications and
  /// additions of 16 bits, where the library finds matrices `aligned` (rows of
  /// whole 16 bytes) and where not: on an H100 as measured; 0 on a CPU.
  double getTensorCoreTime(double operations, bool aligned) const;

  /// Buffers that a kernel may have: those of a GPU get their addresses in 4
  /// KiB of parameters.
  unsigned getMaxKernelBuffers() const { return gpu ? 512 : ~0u; }

  /// Threads that execute together and exchange registers; 1 on a CPU.
  unsigned getWarpSize() const { return gpu ? 32 : 1; }

  /// The CPU whose instruction costs the scheduler assumes.
  llvm::StringRef getTuneCPU() const { return tuneCPU; }

  /// Features that generated code and contraction libraries may use, sorted, by
  /// LLVM's names; what the machine that runs the artifact must have.
  llvm::ArrayRef<std::string> getFeatures() const { return features; }
  bool hasFeature(llvm::StringRef feature) const;

  /// The features as LLVM's target machine takes them: "+avx,+avx2,...".
  std::string getFeatureString() const;

  /// Bits of the widest vector register that pays, of the widest load or store
  /// of a thread on a GPU.
  unsigned getVectorBits() const;

  /// Whether f32 -> bf16 is one instruction (else an integer sequence).
  bool hasNativeBF16Conversion() const;

  /// Whether f16 <-> f32 are instructions (else library calls).
  bool hasNativeF16Conversion() const;

  /// Whether f32 fused multiply-add is an instruction (else a library call).
  bool hasNativeFMA() const;

  /// Whether products of matrices of this element type are faster than, or as
  /// fast as, those of f32 (f32 and f64 count as native everywhere).
  bool hasNativeContraction(mlir::Type elementType) const;

  /// Whether there are products of bf16 tiles.
  bool hasAMX() const { return hasFeature("amx-bf16"); }

private:
  std::string name, tuneCPU;
  bool gpu = false;
  llvm::SmallVector<std::string> features;
};

} // namespace mpc

#endif // MPC_COMPILER_TARGET_TARGETINFO_H
