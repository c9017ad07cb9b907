// Runs a function on more samples than one batch holds: slices inputs into
// batches and joins the outputs.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TOOLS_MPC_COMMANDS_BATCHES_H
#define MPC_TOOLS_MPC_COMMANDS_BATCHES_H

#include "runtime/Plan.h"
#include "runtime/Status.h"
#include "runtime/train/data/Array.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace mpc::tools {

/// `samples` samples in batches of `batch`. The maps give the sample axis of
/// each input and output by name.
struct Batching {
  int64_t batch = 0, samples = 0;
  std::map<std::string, int64_t> inputs, outputs;
};

/// Plans how `function` runs on `arrays`, which are named like the inputs.
/// nullopt if the arrays are one batch, or misfit in more than the number of
/// samples. An error names outputs that cannot be joined.
runtime::StatusOr<std::optional<Batching>>
planBatches(const runtime::Plan &plan, const runtime::Function &function,
            const std::vector<runtime::train::Array> &arrays);

/// Samples that fill up an incomplete batch: copies of the last sample, or the
/// first samples again.
enum class Filling { LastSample, FirstSamples };

/// Takes `batch` samples of `array` from `begin` on: a view if the samples are
/// contiguous, else a copy. `filling` fills up an incomplete batch.
runtime::train::Array takeSamples(const runtime::train::Array &array,
                                  int64_t axis, int64_t begin, int64_t batch,
                                  Filling filling);

/// Joins one output of all batches along the sample axis.
class JoinedOutput {
public:
  JoinedOutput(std::string name, const runtime::Buffer &buffer, int64_t axis,
               int64_t samples);

  /// Copies a batch that begins at sample `begin`. Drops samples beyond the
  /// last.
  void add(const runtime::Tensor &part, int64_t begin);
  /// Returns status Unsupported unless `part` repeats the results that were
  /// added from `begin` on. A difference means that results depend on other
  /// samples in a batch.
  runtime::Status check(const runtime::Tensor &part, int64_t begin) const;

  const std::string name;
  runtime::Tensor whole;

private:
  /// Calls `visit(offset, from, bytes)` for each contiguous block of `part`.
  /// `offset` is the block's place in `whole` in bytes; `from` points to its
  /// bytes in `part`.
  template <typename Visit>
  void zip(const runtime::Tensor &part, int64_t begin, Visit visit) const;

  const size_t axis;
};

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_COMMANDS_BATCHES_H
