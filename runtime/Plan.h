// The plan of an artifact as plain structs; ArtifactFormat.h describes the
// JSON. PlanSchema.h has the structs of the steps. The parser checks a Plan
// completely (indices, bounds, shapes, strides), so code that executes the plan
// needs no checks.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_PLAN_H
#define MPC_RUNTIME_PLAN_H

#include "runtime/Indices.h"
#include "runtime/Names.h"
#include "runtime/PlanSchema.h"
#include "runtime/Tensor.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace mpc::runtime {

/// A range of the artifact's data section.
struct DataRange {
  int64_t offset = 0;
  int64_t bytes = 0;
};

/// A state variable. The initial value is `data`, or `fill` in every element if
/// there is no `data`.
struct StateVariable {
  std::string name;
  Role role = Role::Parameter;
  DType type = DType::F32;
  Shape shape;
  int64_t bytes = 0;
  std::optional<DataRange> data;
  double fill = 0;
  /// For a sharded variable, such as a moment: the parameter, an index in
  /// Plan::state, whose owner alone holds the variable. nullopt if all ranks
  /// hold the variable.
  std::optional<size_t> owner = std::nullopt;
};

/// A typed view of memory. Steps refer to buffers by index in
/// Function::buffers.
struct Buffer {
  Space space = Space::Arena;
  DType type = DType::F32;
  Shape shape;
  int64_t bytes = 0;
  int64_t offset = 0; ///< bytes from the start of the arena, the data section,
                      ///< the state variable or the input
  size_t index = 0;   ///< number of the state variable or input
};

/// A named input or output of a function.
struct FunctionValue {
  std::string name;
  Role role = Role::Data;
  size_t buffer = 0;
  /// For an integer input: the boxes of elements whose values are indices along
  /// an axis, with their valid ranges.
  std::vector<IndexBox> indices = {};
  /// For an input: the axis along which samples lie. -1 if the input has no
  /// such axis and is equal for all batches.
  int64_t batchAxis = 0;
};

/// The arguments and sizes that a kernel's code is made for. A step that calls
/// the kernel must match exactly.
struct Kernel : KernelWork {
  struct Argument {
    DType type = DType::F32;
    Shape shape;
  };
  std::vector<Argument> reads, writes;
  /// For an epilogue: the rows and columns of the contraction's result, which
  /// the epilogue gets in tiles. Kernels of launches use the KernelWork
  /// instead.
  struct Matrix {
    int64_t rows = 0, columns = 0;
  };
  std::optional<Matrix> tiled = std::nullopt;
};

/// Counts the matrices in the batch of a product.
inline int64_t countMatrices(const BatchAxes &axes) {
  int64_t count = axes.batch;
  for (int64_t extent : axes.outer.extents)
    count *= extent;
  return count;
}

/// Returns the offset in elements of matrix `index` in a batched operand. The
/// batch has the axes of `outer`, outermost first, then an axis of `batch`
/// matrices. `strides` and `stride` are the operand's strides along these axes.
inline int64_t offsetOfMatrix(const OuterAxes &outer,
                              const std::vector<int64_t> &strides,
                              int64_t index, int64_t batch, int64_t stride) {
  int64_t offset = index % batch * stride;
  index /= batch;
  for (size_t axis = outer.extents.size(); axis-- > 0;
       index /= outer.extents[axis])
    offset += index % outer.extents[axis] * strides[axis];
  return offset;
}

inline bool contains(const PrivateMemory &memory, int64_t begin, int64_t end) {
  return memory.offset <= begin && end <= memory.offset + memory.bytes;
}

/// True if `buffer` lies entirely in the private memory of a loop.
inline bool contains(const PrivateMemory &memory, const Buffer &buffer) {
  return buffer.space == Space::Arena &&
         contains(memory, buffer.offset, buffer.offset + buffer.bytes);
}

/// Returns the indices of the buffers that a step reads and writes; a buffer
/// may occur twice. Lists only the predicate of a condition and nothing of a
/// loop: call this for their inner steps.
std::vector<size_t> listBuffers(const Step &step);

