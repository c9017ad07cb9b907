// Every command-line flag that several subcommands share.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TOOLS_MPC_FLAGS_OPTIONS_H
#define MPC_TOOLS_MPC_FLAGS_OPTIONS_H

#include "compiler/Support/ExitCode.h"
#include "passes/Pipeline.h"
#include "runtime/Session.h"

#include <functional>
#include <string>
#include <vector>

namespace CLI {
class App;
} // namespace CLI

namespace mpc::tools {

/// Which model, and what binds its shapes and weights.
struct ModelOptions {
  std::string model;
  std::vector<std::string> shapes; ///< NAME=32x3x224x224
  int64_t batchSize = 0;
  std::vector<std::string> batchAxes; ///< NAME=1, NAME=none
  std::vector<std::string> weights;
  std::vector<std::string> weightsPrefixes; ///< FROM=TO, of names in `weights`
  std::string optimizerModel;
};

/// What the loss flags name that has to be read.
struct LossFiles {
  std::string classWeights; ///< --class-weights
  std::string posWeight;    ///< --pos-weight: a number or a file
};

/// All that determines what a model compiles to.
struct CompileOptions {
  ModelOptions model;
  LossFiles lossFiles;
  PipelineOptions pipeline;
  /// The folder of --kernel-cache, `auto` or `none`: changes how long it takes.
  std::string kernelCache = "auto";
  /// How many kernels are compiled at once; 0: one per usable core.
  int threads = 0;
  /// Whether a graph is run for its outputs, even where one of them looks like
  /// an updated parameter: `mpc run` without --function.
  bool wantsOutputs = false;
  /// Whether the artifact of a forward model says where its inputs and outputs
  /// have samples, so that it runs more than a batch.
  bool findsSamples = false;
  /// Whether --target-array names an array that a run leaves out.
  bool leavesOutLabels = false;
  /// Whether a model that leaves its batch open is imported for the usual one:
  /// of commands that run nothing.
  bool assumesBatch = false;
  /// True if the code of an artifact runs whoever may have written it.
  bool isTrusted = false;
  /// The flags among these that were given, in any way.
  std::function<std::vector<std::string>()> given;
};

/// Help lists these flags apart: they are what an artifact has been compiled
/// with, and cannot be changed for one.
inline constexpr char kCompileGroup[] = "Compilation";

/// Adds the MODEL argument and the flags of CompileOptions.
void addCompileOptions(CLI::App &command, CompileOptions &options);

/// Adds --kernel-cache, for commands that compile to machine code.
void addKernelCacheOption(CLI::App &command, CompileOptions &options);

/// Adds --device and --threads.
void addSessionOptions(CLI::App &command, runtime::SessionOptions &options);

/// What becomes of --device cuda where the driver shows no GPU.
enum class WithoutGPU {
  Fail,         ///< the command runs on it
  CompileForAny ///< the oldest GPU there is code for; newer ones run it
};

/// Makes --target and --device agree: a GPU to compile for is one to run on,
/// and the other way round, unless both are given. Without --target, the code
/// is for the GPU that is there, under `auto` too. Done, or a reported error.
/// Throws CLI::ValidationError where the two contradict each other.
ExitCode matchTargetAndDevice(const CLI::App &command, std::string &target,
                              std::string &device, WithoutGPU withoutGPU);

/// The same for a command that runs what it compiles: a GPU that is asked for
/// must be there. Compiles on as many threads as the session has.
ExitCode matchSession(const CLI::App &command, CompileOptions &options,
                      runtime::SessionOptions &session);

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_FLAGS_OPTIONS_H
