// Sets up LLVM's code generator for NVIDIA GPUs, and runs ptxas on its output.
//
// PTX needs only LLVM; the driver compiles it at load time. A cubin loads at
// once, but needs the CUDA toolkit.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_ARTIFACT_GPU_H
#define MPC_COMPILER_ARTIFACT_GPU_H

#include "compiler/Target/TargetInfo.h"

#include <optional>

namespace mpc {

/// Registers the NVIDIA GPU target with LLVM.
void initializeGPU();

/// Finds ptxas below CUDA_HOME or CUDA_PATH, or in PATH; nullopt if there is
/// none.
std::optional<std::string> findPTXAssembler();

/// Assembles `ptx` to a cubin for exactly `target`, with the ptxas `assembler`.
llvm::Expected<std::string> assemblePTX(llvm::StringRef assembler,
                                        llvm::StringRef ptx,
                                        const TargetInfo &target);

} // namespace mpc

#endif // MPC_COMPILER_ARTIFACT_GPU_H
