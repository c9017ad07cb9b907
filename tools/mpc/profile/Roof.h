// The roof of this machine, measured once and kept in the kernel cache.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TOOLS_MPC_PROFILE_ROOF_H
#define MPC_TOOLS_MPC_PROFILE_ROOF_H

#include "runtime/Plan.h"
#include "runtime/cpu/MachineRoof.h"

#include <nlohmann/json.hpp>
#include <string>

namespace mpc::tools {

struct Roof {
  runtime::MachineRoof rates;
  std::string cpu;
  int threads = 1;
  std::string measured; ///< the time of the measurement: 2026-11-29T13:05:00Z
  int64_t measurements = 1; ///< whose larger rates count
  bool isKept = false;      ///< true if an earlier process measured

  /// Returns the bytes per second of memory that was last touched `distance`
  /// bytes ago.
  double bandwidthAt(double distance) const;
  /// Returns the multiplications and additions per second of `type`. Nothing
  /// measures f64, which counts as half as fast as f32.
  double flopsOf(runtime::DType type) const;

  nlohmann::json toJSON() const;
};

/// Says what becomes of a roof that the cache has.
enum class KeptRoof {
  Take, ///< it is the roof, unless the machine was busy: then as Raise
  /// The roof is measured again, and the larger of each rate counts. After four
  /// measurements, the roof stays.
  Raise,
  Replace, ///< the roof is measured again
};

/// Returns the roof for `threads` threads and the CPU features of `target`:
/// from the cache in `folder`, or measured. Keeps a measured roof in the cache,
/// which is a folder as in --kernel-cache.
runtime::StatusOr<Roof> findRoof(const runtime::Target &target, int threads,
                                 const std::string &folder, KeptRoof kept);

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_PROFILE_ROOF_H
