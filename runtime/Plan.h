// The plan of an artifact as plain structs; ArtifactFormat.h describes the
// JSON. The parser checks a Plan completely (indices, bounds, shapes, strides),
// so code that executes the plan needs no checks.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_PLAN_H
#define MPC_RUNTIME_PLAN_H

#include "runtime/Indices.h"
#include "runtime/Names.h"
#include "runtime/Tensor.h"

#include <map>
#include <optional>
#include <string>
#include <variant>
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
  /// For an integer input: the boxes of elements that index an axis.
  std::vector<IndexBox> indices = {};
  /// For an input: the axis along which samples lie. -1 if the input has no
  /// such axis and is equal for all batches.
  int64_t batchAxis = 0;
};

/// The arguments and sizes that a kernel's code is made for. A step that calls
/// the kernel must match exactly.
struct Kernel {
  struct Argument {
    DType type = DType::F32;
    Shape shape;
  };
  std::vector<Argument> reads, writes;
  /// For an epilogue: the result whose tiles the epilogue gets. Other kernels
  /// have the fields below instead, as in a LaunchStep.
  struct Matrix {
    int64_t rows = 0, columns = 0;
  };
  std::optional<Matrix> tiled = std::nullopt;
  int64_t extent = 0, grain = 1;
  int64_t threads = 0, sharedBytes = 0, scratchBytes = 0;
};

struct LaunchStep {
  std::string kernel;
  std::vector<size_t> args;
  int64_t extent = 0, grain = 1;
  int64_t threads = 0;      ///< per block; 0 on a CPU
  int64_t sharedBytes = 0;  ///< dynamic shared memory per block
  int64_t scratchBytes = 0; ///< memory per worker; 0 on a GPU
};

/// Generated code that consumes a contraction's fp32 tiles.
struct Epilogue {
  std::string kernel;
  std::vector<size_t> args; ///< args 1..n of mpc_epilogue_fn
};

/// The operation that a library fuses with a product.
struct Fused {
  FusedKind kind = FusedKind::Bias;
  /// The operands that `kind` requires.
  std::optional<size_t> bias, aux, biasGrad;
  /// Launches that complete c or biasGrad if the library has no algorithm for
  /// `kind` and writes p to c. May be empty.
  std::vector<LaunchStep> unfused = {};

  /// Returns the bits between the starts of two rows of aux.
  static int64_t auxRowBits(int64_t n) { return (n + 127) / 128 * 128; }
};

/// The batch axes around the last one, outermost first. `a`, `b` and `c` have
/// the stride of each operand along each axis, in elements.
struct OuterAxes {
  std::vector<int64_t> extents, a, b, c;

  /// Returns the elements from matrix 0 to matrix `index`. The batch consists
  /// of these axes around an axis of `batch` matrices. `strides` and `stride`
  /// are the operand's strides along them.
  int64_t offsetOf(const std::vector<int64_t> &strides, int64_t index,
                   int64_t batch, int64_t stride) const {
    int64_t offset = index % batch * stride;
    index /= batch;
    for (size_t axis = extents.size(); axis-- > 0; index /= extents[axis])
      offset += index % extents[axis] * strides[axis];
    return offset;
  }
};

/// c[b] = alpha * op(a[b]) op(b[b]), accumulated in fp32 or in `compute`.
struct MatMulStep {
  size_t a = 0, b = 0;
  std::optional<size_t> c; ///< nullopt with an epilogue
  int64_t batch = 1, m = 0, n = 0, k = 0;
  bool transA = false, transB = false;
  int64_t lda = 0, ldb = 0, ldc = 0;             ///< elements
  int64_t strideA = 0, strideB = 0, strideC = 0; ///< elements; 0 repeats
  int64_t offsetA = 0, offsetB = 0;              ///< elements
  OuterAxes outer; ///< on a GPU, each index is a separate library call
  double alpha = 1;
  int64_t tileM = 0, tileN = 0; ///< 0 on a GPU
  std::optional<Epilogue> epilogue;
  Compute compute = Compute::F32;
  std::optional<Fused> fused;

