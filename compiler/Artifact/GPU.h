// LLVM's code generator for NVIDIA GPUs, and ptxas, which assembles its output.
//
// PTX needs nothing but LLVM; a driver compiles it where it runs. A cubin
// starts at once, and is made where the CUDA toolkit is.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_ARTIFACT_GPU_H
#define MPC_COMPILER_ARTIFACT_GPU_H

#include "compiler/Target/TargetInfo.h"

#include <optional>

namespace mpc {

/// Makes LLVM know NVIDIA GPUs.
void initializeGPU();

/// Where ptxas is: below CUDA_HOME or CUDA_PATH, or in PATH; nothing where it
/// is in none of them.
std::optional<std::string> findPTXAssembler();

/// The cubin of `ptx` for exactly `target`, made by `assembler`.
llvm::Expected<std::string> assemblePTX(llvm::StringRef assembler,
                                        llvm::StringRef ptx,
                                        const TargetInfo &target);

} // namespace mpc

#endif // MPC_COMPILER_ARTIFACT_GPU_H