/// A function: a list of steps over one arena.
struct Function {
  std::string name;
  int64_t arenaBytes = 0;
  std::vector<FunctionValue> inputs, outputs;
  std::vector<Buffer> buffers;
  std::vector<Step> steps;

  /// Returns the input or output called `name`; null if there is none.
  const FunctionValue *findInput(std::string_view name) const;
  const FunctionValue *findOutput(std::string_view name) const;
};

/// True if the step is an exchange with all other ranks.
bool isExchange(const Step &step);

/// Returns, for each step, the number of the function's first exchanges that
/// must end before the step runs, because the step uses their memory; 0 for
/// exchanges. `buffers` has the addresses of the function's buffers.
std::vector<size_t> findReductionsBefore(const Function &function,
                                         const std::vector<void *> &buffers);

struct Target {
  std::string triple, cpu;
  std::vector<std::string> features; ///< LLVM's names of needed features

  /// True if steps run on a GPU and have the fields for GPUs.
  bool isGPU() const { return triple.rfind("nvptx64", 0) == 0; }
};

struct Plan {
  std::string producer;
  std::string modelName, modelHash;
  int64_t modelOpset = 0;
  std::string precision;
  std::string recipe; ///< the recipe as JSON text
  Target target;
  /// The size of the constants, which come first in the data section and which
  /// steps read. Initial values of state follow.
  int64_t constantBytes = 0;
  std::vector<StateVariable> state;
  std::map<std::string, Function, std::less<>> functions;
  std::map<std::string, Kernel, std::less<>> kernels;

  /// Returns the function or state variable called `name`; null if there is
  /// none.
  const Function *findFunction(std::string_view name) const;
  const StateVariable *findState(std::string_view name) const;

  /// The bytes of all state, and the bytes of the largest arena. A session
  /// allocates both, and its inputs.
  int64_t stateBytes() const;
  int64_t activationBytes() const;
};

/// Lists the names of `values` for a message: "'a', 'b'".
template <typename Values>
std::string listNames(const Values &values) {
  std::string list;
  for (const auto &value : values)
    list += (list.empty() ? "'" : ", '") + value.name + "'";
  return list.empty() ? "none" : list;
}

/// A Usage error for a name that the plan lacks: "no WHAT 'NAME'; there is
/// KNOWN".
Status unknownName(const std::string &what, std::string_view name,
                   const std::string &known);

/// The division of a plan's state among ranks, as one rank sees it.
class StateShares {
public:
  /// Deals the parameters to `ranks` ranks: those with the most bytes first,
  /// each to the rank with the fewest bytes so far. A parameter counts with the
  /// state that only the owner holds, and with its gradient. `plan` must
  /// outlive the object.
  explicit StateShares(const Plan &plan, int rank = 0, int ranks = 1);

  /// Returns the rank that owns a parameter, by the index in Plan::state.
  int ownerOf(size_t parameter) const { return owners[parameter]; }
  /// True if this rank owns the parameter.
  bool owns(size_t parameter) const { return owners[parameter] == rank; }

  /// Returns the rank that alone holds the variable; nullopt if each of the
  /// ranks holds it.
  std::optional<int> ownerOf(const StateVariable &variable) const {
    return ranks > 1 && variable.owner ? std::optional(owners[*variable.owner])
                                       : std::nullopt;
  }
  bool holds(const StateVariable &variable) const {
    return ownerOf(variable).value_or(rank) == rank;
  }
  /// True if some variables are on one of several ranks only. The functions
  /// that update or derive state must then run on all ranks together.
  bool isSharded() const;
  /// The bytes of the state that this rank holds.
  int64_t bytes() const;

private:
  const Plan &plan;
  int rank, ranks;
  std::vector<int> owners; ///< 0 for state that owns nothing
};

/// Parses the JSON `text` of a plan whose data section has `dataBytes` bytes,
/// and verifies the plan. Every failure is InvalidInput with the place in the
/// plan.
StatusOr<Plan> parsePlan(std::string_view text, int64_t dataBytes);

/// Checks indices, bounds, shapes and strides of a plan. parsePlan calls this
/// after parsing.
Status verifyPlan(const Plan &plan, int64_t dataBytes);

} // namespace mpc::runtime

#endif // MPC_RUNTIME_PLAN_H
