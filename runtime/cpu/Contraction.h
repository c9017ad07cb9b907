// The interface between the CPU device and a provider of contractions, which
// are matrix products and convolutions. Each step of the plan is prepared once,
// then run slice by slice.
//
// A prepared contraction has a few phases in order. The slices of a phase are
// independent and may run on any worker. The step alone determines the order in
// which the terms of a sum are added, so results have the same bits for any
// number of threads.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_CPU_CONTRACTION_H
#define MPC_RUNTIME_CPU_CONTRACTION_H

#include "runtime/ABI.h"
#include "runtime/Plan.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <vector>

namespace mpc::runtime {

/// The element type and the address of a buffer.
struct Operand {
  DType type = DType::F32;
  void *data = nullptr;

  std::byte *at(int64_t element) const {
    return static_cast<std::byte *>(data) + element * sizeOf(type);
  }
};

/// A resolved epilogue: the generated code and its arguments 1..n.
struct EpilogueCall {
  static constexpr size_t kMaxArgs = 128;

  mpc_epilogue_fn function = nullptr;
  std::vector<void *> args;

  explicit operator bool() const { return function != nullptr; }

  /// Passes the accumulators of rows [row, row + rows) and columns [column,
  /// column + columns) to the epilogue.
  void operator()(float *accumulators, int64_t row, int64_t rows,
                  int64_t column, int64_t columns, int64_t ld) const {
    std::array<void *, kMaxArgs> all;
    all[0] = accumulators;
    std::copy(args.begin(), args.end(), all.begin() + 1);
    function(all.data(), row, row + rows, column, column + columns, ld);
  }
};

/// Returns pointers to the stored addresses of `operands` and of the epilogue's
/// arguments, so that a loop of the plan can change the addresses.
inline std::vector<void **>
addressesOf(std::initializer_list<Operand *> operands, EpilogueCall &epilogue) {
  std::vector<void **> result;
  for (Operand *operand : operands)
    result.push_back(&operand->data);
  for (void *&argument : epilogue.args)
    result.push_back(&argument);
  return result;
}

/// The operands of a matrix product. `c` has no data if there is an epilogue.
/// `sums` receives the sums that the step's `fused` asks for; no data
/// otherwise.
struct MatMulOperands {
  Operand a, b, c;
  EpilogueCall epilogue;
  Operand sums = {};
};

/// The operands of a convolution. The written operand has no data if there is
/// an epilogue.
struct ConvOperands {
  Operand x, w, y;
  EpilogueCall epilogue;
};

/// The worker that runs a slice, and its scratch memory.
struct SliceContext {
  int worker = 0;
  std::byte *shared = nullptr;  ///< of all workers; kept from phase to phase
  std::byte *scratch = nullptr; ///< the worker's own, undefined at the start
};

/// A prepared contraction step. Only one run at a time; slices of a phase run
/// concurrently.
class Contraction {
public:
  virtual ~Contraction() = default;

  /// Returns the number of slices of each phase.
  const std::vector<int64_t> &phases() const { return phaseSlices; }
  size_t sharedBytes() const { return sharedSize; }
  size_t scratchBytes() const { return scratchSize; }

  virtual Status runSlice(size_t phase, int64_t slice,
                          const SliceContext &context) = 0;

  /// Returns pointers to the addresses that a loop of the plan changes between
  /// iterations. The order is: the operands (a, b, c or x, w, y), the
  /// epilogue's arguments, and for sums of an operand, the sums and the summed
  /// operand.
  virtual std::vector<void **> addresses() = 0;

protected:
  std::vector<int64_t> phaseSlices;
  size_t sharedSize = 0;
  size_t scratchSize = 0; ///< per worker
};

class ContractionProvider {
public:
  virtual ~ContractionProvider() = default;

  /// Prepares a step. Slices will run with SliceContext::worker in [0,
  /// workers).
  virtual StatusOr<std::unique_ptr<Contraction>>
  prepare(const MatMulStep &step, MatMulOperands operands, int workers) = 0;
  virtual StatusOr<std::unique_ptr<Contraction>>
  prepare(const ConvStep &step, ConvOperands operands, int workers) = 0;
};

} // namespace mpc::runtime

#endif // MPC_RUNTIME_CPU_CONTRACTION_H
