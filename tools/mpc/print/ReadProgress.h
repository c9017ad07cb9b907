// Prints which file of the data is read, if reading takes long.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TOOLS_MPC_PRINT_READPROGRESS_H
#define MPC_TOOLS_MPC_PRINT_READPROGRESS_H

#include "runtime/train/data/ReadObserver.h"

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace mpc::tools {

/// Prints "reading image.npy: 2.1 of 8.0 GiB" on stderr, from a second after
/// its creation. On a terminal, the line changes in place and disappears at the
/// end; otherwise it appears once. Prints nothing with --quiet.
class ReadProgress : public runtime::train::ReadObserver {
public:
  ReadProgress();
  ~ReadProgress() override;
  ReadProgress(const ReadProgress &) = delete;
  ReadProgress &operator=(const ReadProgress &) = delete;

  void reading(const std::string &source, int64_t done, int64_t total) override;

private:
  /// Runs in a thread of its own, since unpacking an archive is one long call.
  void watch();

  std::mutex mutex;
  std::condition_variable changed; ///< `isOver` or `source`
  bool isOver = false;
  std::string source; ///< empty before the first file
  int64_t done = 0, total = 0;
  std::thread watcher;
};

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_PRINT_READPROGRESS_H
