// The plan of an artifact as plain structs: what ArtifactFormat.h describes as
// JSON. A Plan that the parser handed out has been checked whole (indices,
// bounds, shapes, strides), so whoever executes it needs no checks of its own.
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

/// A piece of the artifact's data section.
struct DataRange {
  int64_t offset = 0;
  int64_t bytes = 0;
};

/// A state variable. Its initial value is a range of the data section or, where
/// there is none, `fill` everywhere.
struct StateVariable {
  std::string name;
  Role role = Role::Parameter;
  DType type = DType::F32;
  Shape shape;
  int64_t bytes = 0;
  std::optional<DataRange> data;
  double fill = 0;
};

/// A typed view of memory that steps name by its index in Function::buffers.
struct Buffer {
  Space space = Space::Arena;
  DType type = DType::F32;
  Shape shape;
  int64_t bytes = 0;
  int64_t offset = 0; ///< bytes from the start of the arena, the data section,
                      ///< the state variable or the input
  size_t index = 0;   ///< which state variable or input
};

/// A named input or output of a function.
struct FunctionValue {
  std::string name;
  Role role = Role::Data;
  size_t buffer = 0;
  /// Of an input of integers: which of them name elements of an axis.
  std::vector<IndexBox> indices = {};
  /// Of an input: the axis that samples are along; -1 where it has none and is
  /// the same for every batch.
  int64_t batchAxis = 0;
};

/// What the code of a kernel is made for: a step that calls it has just that.
struct Kernel {
  struct Argument {
    DType type = DType::F32;
    Shape shape;
  };
  std::vector<Argument> reads, writes;
  /// The result that an epilogue gets tiles of; nothing of other kernels, which
  /// have what follows, as in a LaunchStep.
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
  int64_t threads = 0;      ///< of a block; 0 on a CPU
  int64_t sharedBytes = 0;  ///< dynamic shared memory of a block
  int64_t scratchBytes = 0; ///< memory of each worker; 0 on a GPU
};

/// The generated code that consumes a contraction's fp32 tiles.
struct Epilogue {
  std::string kernel;
  std::vector<size_t> args; ///< args 1..n of mpc_epilogue_fn
};

/// What a GPU's library does with a product.
struct Fused {
  FusedKind kind = FusedKind::Bias;
  /// Those that the kind names.
  std::optional<size_t> bias, aux, biasGrad;
  /// What makes c or biasGrad where the library has no algorithm for the kind
  /// and writes p to c. Empty where nothing does.
  std::vector<LaunchStep> unfused = {};

  /// Bits of aux from one row to the next.
  static int64_t auxRowBits(int64_t n) { return (n + 127) / 128 * 128; }
};

/// Axes of a batch around the last one, outermost first, with the elements
/// between neighbours of each operand along each.
struct OuterAxes {
  std::vector<int64_t> extents, a, b, c;

  /// The elements from matrix 0 to matrix `index`, of a batch of `batch` by
  /// these, of the operand with `strides` and, along the batch, `stride`.
  int64_t offsetOf(const std::vector<int64_t> &strides, int64_t index,
                   int64_t batch, int64_t stride) const {
    int64_t offset = index % batch * stride;
    index /= batch;
    for (size_t axis = extents.size(); axis-- > 0; index /= extents[axis])
      offset += index % extents[axis] * strides[axis];
    return offset;
  }
};

/// c[b] = alpha * op(a[b]) op(b[b]), accumulated in fp32 or as `compute` says.
struct MatMulStep {
  size_t a = 0, b = 0;
  std::optional<size_t> c; ///< absent with an epilogue
  int64_t batch = 1, m = 0, n = 0, k = 0;
  bool transA = false, transB = false;
  int64_t lda = 0, ldb = 0, ldc = 0;             ///< elements
  int64_t strideA = 0, strideB = 0, strideC = 0; ///< elements; 0 repeats
  int64_t offsetA = 0, offsetB = 0;              ///< elements
  OuterAxes outer; ///< on a GPU one call of the library each
  double alpha = 1;
  int64_t tileM = 0, tileN = 0; ///< 0 on a GPU
  std::optional<Epilogue> epilogue;
  Compute compute = Compute::F32;
  std::optional<Fused> fused;

  /// All matrices of the result.
  int64_t batches() const {
    int64_t count = batch;
    for (int64_t extent : outer.extents)
      count *= extent;
    return count;
  }
};

