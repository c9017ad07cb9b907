// Verifies a plan's structs against each other: every index in range, every
// buffer inside the memory, every operand as large as the step reads. All
// arithmetic on numbers from the file is checked for overflow.
//
// The verifier cannot check what a kernel does inside buffers; the compiler is
// responsible. The verifier checks that every kernel gets buffers and sizes for
// which the kernel's code is made.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_PLANVERIFIER_H
#define MPC_RUNTIME_PLANVERIFIER_H

#include "runtime/Plan.h"

#include <array>
#include <map>

namespace mpc::runtime {

/// An integer with a record of overflows.
struct Checked {
  int64_t value = 0;
  bool overflowed = false;

  Checked(int64_t value) : value(value) {}
  Checked operator*(Checked other) const {
    Checked result = 0;
    result.overflowed =
        __builtin_mul_overflow(value, other.value, &result.value) ||
        overflowed || other.overflowed;
    return result;
  }
  Checked operator+(Checked other) const {
    Checked result = 0;
    result.overflowed =
        __builtin_add_overflow(value, other.value, &result.value) ||
        overflowed || other.overflowed;
    return result;
  }
  bool operator<=(int64_t limit) const { return !overflowed && value <= limit; }
  bool operator==(int64_t other) const { return !overflowed && value == other; }
};

/// True if two buffers share memory.
inline bool overlap(const Buffer &a, const Buffer &b) {
  return a.bytes > 0 && b.bytes > 0 && a.space == b.space &&
         a.index == b.index && a.offset < b.offset + b.bytes &&
         b.offset < a.offset + a.bytes;
}

/// Verifies one plan; keeps the first failure.
class PlanVerifier {
public:
  PlanVerifier(const Plan &plan, int64_t dataBytes)
      : plan(plan), dataBytes(dataBytes) {}

  Status verify();

private:
  struct Matrix;

  void fail(const std::string &what) {
    if (failure.ok())
      failure = Status(StatusCode::InvalidInput,
                       "invalid plan: " + where + ": " + what);
  }
  /// Fails with `what` unless `condition` holds. Returns the condition.
  bool expect(bool condition, const char *what) {
    if (!condition)
      fail(what);
    return condition;
  }

  /// Fails if a field of `record` is outside the range that PlanSchema.def
  /// states for the plan's target. Returns true if all are in range.
  template <typename Record>
  bool expectInRange(const Record &record) {
    const char *message = findOutOfRange(record, plan.target.isGPU());
    return expect(!message, message);
  }

  void verifyState(const StateVariable &state);
  void verifyKernel(const Kernel &kernel);
  void verifyFunction(const Function &function);
  std::optional<int64_t> findLimit(const Buffer &buffer);
  void verifyBuffer(const Buffer &buffer);
  void verifyBoxes(const std::vector<IndexBox> &boxes, const Buffer &buffer);
  bool verifyMoving(const ForStep &step);
  bool verifyPrivate(const ForStep &step);
  void verifyPrivateBuffers(const std::vector<Step> &steps);
  void verifyValues(const std::vector<FunctionValue> &values,
                    bool (*mayHave)(Role role));
  void verifySteps(const std::vector<Step> &steps);
  void verifyNested(const std::vector<Step> &steps);
  void verifyOwner(const Step &step);
  bool verifyParts(const std::vector<OwnedPart> &parts);

  void verifyStep(const LaunchStep &step);
  void verifyStep(const MatMulStep &step);
  void verifyStep(const ConvStep &step);
  void verifyStep(const AttentionStep &step);
  void verifyStep(const CopyStep &step);
  void verifyStep(const CheckIndicesStep &step);
  void verifyStep(const AllReduceStep &step);
  void verifyStep(const ReduceScatterStep &step);
  void verifyStep(const AllGatherStep &step);
  void verifyStep(const IfStep &step);
  void verifyStep(const ForStep &step);

  void verifyRows(const StridedRows &strided, const Buffer &src,
                  const Buffer &dst);
  const Kernel *verifyCall(const std::string &kernel,
                           const std::vector<size_t> &args);
  void verifyArgument(size_t number, const Buffer &buffer,
                      const Kernel::Argument &expected);
  void verifyWrittenArgs(const std::vector<size_t> &args, size_t reads);
  bool verifyEpilogue(const std::optional<Epilogue> &epilogue,
                      const std::optional<size_t> &written);
  void verifyTiles(const Epilogue &epilogue, Checked rows, int64_t columns,
                   std::initializer_list<size_t> read);
  const Buffer *contractionOperand(size_t index, Compute compute);
  bool verifyGPUTypes(Compute compute, const Buffer &first,
                      const Buffer &second, const Buffer &result);
  bool verifyTarget(const MatMulStep &step);
  void verifyFused(const MatMulStep &step, const Buffer *c);
  void verifyFusedOperand(const std::optional<size_t> &index, bool wanted,
                          const char *name, DType type, Checked elements);
  bool verifyWritten(const Buffer &written,
                     std::initializer_list<const Buffer *> read);
  bool verifyOuter(const MatMulStep &step);
  void verifyMatrix(const Buffer &buffer, const char *name,
                    const Matrix &matrix);
  void verifyApart(const Matrix &matrix);
  void verifyRows(const Matrix &matrix, int64_t elements);
  void verifyConvTiles(const ConvStep &step);
  bool verifyTypes(const AttentionStep &step);
  bool verifyStatistics(const AttentionStep &step);
  void verifyResults(const AttentionStep &step);
  bool verifyGeometry(const ConvStep &step);

  const Plan &plan;
  int64_t dataBytes;
  const Function *function = nullptr;
  /// The lowest and the highest offset of each buffer that a loop around the
  /// current step moves.
  std::map<size_t, std::pair<int64_t, int64_t>> reach;
  /// The number of loops and conditions around the current step.
  int depth = 0;
  /// The owner of the current step, or of the outermost list around it.
  std::optional<size_t> owner;
  /// The private memory of the loop around the current step, if any.
  std::optional<PrivateMemory> privateMemory;
  std::string where = "plan";
  Status failure;
};

} // namespace mpc::runtime

#endif // MPC_RUNTIME_PLANVERIFIER_H
