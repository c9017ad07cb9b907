// Command-line flags that several subcommands share.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TOOLS_MPC_FLAGS_OPTIONS_H
#define MPC_TOOLS_MPC_FLAGS_OPTIONS_H

#include "compiler/Support/ExitCode.h"
#include "frontends/ONNX/Model/ImportOptions.h"
#include "passes/Pipeline.h"
#include "runtime/Session.h"

#include <functional>
#include <string>
#include <vector>

namespace CLI {
class App;
} // namespace CLI

namespace mpc::tools {

/// The model, and what fixes its shapes and weights.
struct ModelOptions {
  std::string model;
  std::vector<std::string> shapes; ///< NAME=32x3x224x224
  int64_t batchSize = 0;
  std::vector<std::string> batchAxes; ///< NAME=1, NAME=none
  std::vector<std::string> weights;
  std::vector<std::string> weightsPrefixes; ///< FROM=TO, of names in `weights`
  std::string optimizerModel;
  std::vector<std::string> noRepair; ///< names of repairs to leave out
};

/// Arguments of loss flags that may be files.
struct LossFiles {
  std::string classWeights; ///< --class-weights
  std::string posWeight;    ///< --pos-weight: a number or a file
};

/// Everything that determines the result of compiling a model.
struct CompileOptions {
  ModelOptions model;
  LossFiles lossFiles;
  PipelineOptions pipeline;
  /// True if BatchNormalization and Dropout keep the mode they were exported
  /// in.
  bool asExported = false;
  onnx_frontend::RunningVariance runningVariance =
      onnx_frontend::RunningVariance::Auto;
  /// The folder of --kernel-cache, `auto` or `none`. Changes only how long
  /// compiling takes.
  std::string kernelCache = "auto";
  /// Number of kernels compiled at once; 0 for one per usable core.
  int threads = 0;
  /// True if a graph runs for its outputs (`mpc run` without --function), even
  /// if an output looks like an updated parameter.
  bool wantsOutputs = false;
  /// True if the artifact of a forward model records the sample axes of inputs
  /// and outputs, to run more samples than a batch.
  bool findsSamples = false;
  /// True if --target-array names an array that a run leaves out.
  bool leavesOutLabels = false;
  /// True if an open batch size becomes the usual one, in commands that run
  /// nothing.
  bool assumesBatch = false;
  /// True if the code of an artifact runs no matter who wrote the artifact.
  bool isTrusted = false;
  /// Lists the flags for these options that were given, in any way.
  std::function<std::vector<std::string>()> given;
};

/// The help heading of the flags that an artifact is compiled with. They cannot
/// be changed for an artifact.
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
  Fail,         ///< the command has to run on it
  CompileForAny ///< for the oldest GPU; newer ones run the code
};

/// Makes --target and --device agree: unless both are given, the GPU to compile
/// for is the GPU to run on. Without --target, the code is for the GPU of this
/// computer, under `auto` too. Done, or a reported error. Throws
/// CLI::ValidationError if the two contradict each other.
ExitCode matchTargetAndDevice(const CLI::App &command, std::string &target,
                              std::string &device, WithoutGPU withoutGPU);

/// Calls `matchTargetAndDevice` for a command that runs what it compiles: a
/// requested GPU must exist. Compiles on as many threads as the session has.
ExitCode matchSession(const CLI::App &command, CompileOptions &options,
                      runtime::SessionOptions &session);

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_FLAGS_OPTIONS_H
