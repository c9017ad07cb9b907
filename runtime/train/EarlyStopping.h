// Ending a run whose evaluations get no better.
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
  /// Why the run is over.
  std::string describe(const MonitorState &state) const;
  /// What parseEarlyStopping reads as the same.
  std::string name() const;
};

/// "METRIC:PATIENCE", the metric as parseMonitor has it; Usage where it is
/// something else.
StatusOr<EarlyStopping> parseEarlyStopping(std::string_view text);

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_EARLYSTOPPING_H
