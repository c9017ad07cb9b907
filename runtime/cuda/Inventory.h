// Lists the GPUs and NVIDIA's libraries of this machine, for reports.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_CUDA_INVENTORY_H
#define MPC_RUNTIME_CUDA_INVENTORY_H

#include "runtime/cuda/Driver.h"

#include <string>
#include <vector>

namespace mpc::runtime::cuda {

/// A library that mpc loads for GPUs.
struct InstalledLibrary {
  std::string name;    ///< "cuBLASLt"
  std::string path;    ///< of the file; empty if it cannot be loaded
  std::string version; ///< "12.4.5"; empty if the library does not tell
  std::string fault;   ///< why it is of no use: "not found"; empty if it is
};

struct Inventory {
  std::vector<GPU> gpus; ///< in the driver's order
  /// The driver, whose version is the newest CUDA that it supports: "12.4".
  InstalledLibrary driver;
  std::vector<InstalledLibrary> libraries;
};

/// Loads the driver and the libraries, and asks for their versions. Absent
/// libraries are part of the result, and no failure.
Inventory takeInventory();

} // namespace mpc::runtime::cuda

#endif // MPC_RUNTIME_CUDA_INVENTORY_H
