// The words that both an artifact's plan and the compiler's IR are written in,
// and the names that mpc gives to functions, state and inputs of its own. Each
// stands here and nowhere else: the reader and the writer of plans, and the
// attributes of the IR, take them from this header, which depends on nothing.
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
// Names that mpc gives
//===----------------------------------------------------------------------===//

/// The functions of a module, each of which becomes a program of the artifact.
inline constexpr char kForwardFunction[] = "forward"; ///< before it has a loss
inline constexpr char kInitFunction[] = "init";
inline constexpr char kStepFunction[] = "step"; ///< a batch and the update
inline constexpr char kAccumulateFunction[] = "accumulate"; ///< a micro-batch
inline constexpr char kUpdateFunction[] = "update"; ///< after some of these
inline constexpr char kEvalFunction[] = "eval";
inline constexpr char kDeriveFunction[] = "derive"; ///< state from other state

/// All of them: no state of a model is called so.
inline constexpr const char *kFunctions[] = {
    kForwardFunction, kInitFunction, kStepFunction,  kAccumulateFunction,
    kUpdateFunction,  kEvalFunction, kDeriveFunction};

/// Behind an input's name, the name of labels that take the array of that
/// input, which the model reads as well: "x.target" of an autoencoder's "x".
inline constexpr char kLabelSuffix[] = ".target";

/// What all state that mpc adds of its own, and no state of a model, starts
/// with.
inline constexpr char kOwnPrefix[] = "mpc.";
inline constexpr char kSeedVariable[] = "mpc.seed";
inline constexpr char kStepVariable[] = "mpc.step";
inline constexpr char kMicroStepVariable[] = "mpc.micro_step";
inline constexpr char kLossScaleVariable[] = "mpc.loss_scale";
inline constexpr char kGoodStepsVariable[] = "mpc.good_steps";
inline constexpr char kHysteresisVariable[] = "mpc.hysteresis";

/// State of the parameter "P" is called "P.ema" and the like.
inline constexpr char kAverageSuffix[] = ".ema";
inline constexpr char kGradientSuffix[] = ".grad"; ///< a sum over micro-batches
inline constexpr char kLowSuffix[] = ".low";       ///< the copy in 16 bits
inline constexpr char kFirstMomentSuffix[] = ".m"; ///< Adam's
inline constexpr char kSecondMomentSuffix[] = ".v";

/// Inputs of the role Scalar, which whoever trains gives.
inline constexpr char kLearningRateInput[] = "learning_rate";
inline constexpr char kSeedInput[] = "seed";

//===----------------------------------------------------------------------===//
// Enumerations
//===----------------------------------------------------------------------===//

/// The documented exit codes of the command line. They are also what kind of
/// failure a status of the runtime, a diagnostic of the compiler, or an error
/// of the importer is of.
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
  Internal = 70, ///< mpc broke its own rules
};

/// What a state variable, an input or an output is for.
enum class Role {
  // State. An average is that of a parameter "P" over the steps, called
  // "P.ema"; what is derived is recomputed from other state and never saved.
  Parameter,
  Frozen,
  OptimizerState,
  Average,
  Statistic,
  LossScale, // the only one that is also an output's
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
  // An output between Differentiation's passes, and of no artifact: what the
  // optimizer takes of the variable that the output is named after.
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

/// What the memory of a buffer is part of.
enum class Space { Arena, State, Input, Constant };

/// What a step of a program does.
enum class StepKind { Launch, MatMul, Conv, Copy, CheckIndices, If, For };

/// Where the input channels of a convolution's filter stand.
enum class FilterLayout {
  OIHW, ///< (out, in / group, spatial...), ONNX's order
  OHWI, ///< (out, spatial..., in / group), which libraries of GPUs take
};

/// Which of its operands a convolution writes: y, x or w.
enum class ConvKind { Forward, InputGrad, WeightGrad };

/// What a GPU's library computes products in.
enum class Compute { F32, TF32, F64 };

/// What a GPU's library does with a product p = alpha * op(a) op(b).
enum class FusedKind {
  Bias,        ///< c = p + bias, one a column
  ReluBias,    ///< c = max(p + bias, 0), or 0 where that is NaN
  ReluAuxBias, ///< the same, and writes to aux where p + bias > 0
  DRelu,       ///< c = p where aux has a bit, else 0
  DReluBGrad,  ///< the same, and bias_grad is the sum of c's rows
  BGradA,      ///< c = p, and bias_grad is op(a) summed along k
  BGradB,      ///< c = p, and bias_grad is op(b) summed along k
};

//===----------------------------------------------------------------------===//
// How they are written
//===----------------------------------------------------------------------===//

/// The words of an enumeration, in the order of its enumerators, and what one
/// of them is called in messages.
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
  static constexpr std::string_view list[] = {
      "launch", "matmul", "conv", "copy", "check_indices", "if", "for"};
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
struct Words<Compute> {
  static constexpr std::string_view kind = "compute type";
  static constexpr std::string_view list[] = {"f32", "tf32", "f64"};
};

template <>
struct Words<FusedKind> {
  static constexpr std::string_view kind = "kind of fused product";
  static constexpr std::string_view list[] = {
      "bias",        "relu_bias", "relu_aux_bias", "drelu",
      "drelu_bgrad", "bgrad_a",   "bgrad_b"};
};

// A list that misses a word, or has one too many, does not compile.
static_assert(std::size(Words<Role>::list) == size_t(Role::Gradient) + 1);
static_assert(std::size(Words<DType>::list) == size_t(DType::U64) + 1);
static_assert(std::size(Words<Space>::list) == size_t(Space::Constant) + 1);
static_assert(std::size(Words<StepKind>::list) == size_t(StepKind::For) + 1);
static_assert(std::size(Words<FilterLayout>::list) ==
              size_t(FilterLayout::OHWI) + 1);
static_assert(std::size(Words<ConvKind>::list) ==
              size_t(ConvKind::WeightGrad) + 1);
static_assert(std::size(Words<Compute>::list) == size_t(Compute::F64) + 1);
static_assert(std::size(Words<FusedKind>::list) ==
              size_t(FusedKind::BGradB) + 1);

/// The word for an enumerator.
template <typename Enum>
constexpr std::string_view stringify(Enum value) {
  return Words<Enum>::list[static_cast<size_t>(value)];
}

/// The enumerator that a word stands for; nothing where it is none.
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

/// Whether state of that role is a piece of the model: what a model file has,
/// and a trained model is made of.
constexpr bool isModelRole(Role role) {
  return role == Role::Parameter || role == Role::Frozen ||
         role == Role::Statistic;
}

} // namespace mpc

namespace mpc::runtime {
// For whoever uses the runtime's namespace alone.
using mpc::Compute;
using mpc::ConvKind;
using mpc::DType;
using mpc::FilterLayout;
using mpc::FusedKind;
using mpc::Role;
using mpc::Space;
using mpc::StepKind;
} // namespace mpc::runtime

#endif // MPC_RUNTIME_NAMES_H
