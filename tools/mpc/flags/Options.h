// Command-line flags that several commands of mpc share.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TOOLS_MPC_FLAGS_OPTIONS_H
#define MPC_TOOLS_MPC_FLAGS_OPTIONS_H

#include "compiler/Support/ExitCode.h"
#include "frontends/ONNX/Model/ImportOptions.h"
#include "passes/Pipeline.h"
#include "runtime/Session.h"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
} // namespace CLI

namespace mpc::tools {

/// The model, and the flags that fix its shapes and weights.
struct ModelOptions {
  std::string model;
  std::vector<std::string> shapes; ///< NAME=32x3x224x224
  int64_t batchSize = 0;
  std::vector<std::string> batchAxes; ///< NAME=1, NAME=none
  std::vector<std::string> weights;
  std::vector<std::string> weightsPrefixes; ///< FROM=TO, to rename weights
  std::string optimizerModel;
  std::vector<std::string> noRepair; ///< repairs of the model to skip
};

/// Values of those loss flags that accept a file.
struct LossFiles {
  std::string classWeights; ///< --class-weights
  std::string posWeight;    ///< --pos-weight: a number or a file
};

/// Everything that determines the result of compiling a model.
struct CompileOptions {
  ModelOptions model;
  LossFiles lossFiles;
  PipelineOptions pipeline;
  /// True if BatchNormalization and Dropout keep the mode, training or
  /// inference, in which the model was exported.
  bool asExported = false;
  onnx_frontend::RunningVariance runningVariance =
      onnx_frontend::RunningVariance::Auto;
  /// The value of --kernel-cache: a folder, `auto` or `none`. The cache affects
  /// only the time of compilation.
  std::string kernelCache = "auto";
  /// The number of threads that compile kernels; 0 for one per usable core.
  int threads = 0;
  /// True for `mpc run` without --function: the user wants the outputs of the
  /// graph. So an output that looks like an updated parameter remains an
  /// output.
  bool wantsOutputs = false;
  /// True if the artifact of a forward model must record the sample axes of
  /// inputs and outputs. `mpc run` needs the axes to run in batches.
  bool findsSamples = false;
  /// True if --target-array names an array that `mpc run` drops, so the flag
  /// has an effect.
  bool leavesOutLabels = false;
  /// True if an open batch size becomes the default one. For commands that do
  /// not run the model.
  bool assumesBatch = false;
  /// The GPU whose libraries must be new enough for attention; nullopt if no
  /// GPU runs the code, or if the user has chosen who computes attention.
  std::optional<runtime::DeviceId> attentionDevice;
  /// True for --trust: the code of an artifact may run whoever wrote the file.
  bool isTrusted = false;
  /// Returns the given flags of these options, whether from the command line,
  /// the environment or a file.
  std::function<std::vector<std::string>()> given;
};

/// The heading under which help lists the compile flags. An artifact records
/// the values, which cannot be changed.
inline constexpr char kCompileGroup[] = "Compilation";

/// Adds the MODEL argument and the flags of CompileOptions.
void addCompileOptions(CLI::App &command, CompileOptions &options);

/// Adds --no-repair, for commands that read a model.
void addRepairOption(CLI::App &command, std::vector<std::string> &names);

/// Adds --kernel-cache, for commands that compile to machine code.
void addKernelCacheOption(CLI::App &command, CompileOptions &options);

/// Adds --device and --threads.
void addSessionOptions(CLI::App &command, runtime::SessionOptions &options);

/// The effect of --device cuda if the driver shows no GPU.
enum class WithoutGPU {
  Fail,         ///< error, because the command runs on it
  CompileForAny ///< for the oldest GPU; newer ones run it
};

/// Makes --target and --device agree. Without --target, code is compiled for
/// the GPU of --device; with --device auto, for the GPU of this computer, if
/// any. Returns Done, or another code after printing an error. Throws
/// CLI::ValidationError if --target and --device contradict each other.
ExitCode matchTargetAndDevice(const CLI::App &command, std::string &target,
                              std::string &device, WithoutGPU withoutGPU);

/// Calls matchTargetAndDevice for a command that runs the compiled code, so a
/// requested GPU must exist. Also sets the number of compiling threads to that
/// of the session.
ExitCode matchSession(const CLI::App &command, CompileOptions &options,
                      runtime::SessionOptions &session);

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_FLAGS_OPTIONS_H
