// More samples than a function takes at once: batch by batch in, joined out.
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

/// `samples` samples in batches of `batch`, and on which axes of inputs and
/// outputs they are.
struct Batching {
  int64_t batch = 0, samples = 0;
  std::map<std::string, int64_t> inputs, outputs;
};

/// How `function` runs on `arrays`, which have the names of its inputs; nothing
/// where they are one batch, or do not fit in another way than by their number
/// of samples. An error names outputs that cannot be joined.
runtime::StatusOr<std::optional<Batching>>
planBatches(const runtime::Plan &plan, const runtime::Function &function,
            const std::vector<runtime::train::Array> &arrays);

/// What fills up a batch where there are not as many samples.
enum class Filling { LastSample, FirstSamples };

/// `batch` samples of an array from `begin` on, in place where that can be.
runtime::train::Array takeSamples(const runtime::train::Array &array,
                                  int64_t axis, int64_t begin, int64_t batch,
                                  Filling filling);

/// An output of all batches, side by side.
class JoinedOutput {
public:
  JoinedOutput(std::string name, const runtime::Buffer &buffer, int64_t axis,
               int64_t samples);

  /// Takes the first samples of a batch that begins at `begin`, those beyond
  /// the last one left out.
  void add(const runtime::Tensor &part, int64_t begin);
  /// Unsupported where those samples, run beside others in their batch, are not
  /// the same as were taken before: they depend on what fills the batch.
  runtime::Status check(const runtime::Tensor &part, int64_t begin) const;

  const std::string name;
  runtime::Tensor whole;

private:
  /// Calls `visit` for each block: where its samples are here, where they are
  /// in the part, and how many bytes they have.
  template <typename Visit>
  void zip(const runtime::Tensor &part, int64_t begin, Visit visit) const;

  const size_t axis;
};

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_COMMANDS_BATCHES_H
