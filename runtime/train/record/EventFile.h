// Writes the metrics of a run as a file of records, which TensorBoard reads.
//
// A record is a TFRecord: the length, the masked CRC32C of the length, a
// message, and the masked CRC32C of the message. The message is TensorFlow's
// Event (tensorflow/core/util/event.proto). Only a few fields are needed, so
// they are written byte by byte, without a protobuf library.
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
  /// Starts a new event file in `folder`, which is created if missing. With
  /// Append, the run resumes after `firstStep`: it adds a file to the earlier
  /// files, and makes TensorBoard forget their later steps. With New, fails
  /// with Usage if `folder` has event files, since TensorBoard would show two
  /// runs as one. With Replace, removes the event files that mpc wrote.
  static StatusOr<std::unique_ptr<EventFile>>
  open(const std::string &folder, MetricsStart start, int64_t firstStep);
  /// Checks that `open` would succeed, as far as possible without changing
  /// files.
  static Status check(const std::string &folder, MetricsStart start);
  ~EventFile() override;
  EventFile(const EventFile &) = delete;
  EventFile &operator=(const EventFile &) = delete;

  /// Writes the numbers of a step as train/loss, train/lr and so on, and the
  /// numbers of an evaluation as eval/loss, eval/accuracy and so on. Data goes
  /// to the system at once: a killed run loses at most the current record.
  Status write(const MetricsLine &line) override;

private:
  EventFile(std::string path, int file) : path(std::move(path)), file(file) {}
  Status append(std::string_view message);

  std::string path;
  int file;
};

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_RECORD_EVENTFILE_H
