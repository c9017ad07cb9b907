// Work on data that several threads share: decoding images, gathering samples.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_TRAIN_SUPPORT_THREADS_H
#define MPC_RUNTIME_TRAIN_SUPPORT_THREADS_H

#include "runtime/Status.h"

#include <cstdint>
#include <functional>

namespace mpc::runtime::train {

/// The CPUs that this process may run on.
int64_t countCores();

/// Calls `work` with each number of [0, count), the calling thread and up to
/// `threads` - 1 others side by side, and returns when all is done; the failure
/// of the least number, whose greater ones may not have been called then. IO
/// where memory runs out.
Status onThreads(int64_t count, int64_t threads,
                 const std::function<Status(int64_t)> &work);

/// The same for rows of `rowBytes` each that are made side by side: `work` gets
/// the first of them and the one after the last. Few bytes are one thread's.
Status onRows(int64_t rows, int64_t rowBytes,
              const std::function<Status(int64_t begin, int64_t end)> &work);

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_SUPPORT_THREADS_H
