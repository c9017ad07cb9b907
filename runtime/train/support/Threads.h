// Runs work on data in several threads, like decoding images and gathering
// samples.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_TRAIN_SUPPORT_THREADS_H
#define MPC_RUNTIME_TRAIN_SUPPORT_THREADS_H

#include "runtime/Status.h"

#include <cstdint>
#include <functional>

namespace mpc::runtime::train {

/// The number of CPUs that this process may run on.
int64_t countCores();

/// Calls `work` with each number in [0, count), in the calling thread and up to
/// `threads` - 1 others, and waits for all. If several fail, returns the
/// failure with the smallest number. After a failure, `work` may not be called
/// for greater numbers. IO if memory runs out.
Status onThreads(int64_t count, int64_t threads,
                 const std::function<Status(int64_t)> &work);

/// Calls `work(begin, end)` for ranges of rows that together are [0, rows).
/// Uses several threads if the rows, of `rowBytes` bytes each, are large
/// enough.
Status onRows(int64_t rows, int64_t rowBytes,
              const std::function<Status(int64_t begin, int64_t end)> &work);

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_SUPPORT_THREADS_H
