// Measures the roof of this machine: the rates that no kernel exceeds by much.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_CPU_MACHINEROOF_H
#define MPC_RUNTIME_CPU_MACHINEROOF_H

#include "runtime/Status.h"

#include <cstdint>
#include <string>
#include <vector>

namespace mpc::runtime {

/// The bytes per second with which all threads together load and store memory,
/// if they use `bytes` bytes again and again. Small amounts stay in the caches.
struct Bandwidth {
  int64_t bytes = 0;
  double rate = 0;
};

/// The multiplications and additions per second of a large matrix product, by
/// the type of the operands.
struct ProductRates {
  double f32 = 0, bf16 = 0, f16 = 0;
};

struct MachineRoof {
  /// By amounts, ascending. Rates never grow with the amount.
  std::vector<Bandwidth> bandwidths;
  ProductRates products;
  /// True if a rate is too low, since other programs had the cores in each run.
  bool isBusy = false;
};

/// Measures for about a second, or up to three on a busy machine, with
/// `threads` threads (0: one per core). Uses only instructions in `features`,
/// which are those of the artifact: oneDNN accepts only one limit per process.
StatusOr<MachineRoof> measureRoof(const std::vector<std::string> &features,
                                  int threads);

/// Takes the larger of each rate. Both roofs are of the same machine and number
/// of threads. The result is busy only if both are.
MachineRoof joinRoofs(MachineRoof first, const MachineRoof &second);

/// Returns the name of the CPU, as in /proc/cpuinfo; "unknown CPU" if the
/// system does not tell.
std::string hostCPUName();

} // namespace mpc::runtime

#endif // MPC_RUNTIME_CPU_MACHINEROOF_H
