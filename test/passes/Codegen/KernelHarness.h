// Compiles kernels written as MLIR text and runs them.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TEST_PASSES_CODEGEN_KERNELHARNESS_H
#define MPC_TEST_PASSES_CODEGEN_KERNELHARNESS_H

#include "compiler/Kernels/KernelPartition.h"

#include "llvm/ADT/StringRef.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace mpc::test {

/// One function `@kernel` of the given text, compiled for `target` through the
/// Codegen stage, linked as an artifact and loaded.
class CompiledKernel {
public:
  explicit CompiledKernel(llvm::StringRef text,
                          llvm::StringRef target = "native");
  ~CompiledKernel();

  /// The compiler's error; empty on success.
  const std::string &getError() const { return error; }

  /// Runs all slices, from last to first if `backwards`, with scratch memory of
  /// the partition's size, which is checked. The emulated GPU runs all blocks,
  /// and a fault fails the test.
  void launch(const std::vector<void *> &args, bool backwards = false) const;

  /// Calls an epilogue.
  void runTile(const std::vector<void *> &args, int64_t rowBegin,
               int64_t rowEnd, int64_t colBegin, int64_t colEnd,
               int64_t ld) const;

  const KernelPartition &getPartition() const { return partition; }

private:
  std::string compile(llvm::StringRef text, llvm::StringRef target);
  std::string load(llvm::StringRef bytes);

  KernelPartition partition;
  /// On a GPU, the code and the bytes of every argument.
  std::string ptx;
  std::vector<size_t> argumentBytes;
  /// Dynamic shared memory of a block on a GPU.
  unsigned sharedBytes = 0;
  std::string error;
  void *library = nullptr;
  void *entry = nullptr;
};

/// The CPU targets that the host can execute. The tests try each.
std::vector<std::string> runnableCPUs();
/// The runnable CPUs, and an emulated GPU.
std::vector<std::string> runnableTargets();

/// The bits of `value` rounded to bf16.
uint16_t toBF16(float value);
float fromBF16(uint16_t bits);

/// Repeatable values in [low, high).
std::vector<float> randomFloats(size_t count, float low = -2, float high = 2);

} // namespace mpc::test

#endif // MPC_TEST_PASSES_CODEGEN_KERNELHARNESS_H