  /// Counts all matrices of the result.
  int64_t batches() const {
    int64_t count = batch;
    for (int64_t extent : outer.extents)
      count *= extent;
    return count;
  }
};

/// A convolution or one of its gradients, with x and y in NHWC.
struct ConvStep {
  ConvKind kind = ConvKind::Forward;
  FilterLayout filterLayout = FilterLayout::OIHW;
  Compute compute = Compute::F32;
  /// With an epilogue, the written one is nullopt.
  std::optional<size_t> x, w, y;
  int64_t batch = 1, groups = 1, inChannels = 0, outChannels = 0;
  std::vector<int64_t> inSpatial, outSpatial, kernel;
  std::vector<int64_t> strides, dilations, padsBegin, padsEnd;
  std::optional<Epilogue> epilogue;
};

/// The destination of rows, in bytes.
struct RowTarget {
  int64_t rowBytes = 0, offset = 0, stride = 0;
};

/// Copies rows of a buffer to all of another buffer, or to rows of it.
struct StridedRows {
  int64_t rows = 1, offset = 0, stride = 0; ///< the last two in bytes
  std::optional<RowTarget> target = std::nullopt;
};

struct CopyStep {
  size_t src = 0, dst = 0;
  std::optional<StridedRows> strided;
};

/// Checks that integers of a buffer index elements of axes. The run stops at an
/// out-of-range integer.
struct CheckIndicesStep {
  size_t buffer = 0;
  std::vector<IndexBox> indices;
};

struct Step;

/// Runs `then` if the predicate (an i1 scalar) is true, else `otherwise`.
struct IfStep {
  size_t predicate = 0;
  std::vector<Step> then, otherwise;
};

/// A buffer whose address changes by `bytes` after each iteration of a loop.
struct MovingBuffer {
  size_t buffer = 0;
  int64_t bytes = 0; ///< negative: towards the start of the memory
};

/// A range of the arena of which each iteration of a loop has its own copy.
struct PrivateMemory {
  int64_t offset = 0, bytes = 0;

  bool contains(int64_t begin, int64_t end) const {
    return offset <= begin && end <= offset + bytes;
  }
  /// True if all of the buffer is in the range.
  bool contains(const Buffer &buffer) const {
    return buffer.space == Space::Arena &&
           contains(buffer.offset, buffer.offset + buffer.bytes);
  }
};

/// Runs `steps` `count` times. Only the moving buffers change their addresses
/// between iterations. With private memory (not on a GPU) iterations may run at
/// the same time, each in its own copy of the private memory.
struct ForStep {
  int64_t count = 1;
  std::vector<MovingBuffer> moving;
  std::optional<PrivateMemory> privateMemory;
  std::vector<Step> steps;
};

struct Step {
  std::string name; ///< the ONNX node that reports show for the step
  std::variant<LaunchStep, MatMulStep, ConvStep, CopyStep, CheckIndicesStep,
               IfStep, ForStep>
      op;
  /// Other nodes that the step computes, as far as the artifact names them.
  std::vector<std::string> others = {};
};

/// Returns the buffers that a step reads and writes, some more than once. For a
/// condition only the predicate, for a loop none: their inner steps have
/// buffers.
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

  /// The memory of a session besides its inputs: the bytes of all state, and
  /// the bytes of the largest arena.
  int64_t stateBytes() const;
  int64_t activationBytes() const;
};

/// Parses the JSON `text` of a plan whose data section has `dataBytes` bytes,
/// and verifies the plan. Every failure is InvalidInput with the place in the
/// plan.
StatusOr<Plan> parsePlan(std::string_view text, int64_t dataBytes);

/// Checks the structs of a plan against each other: the second half of
/// parsePlan.
Status verifyPlan(const Plan &plan, int64_t dataBytes);

} // namespace mpc::runtime

#endif // MPC_RUNTIME_PLAN_H
