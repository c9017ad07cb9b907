// A run's metrics as TensorBoard reads them: a file of records in a folder.
//
// A record is a TFRecord: the length, the masked CRC32C of the length, a
// message, and the masked CRC32C of that. The message is TensorFlow's Event
// (tensorflow/core/util/event.proto), of which so few fields are written that
// they are put down here byte by byte, rather than by a library that the
// runtime would need for nothing else.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_TRAIN_RECORD_EVENTFILE_H
#define MPC_RUNTIME_TRAIN_RECORD_EVENTFILE_H

#include "runtime/train/record/Metrics.h"

#include <memory>
#include <string>

namespace mpc::runtime::train {

class EventFile : public MetricsSink {
public:
  /// Starts a new event file in `folder`, which is created if it is missing.
  /// A run that goes on after `firstStep` (MetricsStart::Append) adds a file to
  /// its earlier ones and tells TensorBoard to forget their later steps. A new
  /// run fails with Usage where `folder` has event files, since TensorBoard
  /// would show both as one run; Replace removes the files that mpc wrote.
  static StatusOr<std::unique_ptr<EventFile>>
  open(const std::string &folder, MetricsStart start, int64_t firstStep);
  /// Whether `open` would succeed, as far as can be told without changing
  /// anything.
  static Status check(const std::string &folder, MetricsStart start);
  ~EventFile() override;
  EventFile(const EventFile &) = delete;
  EventFile &operator=(const EventFile &) = delete;

  /// The numbers of a step as train/loss, train/lr and so on, those of an
  /// evaluation as eval/loss, eval/accuracy and so on. Handed to the system at
  /// once: a killed run loses at most the record being written.
  Status write(const MetricsLine &line) override;

private:
  EventFile(std::string path, int file) : path(std::move(path)), file(file) {}
  Status append(std::string_view message);

  std::string path;
  int file;
};

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_RECORD_EVENTFILE_H
