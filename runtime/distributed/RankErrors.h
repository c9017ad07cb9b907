// Parts of the messages about ranks.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_DISTRIBUTED_RANKERRORS_H
#define MPC_RUNTIME_DISTRIBUTED_RANKERRORS_H

#include "runtime/Status.h"

#include <chrono>
#include <string>
#include <utility>

namespace mpc::runtime {

/// The failure of a run that has lost rank 0, which can report nothing.
inline constexpr char kFirstRankIsLost[] = "rank 0 has ended or is unreachable";
/// A part of the failure of a wait for rank 0, which may hang.
inline constexpr char kWaitsForFirst[] = " for rank 0";

/// True if the failure `why` says that rank 0 cannot report it.
inline bool blamesFirstRank(const std::string &why) {
  return why.find(kFirstRankIsLost) != std::string::npos ||
         why.find(kWaitsForFirst) != std::string::npos;
}

inline Status rankError(std::string message) {
  return Status(StatusCode::Rank, std::move(message));
}

/// Returns a time in seconds, with a tenth if there is one: "0.5 s".
inline std::string inSeconds(std::chrono::milliseconds time) {
  std::string text = std::to_string(time.count() / 1000);
  if (time.count() % 1000)
    text += "." + std::to_string(time.count() % 1000 / 100);
  return text + " s";
}

} // namespace mpc::runtime

#endif // MPC_RUNTIME_DISTRIBUTED_RANKERRORS_H