/// A convolution or one of its gradients: x and y in NHWC.
struct ConvStep {
  ConvKind kind = ConvKind::Forward;
  FilterLayout filterLayout = FilterLayout::OIHW;
  Compute compute = Compute::F32;
  std::optional<size_t> x, w, y; ///< the written one is absent with an epilogue
  int64_t batch = 1, groups = 1, inChannels = 0, outChannels = 0;
  std::vector<int64_t> inSpatial, outSpatial, kernel;
  std::vector<int64_t> strides, dilations, padsBegin, padsEnd;
  std::optional<Epilogue> epilogue;
};

/// Where rows of a buffer go, in bytes.
struct RowTarget {
  int64_t rowBytes = 0, offset = 0, stride = 0;
};

/// Rows of a buffer to all of another, or to rows of it.
struct StridedRows {
  int64_t rows = 1, offset = 0, stride = 0; ///< the last two in bytes
  std::optional<RowTarget> target = std::nullopt;
};

struct CopyStep {
  size_t src = 0, dst = 0;
  std::optional<StridedRows> strided;
};

/// Integers of a buffer that name elements of axes; the run stops where one
/// does not.
struct CheckIndicesStep {
  size_t buffer = 0;
  std::vector<IndexBox> indices;
};

struct Step;

/// Runs `then` where the predicate (a scalar of type i1) is not zero, else
/// `otherwise`.
struct IfStep {
  size_t predicate = 0;
  std::vector<Step> then, otherwise;
};

/// A buffer that moves from one iteration of a loop to the next.
struct MovingBuffer {
  size_t buffer = 0;
  int64_t bytes = 0; ///< below 0: towards the start of the memory
};

/// Memory of the arena that each iteration of a loop has for itself.
struct PrivateMemory {
  int64_t offset = 0, bytes = 0;

  bool contains(int64_t begin, int64_t end) const {
    return offset <= begin && end <= offset + bytes;
  }
  /// Whether all of the buffer is in it.
  bool contains(const Buffer &buffer) const {
    return buffer.space == Space::Arena &&
           contains(buffer.offset, buffer.offset + buffer.bytes);
  }
};

/// Runs `steps` `count` times. Other buffers than the moving ones lie where
/// they do in each iteration. Of a loop with private memory (not on a GPU) the
/// iterations may run at the same time, each in a copy of that memory.
struct ForStep {
  int64_t count = 1;
  std::vector<MovingBuffer> moving;
  std::optional<PrivateMemory> privateMemory;
  std::vector<Step> steps;
};

struct Step {
  std::string name; ///< the ONNX node this is reported under
  std::variant<LaunchStep, MatMulStep, ConvStep, CopyStep, CheckIndicesStep,
               IfStep, ForStep>
      op;
  /// The other nodes that it computes, as far as the artifact names them.
  std::vector<std::string> others = {};
};

/// The buffers that a step reads and writes, some more than once; none of a
/// condition or a loop, whose steps have them.
std::vector<size_t> listBuffers(const Step &step);

/// One function: a list of steps over one arena.
struct Function {
  std::string name;
  int64_t arenaBytes = 0;
  std::vector<FunctionValue> inputs, outputs;
  std::vector<Buffer> buffers;
  std::vector<Step> steps;

  /// The value of that name, or null.
  const FunctionValue *findInput(std::string_view name) const;
  const FunctionValue *findOutput(std::string_view name) const;
};

struct Target {
  std::string triple, cpu;
  std::vector<std::string> features; ///< LLVM's names of what the code needs

  /// Whether steps run on a GPU, and so have what GPUs need.
  bool isGPU() const { return triple.rfind("nvptx64", 0) == 0; }
};

struct Plan {
  std::string producer;
  std::string modelName, modelHash;
  int64_t modelOpset = 0;
  std::string precision;
  std::string recipe; ///< the recipe as JSON text
  Target target;
  /// The first bytes of the data section: the constants, which steps read. The
  /// others are initial values of state.
  int64_t constantBytes = 0;
  std::vector<StateVariable> state;
  std::map<std::string, Function, std::less<>> functions;
  std::map<std::string, Kernel, std::less<>> kernels;

  /// The function or state variable of that name, or null.
  const Function *findFunction(std::string_view name) const;
  const StateVariable *findState(std::string_view name) const;

  /// What a session holds beside its inputs: all state, and the largest arena.
  int64_t stateBytes() const;
  int64_t activationBytes() const;
};

/// Parses the JSON `text` of a plan whose data section has `dataBytes` bytes,
/// and checks all of it. Every failure is InvalidInput and says where.
StatusOr<Plan> parsePlan(std::string_view text, int64_t dataBytes);

/// Checks what the structs say against each other: the second half of
/// parsePlan.
Status verifyPlan(const Plan &plan, int64_t dataBytes);

} // namespace mpc::runtime

#endif // MPC_RUNTIME_PLAN_H
