// Detects the features of the host CPU, by LLVM's names.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_CPU_CPUFEATURES_H
#define MPC_RUNTIME_CPU_CPUFEATURES_H

#include "runtime/Status.h"

#include <string>
#include <string_view>
#include <vector>

namespace mpc::runtime {

/// Returns the features of this CPU that the operating system has enabled,
/// sorted.
const std::vector<std::string> &hostFeatures();

/// True if hostFeatures() has `feature`, by LLVM's name: "avx512bf16".
bool hostHasFeature(std::string_view feature);

/// True if the CPU has 512-bit vectors with elements of 16 bits and more.
bool hostHasAVX512();

/// Returns the features of `needed` that this CPU lacks, in order. A feature
/// that the runtime cannot detect counts as missing, since an error is better
/// than an illegal instruction.
std::vector<std::string>
missingFeatures(const std::vector<std::string> &needed);

/// Asks the kernel, once per process, for the right to use AMX tiles. A Device
/// error if the kernel refuses.
Status requestAMXPermission();

} // namespace mpc::runtime

#endif // MPC_RUNTIME_CPU_CPUFEATURES_H
