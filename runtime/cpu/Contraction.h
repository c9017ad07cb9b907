// What a provider of contractions (matrix products and convolutions) offers the
// CPU device: each step of the plan prepared once, then run slice by slice.
//
// A prepared contraction is a few phases in order; the slices of one phase are
// independent and may run on any worker. The order in which the terms of a sum
// are added follows from the step alone, however many workers there are and
// slices are made for them: the same bits on any number of threads.
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

/// A buffer with its address.
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

  /// Consumes the accumulators of rows [row, row + rows) and columns
  /// [column, column + columns).
  void operator()(float *accumulators, int64_t row, int64_t rows,
                  int64_t column, int64_t columns, int64_t ld) const {
    std::array<void *, kMaxArgs> all;
    all[0] = accumulators;
    std::copy(args.begin(), args.end(), all.begin() + 1);
    function(all.data(), row, row + rows, column, column + columns, ld);
  }
};

/// Where operands and an epilogue have their addresses.
inline std::vector<void **>
addressesOf(std::initializer_list<Operand *> operands, EpilogueCall &epilogue) {
  std::vector<void **> result;
  for (Operand *operand : operands)
    result.push_back(&operand->data);
  for (void *&argument : epilogue.args)
    result.push_back(&argument);
  return result;
}

/// The operands of a matrix product; `c` has no data where there is an
/// epilogue. `sums` is what the step's `fused` sums, if anything.
struct MatMulOperands {
  Operand a, b, c;
  EpilogueCall epilogue;
  Operand sums = {};
};

/// The operands of a convolution; the one that is written has no data where
/// there is an epilogue.
struct ConvOperands {
  Operand x, w, y;
  EpilogueCall epilogue;
};

/// One slice's place to work: who runs it, and scratch memory.
struct SliceContext {
  int worker = 0;
  std::byte *shared = nullptr;  ///< kept over the phases of one run
  std::byte *scratch = nullptr; ///< this worker's, undefined at the start
};

/// A contraction step made ready. Run by one plan at a time; slices of the same
/// phase run concurrently.
class Contraction {
public:
  virtual ~Contraction() = default;

  /// The number of slices of each phase.
  const std::vector<int64_t> &phases() const { return phaseSlices; }
  size_t sharedBytes() const { return sharedSize; }
  size_t scratchBytes() const { return scratchSize; }

  virtual Status runSlice(size_t phase, int64_t slice,
                          const SliceContext &context) = 0;

  /// Pointers to the addresses of the operands (a, b, c or x, w, y), of the
  /// epilogue, and where an operand is summed, of the sums and of that operand;
  /// a loop of the plan changes them from one iteration to the next.
  virtual std::vector<void **> addresses() = 0;

protected:
  std::vector<int64_t> phaseSlices;
  size_t sharedSize = 0;
  size_t scratchSize = 0; ///< per worker
};

class ContractionProvider {
public:
  virtual ~ContractionProvider() = default;

  /// Slices are given contexts of workers below `workers`.
  virtual StatusOr<std::unique_ptr<Contraction>>
  prepare(const MatMulStep &step, MatMulOperands operands, int workers) = 0;
  virtual StatusOr<std::unique_ptr<Contraction>>
  prepare(const ConvStep &step, ConvOperands operands, int workers) = 0;
};

} // namespace mpc::runtime

#endif // MPC_RUNTIME_CPU_CONTRACTION_H
