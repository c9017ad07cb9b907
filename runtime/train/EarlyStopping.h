// Ends a run whose evaluations do not improve.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_TRAIN_EARLYSTOPPING_H
#define MPC_RUNTIME_TRAIN_EARLYSTOPPING_H

#include "runtime/Status.h"
#include "runtime/train/evaluate/Monitor.h"

#include <cstdint>
#include <string>
#include <string_view>

namespace mpc::runtime::train {

/// Lightning's EarlyStopping with a min_delta of 0: the run ends at the
/// `patience`-th evaluation in a row that was no better than the best.
struct EarlyStopping {
  Monitor monitor;
  int64_t patience = 0;

  bool isOver(const MonitorState &state) const {
    return state.waited >= patience;
  }
  /// Says why the run is over.
  std::string describe(const MonitorState &state) const;
  /// Returns a text that parseEarlyStopping reads back.
  std::string name() const;
};

/// Parses "METRIC:PATIENCE". METRIC is a text for parseMonitor. Usage for other
/// texts.
StatusOr<EarlyStopping> parseEarlyStopping(std::string_view text);

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_EARLYSTOPPING_H
