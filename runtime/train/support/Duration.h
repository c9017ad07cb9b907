// Parses durations.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_TRAIN_SUPPORT_DURATION_H
#define MPC_RUNTIME_TRAIN_SUPPORT_DURATION_H

#include "runtime/Status.h"

#include <chrono>
#include <string_view>

namespace mpc::runtime::train {

/// Parses "90s", "30m", "2h", "1d", "1h30m", or Lightning's "DD:HH:MM:SS".
/// Returns a usage error for other texts, for zero, and for more than a hundred
/// years.
StatusOr<std::chrono::seconds> parseDuration(std::string_view text);

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_SUPPORT_DURATION_H
