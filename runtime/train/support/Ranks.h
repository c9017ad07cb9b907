// The ranks of a distributed run: exchange between steps, and agreement on
// failures.
//
// All ranks must call the functions, except `fail`, in the same order. Results
// are equal on all ranks, so that all take equal branches.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_TRAIN_SUPPORT_RANKS_H
#define MPC_RUNTIME_TRAIN_SUPPORT_RANKS_H

#include "runtime/Communicator.h"
#include "runtime/Status.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace mpc::runtime::train {

/// The ranks of a run; a single rank exchanges nothing.
class Ranks {
public:
  /// `communicator` is null for a single rank, and must outlive the object.
  /// `report`, if any, receives a failure before `fail` ends the other ranks.
  explicit Ranks(Communicator *communicator,
                 std::function<void(const Status &)> report = nullptr)
      : communicator(communicator), report(std::move(report)) {}

  bool isSingle() const { return !communicator || communicator->size() == 1; }
  int64_t count() const { return communicator ? communicator->size() : 1; }
  int64_t own() const { return communicator ? communicator->rank() : 0; }
  bool isFirst() const { return own() == 0; }

  /// Returns the values of all ranks, the first rank's first. Each rank gives
  /// the same number of values.
  StatusOr<std::vector<double>> gather(const std::vector<double> &values);
  /// Returns the texts of all ranks in their order.
  StatusOr<std::vector<std::string>> gatherTexts(const std::string &text);
  /// Replaces `text` by that of the first rank.
  Status share(std::string &text);
  /// Replaces the bytes by those of the first rank.
  Status share(void *bytes, size_t size);
  /// Replaces the elements by their mean over all ranks.
  Status average(void *elements, size_t count, DType type);

  /// Returns the failure of the lowest rank with a failure, with the rank in
  /// the message unless it is rank 0. All ranks get the code of the failure, so
  /// that they end alike. Success if no rank failed.
  Status agree(const Status &status);

  /// Agrees in a program that reports on every rank. Returns the failure of
  /// this rank, if any. Otherwise a Rank error with the failure of the lowest
  /// rank with a failure, and success if no rank failed.
  Status settle(const Status &own);

  /// Ends all ranks after a failure within a step, where no `agree` follows.
  /// Returns `status`. Does nothing if another rank failed first.
  Status fail(const Status &status);
  /// The bytes that this rank has sent.
  int64_t bytesSent() const {
    return communicator ? int64_t(communicator->bytesSent()) : 0;
  }

private:
  /// A failure, and the lowest rank with a failure.
  struct Failure {
    size_t rank;
    StatusCode code;
    std::string text;
  };
  StatusOr<std::optional<Failure>> findFailure(const Status &own);

  Communicator *communicator;
  std::function<void(const Status &)> report;
};

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_SUPPORT_RANKS_H
