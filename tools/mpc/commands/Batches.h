// Runs a function on more samples than one batch holds: takes batches from the
// inputs, and joins the outputs.
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

/// How to run `samples` samples in batches of `batch`. `inputs` and `outputs`
/// map a name to the sample axis.
struct Batching {
  int64_t batch = 0, samples = 0;
  std::map<std::string, int64_t> inputs, outputs;
};

/// Decides how to run `function` on `arrays`, which have the names of the
/// inputs. nullopt if one run is enough, or if an array differs from its input
/// in more than the number of samples. An error if an output has no sample axis
/// and cannot be joined.
runtime::StatusOr<std::optional<Batching>>
planBatches(const runtime::Plan &plan, const runtime::Function &function,
            const std::vector<runtime::train::Array> &arrays);

/// The samples that fill up an incomplete last batch: copies of the last
/// sample, or the first samples of the data.
enum class Filling { LastSample, FirstSamples };

/// Returns `batch` samples of `array` from sample `begin` on, along `axis`: a
/// view if the samples are contiguous, else a copy. `filling` supplies samples
/// beyond the last.
runtime::train::Array takeSamples(const runtime::train::Array &array,
                                  int64_t axis, int64_t begin, int64_t batch,
                                  Filling filling);

/// Collects one output of all batches in one tensor, along the sample axis.
class JoinedOutput {
public:
  JoinedOutput(std::string name, const runtime::Buffer &buffer, int64_t axis,
               int64_t samples);

  /// Copies `part`, the output of a batch whose first sample is `begin`, to
  /// `whole`. Ignores samples beyond the last.
  void add(const runtime::Tensor &part, int64_t begin);
  /// Returns status Unsupported if `part` differs from the results that `add`
  /// copied from sample `begin` on. Call with another run of the same samples
  /// in a batch with other samples: a difference means that samples of a batch
  /// depend on each other.
  runtime::Status check(const runtime::Tensor &part, int64_t begin) const;

  const std::string name;
  runtime::Tensor whole;

private:
  /// Calls `visit(offset, from, bytes)` for each contiguous run of bytes in
  /// `part`: `from` points to the bytes in `part`, and `offset` is their
  /// position in `whole`.
  template <typename Visit>
  void zip(const runtime::Tensor &part, int64_t begin, Visit visit) const;

  const size_t axis;
};

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_COMMANDS_BATCHES_H
