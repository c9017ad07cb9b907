// Observes how far the files of a data set have been read.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_TRAIN_DATA_READOBSERVER_H
#define MPC_RUNTIME_TRAIN_DATA_READOBSERVER_H

#include <cstdint>
#include <string>

namespace mpc::runtime::train {

/// Called while data is read, before a model is trained with the data. Every
/// call comes from the thread that reads.
class ReadObserver {
public:
  virtual ~ReadObserver() = default;
  /// `done` of `total` bytes of the file or folder `source` are read. `total`
  /// is 0 if the size is unknown.
  virtual void reading(const std::string &source, int64_t done,
                       int64_t total) = 0;
};

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_DATA_READOBSERVER_H
