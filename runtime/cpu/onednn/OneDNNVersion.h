// Tells the version of oneDNN, without its headers.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_CPU_ONEDNN_ONEDNNVERSION_H
#define MPC_RUNTIME_CPU_ONEDNN_ONEDNNVERSION_H

#include <string>

namespace mpc::runtime {

/// Returns the version of the loaded library: "3.2.0".
std::string oneDNNVersion();

} // namespace mpc::runtime

#endif // MPC_RUNTIME_CPU_ONEDNN_ONEDNNVERSION_H
