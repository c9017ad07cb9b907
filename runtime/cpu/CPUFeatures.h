// What the CPU at hand can execute, under LLVM's names of features.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_CPU_CPUFEATURES_H
#define MPC_RUNTIME_CPU_CPUFEATURES_H

#include "runtime/Status.h"

#include <string>
#include <string_view>
#include <vector>

namespace mpc::runtime {

/// The features of this CPU that the operating system has enabled, sorted.
const std::vector<std::string> &hostFeatures();

/// True if hostFeatures() has `feature`, by LLVM's name: "avx512bf16".
bool hostHasFeature(std::string_view feature);

/// Whether vectors of 512 bits with elements of 16 and more are.
bool hostHasAVX512();

/// Those of `needed` that this CPU lacks, in their order. A name this runtime
/// cannot detect counts as lacking: better refused than an illegal instruction.
std::vector<std::string>
missingFeatures(const std::vector<std::string> &needed);

/// Asks the kernel, once per process, for the right to use AMX tiles. Device
/// where it refuses.
Status requestAMXPermission();

} // namespace mpc::runtime

#endif // MPC_RUNTIME_CPU_CPUFEATURES_H
