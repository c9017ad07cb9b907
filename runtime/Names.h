// Words that an artifact's plan and the compiler's IR share, and names that mpc
// gives to functions, state and inputs. Each is defined here only: the plan's
// reader and writer and the IR's attributes use this header, which depends on
// nothing.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_NAMES_H
#define MPC_RUNTIME_NAMES_H

#include <cstddef>
#include <iterator>
#include <optional>
#include <string_view>

namespace mpc {

//===----------------------------------------------------------------------===//
// Names
//===----------------------------------------------------------------------===//

/// Names of a module's functions. Each becomes a function of the artifact's
/// plan.
inline constexpr char kForwardFunction[] = "forward"; ///< without a loss
inline constexpr char kInitFunction[] = "init";
inline constexpr char kStepFunction[] = "step"; ///< one batch and the update
inline constexpr char kAccumulateFunction[] = "accumulate"; ///< one micro-batch
inline constexpr char kUpdateFunction[] = "update"; ///< after micro-batches
inline constexpr char kEvalFunction[] = "eval";
inline constexpr char kDeriveFunction[] = "derive"; ///< derived state

/// All functions. No state of a model has these names.
inline constexpr const char *kFunctions[] = {
    kForwardFunction, kInitFunction, kStepFunction,  kAccumulateFunction,
    kUpdateFunction,  kEvalFunction, kDeriveFunction};

/// Suffix for a label input whose data are the array of a model input. For the
/// input "x" of an autoencoder, the label input is called "x.target".
inline constexpr char kLabelSuffix[] = ".target";

/// Prefix of the names of all state that mpc adds. Models cannot use the
/// prefix.
inline constexpr char kOwnPrefix[] = "mpc.";
inline constexpr char kSeedVariable[] = "mpc.seed";
inline constexpr char kStepVariable[] = "mpc.step";
inline constexpr char kMicroStepVariable[] = "mpc.micro_step";
inline constexpr char kLossScaleVariable[] = "mpc.loss_scale";
inline constexpr char kGoodStepsVariable[] = "mpc.good_steps";
inline constexpr char kHysteresisVariable[] = "mpc.hysteresis";

/// Suffixes of state that belongs to a parameter: the average of "P" is
/// "P.ema".
inline constexpr char kAverageSuffix[] = ".ema";
inline constexpr char kGradientSuffix[] = ".grad"; ///< a sum over micro-batches
inline constexpr char kLowSuffix[] = ".low";       ///< the 16-bit copy
inline constexpr char kFirstMomentSuffix[] = ".m"; ///< Adam's first moment
inline constexpr char kSecondMomentSuffix[] = ".v";

/// Inputs of role Scalar, which the trainer sets.
inline constexpr char kLearningRateInput[] = "learning_rate";
inline constexpr char kSeedInput[] = "seed";

//===----------------------------------------------------------------------===//
// Enumerations
//===----------------------------------------------------------------------===//

/// The documented exit codes of the command line. They also classify the
/// runtime's statuses, the compiler's diagnostics and the importer's errors.
enum class ExitCode : int {
  Done = 0,
  FoundProblems = 1,
  Usage = 2,        ///< an option or flag does not fit
  InvalidInput = 3, ///< a file breaks its format's rules
  Unsupported = 4,  ///< valid, but mpc cannot do it
  IO = 5,           ///< a file cannot be read or written
  Device = 6,
  Numeric = 7,
  Checkpoint = 8,
  Rank = 9,      ///< another rank of a distributed run failed or never came
  Internal = 70, ///< mpc broke its own rules
};

/// The purpose of a state variable, an input or an output.
enum class Role {
  // State. `Average` is the average of a parameter "P" over the steps, called
  // "P.ema". `Derived` state is recomputed from other state and never saved.
  Parameter,
  Frozen,
  OptimizerState,
  Average,
  Statistic,
  LossScale, // of state and of an output
  Counter,
  Accumulator,
  Derived,
  // Inputs.
  Data,
  Label,
  Scalar,
  // Outputs.
  Loss,
  SampleLoss,
  SampleWeight,
  Prediction,
  Correct,
  GradNorm,
  Finite,
  Output,
  // An output that only exists between Differentiation's passes: the
  // optimizer's gradient for the variable that the output is named after.
  Gradient,
};

/// Element types of buffers. I1 is one byte, 0 or 1.
enum class DType {
  F16,
  BF16,
  F32,
  F64,
  I32,
  I64,
  I1,
  U8,
  I8,
  U16,
  I16,
  U32,
  U64
};

/// The memory that a buffer belongs to.
enum class Space { Arena, State, Input, Constant };

/// The operation of a step in a plan.
enum class StepKind {
  Launch,
  MatMul,
  Conv,
  Attention,
  Copy,
  CheckIndices,
  AllReduce,
  ReduceScatter,
  AllGather,
  If,
  For
};

/// The position of the input channels in a convolution's filter.
enum class FilterLayout {
  OIHW, ///< (out, in / group, spatial...), ONNX's order
  OHWI, ///< (out, spatial..., in / group), which libraries of GPUs take
};

/// The operand that a convolution writes: y, x or w.
enum class ConvKind { Forward, InputGrad, WeightGrad };

/// The part of an attention that a step computes.
enum class AttentionKind { Forward, Gradient };

/// The type in which a GPU's library computes products.
enum class Compute { F32, TF32, F64 };

/// The reduction of an element over the ranks of a distributed run.
enum class Reduce { Sum, Mean, Max };

/// The operation that a library fuses with a product p = alpha * op(a) op(b). A
/// CPU supports only BGradA and BGradB.
enum class FusedKind {
  Bias,        ///< c = p + bias, an element of bias per column
  ReluBias,    ///< c = max(p + bias, 0), or 0 if p + bias is NaN
  ReluAuxBias, ///< like ReluBias, and writes the bits p + bias > 0 to aux
  DRelu,       ///< c = p if aux has a bit, else 0
  DReluBGrad,  ///< like DRelu, and bias_grad is the sum of c's rows
  BGradA,      ///< c = p, and bias_grad is op(a) summed along k
  BGradB,      ///< c = p, and bias_grad is op(b) summed along k
};

//===----------------------------------------------------------------------===//
// Words of enumerations
//===----------------------------------------------------------------------===//

/// The words of an enumeration, in the order of its enumerators. `kind` names
/// the enumeration in messages.
template <typename Enum>
struct Words;

template <>
struct Words<Role> {
  static constexpr std::string_view kind = "role";
  static constexpr std::string_view list[] = {
      "parameter", "frozen",      "optimizer_state", "average",
      "statistic", "loss_scale",  "counter",         "accumulator",
      "derived",   "data",        "label",           "scalar",
      "loss",      "sample_loss", "sample_weight",   "prediction",
      "correct",   "grad_norm",   "finite",          "output",
      "gradient"};
};

template <>
struct Words<DType> {
  static constexpr std::string_view kind = "element type";
  static constexpr std::string_view list[] = {
      "f16", "bf16", "f32", "f64", "i32", "i64", "i1",
      "u8",  "i8",   "u16", "i16", "u32", "u64"};
};

template <>
struct Words<Space> {
  static constexpr std::string_view kind = "space";
  static constexpr std::string_view list[] = {"arena", "state", "input",
                                              "constant"};
};

template <>
struct Words<StepKind> {
  static constexpr std::string_view kind = "step";
  static constexpr std::string_view list[] = {"launch",     "matmul",
                                              "conv",       "attention",
                                              "copy",       "check_indices",
                                              "all_reduce", "reduce_scatter",
                                              "all_gather", "if",
                                              "for"};
};

template <>
struct Words<FilterLayout> {
  static constexpr std::string_view kind = "filter layout";
  static constexpr std::string_view list[] = {"OIHW", "OHWI"};
};

template <>
struct Words<ConvKind> {
  static constexpr std::string_view kind = "kind of convolution";
  static constexpr std::string_view list[] = {"forward", "input_grad",
                                              "weight_grad"};
};

template <>
struct Words<AttentionKind> {
  static constexpr std::string_view kind = "kind of attention";
  static constexpr std::string_view list[] = {"forward", "gradient"};
};

template <>
struct Words<Compute> {
  static constexpr std::string_view kind = "compute type";
  static constexpr std::string_view list[] = {"f32", "tf32", "f64"};
};

template <>
struct Words<Reduce> {
  static constexpr std::string_view kind = "reduction over ranks";
  static constexpr std::string_view list[] = {"sum", "mean", "max"};
};

template <>
struct Words<FusedKind> {
  static constexpr std::string_view kind = "kind of fused product";
  static constexpr std::string_view list[] = {
      "bias",        "relu_bias", "relu_aux_bias", "drelu",
      "drelu_bgrad", "bgrad_a",   "bgrad_b"};
};

// Compilation fails if a list lacks the word of an enumerator or has one too
// many.
static_assert(std::size(Words<Role>::list) == size_t(Role::Gradient) + 1);
static_assert(std::size(Words<DType>::list) == size_t(DType::U64) + 1);
static_assert(std::size(Words<Space>::list) == size_t(Space::Constant) + 1);
static_assert(std::size(Words<StepKind>::list) == size_t(StepKind::For) + 1);
static_assert(std::size(Words<FilterLayout>::list) ==
              size_t(FilterLayout::OHWI) + 1);
static_assert(std::size(Words<ConvKind>::list) ==
              size_t(ConvKind::WeightGrad) + 1);
static_assert(std::size(Words<AttentionKind>::list) ==
              size_t(AttentionKind::Gradient) + 1);
static_assert(std::size(Words<Compute>::list) == size_t(Compute::F64) + 1);
static_assert(std::size(Words<Reduce>::list) == size_t(Reduce::Max) + 1);
static_assert(std::size(Words<FusedKind>::list) ==
              size_t(FusedKind::BGradB) + 1);

/// Returns the word of an enumerator.
template <typename Enum>
constexpr std::string_view stringify(Enum value) {
  return Words<Enum>::list[static_cast<size_t>(value)];
}

/// Returns the enumerator of a word; nullopt for an unknown word.
template <typename Enum>
constexpr std::optional<Enum> symbolize(std::string_view word) {
  for (size_t i = 0; i < std::size(Words<Enum>::list); ++i)
    if (Words<Enum>::list[i] == word)
      return static_cast<Enum>(i);
  return std::nullopt;
}

//===----------------------------------------------------------------------===//
// Roles
//===----------------------------------------------------------------------===//

constexpr bool isStateRole(Role role) { return role <= Role::Derived; }
constexpr bool isInputRole(Role role) {
  return role >= Role::Data && role <= Role::Scalar;
}
constexpr bool isOutputRole(Role role) {
  return (role >= Role::Loss && role <= Role::Output) ||
         role == Role::LossScale;
}

/// True if model files store state of this role.
constexpr bool isModelRole(Role role) {
  return role == Role::Parameter || role == Role::Frozen ||
         role == Role::Statistic;
}

} // namespace mpc

namespace mpc::runtime {
// Lets code in the runtime's namespace use these names unqualified.
using mpc::AttentionKind;
using mpc::Compute;
using mpc::ConvKind;
using mpc::DType;
using mpc::FilterLayout;
using mpc::FusedKind;
using mpc::Reduce;
using mpc::Role;
using mpc::Space;
using mpc::StepKind;
} // namespace mpc::runtime

#endif // MPC_RUNTIME_NAMES_H
