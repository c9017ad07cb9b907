// mpc profile: measures the kernels of a training step, and says which nodes of
// the model take the time.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/BoundedJSON.h"
#include "runtime/cpu/Cores.h"
#include "runtime/train/StepRunner.h"
#include "runtime/train/data/Dataset.h"
#include "runtime/train/support/FileSystem.h"
#include "tools/mpc/commands/Commands.h"
#include "tools/mpc/commands/InspectJSON.h"
#include "tools/mpc/commands/PreparedRun.h"
#include "tools/mpc/flags/Validators.h"
#include "tools/mpc/model/Overwriting.h"
#include "tools/mpc/print/Notes.h"
#include "tools/mpc/print/PrintableStream.h"
#include "tools/mpc/profile/ProfilePrinter.h"
#include "tools/mpc/profile/RandomInputs.h"

#include <CLI/CLI.hpp>

using namespace mpc;
using namespace mpc::tools;
using namespace mpc::runtime;
using namespace mpc::runtime::train;

namespace {
struct ProfileCommand {
  TrainCommand train; ///< the flags that choose the step and its data
  int64_t steps = 0;
  std::string format = "text", trace;
  bool isVerbose = false, measuresRoof = false;
};

/// Stops a training run when enough steps are measured. The profile needs no
/// notes of the run.
class StopWhenDone : public TrainObserver {
public:
  explicit StopWhenDone(const ProfileRecorder &recorder) : recorder(recorder) {}

  void started(const StartReport &report) override {
    stepsPerEpoch = report.stepsPerEpoch;
  }
  void stepped(const StepReport &) override {
    if (recorder.isDone())
      stop = 1;
  }

  int64_t stepsPerEpoch = 0;
  std::atomic<int> stop{0};

private:
  const ProfileRecorder &recorder;
};
} // namespace

//===----------------------------------------------------------------------===//
// Steps on random numbers
//===----------------------------------------------------------------------===//

namespace {
/// A function of a training step, and how often the step calls it.
struct StepPart {
  const Function *function;
  int64_t calls;
};
} // namespace

// Returns the functions of a training step or, for a model without a loss, the
// forward pass.
static std::vector<StepPart> listParts(const Plan &plan,
                                       const TraineeInfo &info) {
  const Function *step = plan.findFunction(kStepFunction);
  const Function *accumulate = plan.findFunction(kAccumulateFunction);
  if (step && info.accumulate == 1)
    return {{step, 1}};
  if (const Function *update = plan.findFunction(kUpdateFunction);
      accumulate && update)
    return {{accumulate, info.accumulate}, {update, 1}};
  if (const Function *forward = plan.findFunction(kForwardFunction))
    return {{forward, 1}};
  return {};
}

static Status runPart(Session &session, const Function &function,
                      ProfileRecorder &recorder) {
  FunctionCall call;
  call.function = function.name;
  call.span.begin = TimeSpan::Clock::now();
  Status status = recorder.measuresSteps(function.name)
                      ? session.runTimed(function.name, call.steps)
                      : session.run(function.name);
  // Reading an output waits for a GPU.
  if (status.ok() && !function.outputs.empty())
    status =
        session.output(function.name, function.outputs.front().name).status();
  call.span.end = TimeSpan::Clock::now();
  if (status.ok())
    recorder.add(call);
  return status;
}

static Status runRandomSteps(Session &session,
                             const std::vector<StepPart> &parts,
                             ProfileRecorder &recorder) {
  for (const StepPart &part : parts)
    if (Status status = setRandomInputs(session, *part.function); !status.ok())
      return status;
  while (!recorder.isDone()) {
    PartTimer timer(&recorder, RunPart::Step);
    for (const StepPart &part : parts)
      for (int64_t call = 0; call < part.calls; ++call)
        if (Status status = runPart(session, *part.function, recorder);
            !status.ok())
          return status;
  }
  return Status();
}

//===----------------------------------------------------------------------===//
// The result
//===----------------------------------------------------------------------===//

static Profile describeRun(const ProfileCommand &command,
                           const Artifact &artifact, const TraineeInfo &info) {
  const Plan &plan = artifact.plan();
  Profile profile;
  profile.model = command.train.compile.model.model;
  profile.precision = plan.precision;
  profile.target = plan.target.cpu;
  profile.device = plan.target.isGPU() ? "cuda" : "cpu";
  const int threads = command.train.session.threads;
  profile.threads = threads > 0 ? threads : countUsableCores();
  if (const std::vector<StepPart> parts = listParts(plan, info); !parts.empty())
    if (const FunctionPorts *ports =
            info.function(parts.front().function->name))
      if (StatusOr<int64_t> batch = findBatchSize(*ports); batch.ok())
        profile.batchSize = *batch * parts.front().calls;
  return profile;
}

// Returns a kernel that is far faster than the roof; null if there is none. The
// roof is too low then.
static const KernelProfile *findAboveRoof(const Profile &profile) {
  constexpr double kFewShare = 0.02, kMargin = 1.3;
  for (const KernelProfile &kernel : profile.kernels)
    if (kernel.roofSeconds &&
        kernel.total() > kFewShare * profile.kernelSeconds() &&
        *kernel.roofSeconds > kMargin * kernel.seconds)
      return &kernel;
  return nullptr;
}

// Finds the times of all kernels, and the roof of a CPU. Measures the roof
// again if a kernel is faster.
static Status addTimesAndRoof(const ProfileCommand &command, const Plan &plan,
                              const ArtifactWork &work,
                              const ProfileRecorder &recorder,
                              Profile &profile) {
  if (plan.target.isGPU()) {
    addTimes(profile, plan, work, recorder);
    return Status();
  }
  std::vector<KeptRoof> uses{command.measuresRoof ? KeptRoof::Replace
                                                  : KeptRoof::Take,
                             KeptRoof::Raise};
  for (KeptRoof use : uses) {
    StatusOr<Roof> roof = findRoof(plan.target, profile.threads,
                                   command.train.compile.kernelCache, use);
    if (!roof.ok())
      return roof.status();
    // Without a cache, only this process knows the first measurement.
    if (profile.roof)
      roof->rates = joinRoofs(std::move(roof->rates), profile.roof->rates);
    profile.roof = std::move(*roof);
    addTimes(profile, plan, work, recorder);
    if (!findAboveRoof(profile))
      break;
  }
  return Status();
}

// Notes a roof that is too low.
static void noteRoof(const Profile &profile) {
  const KernelProfile *kernel = findAboveRoof(profile);
  if (!kernel && !(profile.roof && profile.roof->rates.isBusy))
    return;
  note(
      (kernel ? "'" + kernel->name + "' is faster than the roof"
              : std::string("other programs used the cores while the roof "
                            "was measured")) +
      ", so shares of the roof are too high; --measure-roof measures again, on "
      "a quiet machine");
}

static ExitCode finish(const ProfileCommand &command, const Artifact &artifact,
                       const ProfileRecorder &recorder, Profile &profile) {
  StatusOr<ArtifactWork> work = readStepWork(artifact);
  if (!work.ok())
    return reportError(work.status());
  if (work->empty())
    note("the artifact names no nodes and counts no work; compile the model "
         "again with this version of mpc");
  const Plan &plan = artifact.plan();
  if (plan.target.isGPU())
    note("the roof of a GPU is not measured");
  if (Status status = addTimesAndRoof(command, plan, *work, recorder, profile);
      !status.ok())
    return reportError(status);
  noteRoof(profile);
  if (!command.trace.empty())
    if (Status status = replaceFile(command.trace,
                                    {recorder.getTrace().text("mpc profile")});
        !status.ok())
      return reportError(status);
  if (command.format == "json") {
    printJSON(toJSON(profile));
  } else {
    PrintableStream os(llvm::outs());
    printProfile(os, profile, command.isVerbose);
  }
  return ExitCode::Done;
}

//===----------------------------------------------------------------------===//
// The command
//===----------------------------------------------------------------------===//

static ExitCode profileOnRandom(ProfileCommand &command) {
  CompileOptions &options = command.train.compile;
  options.assumesBatch = true;
  std::shared_ptr<const Artifact> artifact;
  {
    Driver driver;
    if (ExitCode code = loadArtifact(driver, options, artifact);
        code != ExitCode::Done)
      return code;
  }
  OpenSession opened;
  if (ExitCode code = openSession(artifact, command.train.session, opened);
      code != ExitCode::Done)
    return code;
  const TraineeInfo &info = opened.trainee->info();
  const std::vector<StepPart> parts = listParts(artifact->plan(), info);
  if (parts.empty())
    return reportError(ExitCode::Usage,
                       options.model.model +
                           ": found no training step and no forward pass; "
                           "compile the model with --loss");
  const bool isForward = parts.front().function->name == kForwardFunction;
  if (isForward)
    note("without --loss this is the forward graph alone");
  note(isForward ? "the inputs are random; --data FILE gives them"
                 : "the inputs are random, and the learning rate is 0; --data "
                   "FILE profiles steps on data");
  ProfileRecorder recorder(artifact->plan(), command.steps);
  if (Status status = runRandomSteps(*opened.session, parts, recorder);
      !status.ok())
    return reportError(status);
  Profile profile = describeRun(command, *artifact, info);
  profile.isRandom = true;
  return finish(command, *artifact, recorder, profile);
}

static ExitCode profileRun(const ProfileCommand &command,
                           const PreparedRun &run) {
  ProfileRecorder recorder(run.artifact->plan(), command.steps);
  StopWhenDone observer(recorder);
  TrainOptions options = command.train.train;
  options.recorder = &recorder;
  options.maxSteps = int64_t(1) << 40;
  // The profile is of the time, whatever the loss.
  options.maxNonfinite = options.maxSkipped = 0;
  StatusOr<TrainResult> trained =
      train::train(*run.opened.trainee, run.train, /*evalData=*/nullptr,
                   options, &observer, &observer.stop);
  if (!trained.ok() && trained.status().getCode() == StatusCode::Numeric &&
      recorder.isDone())
    warn("the loss is not finite after the profiled steps");
  else if (!trained.ok())
    return reportError(trained.status());
  Profile profile =
      describeRun(command, *run.artifact, run.opened.trainee->info());
  EpochProfile epoch;
  epoch.steps = observer.stepsPerEpoch;
  epoch.dataSeconds = double(epoch.steps) * findMedian(recorder.getData());
  epoch.stepSeconds =
      double(epoch.steps) * findMedian(recorder.getPlainSteps());
  if (run.evaluation) {
    TimeSpan span;
    span.begin = TimeSpan::Clock::now();
    StatusOr<EvalResult> evaluated =
        evaluate(*run.opened.trainee, *run.evaluation);
    if (!evaluated.ok())
      return reportError(evaluated.status());
    span.end = TimeSpan::Clock::now();
    recorder.add(RunPart::Evaluation, span);
    epoch.evaluationSeconds = span.seconds();
  }
  profile.epoch = epoch;
  return finish(command, *run.artifact, recorder, profile);
}

static ExitCode runProfile(ProfileCommand &command) {
  if (command.format == "json" && command.isVerbose)
    return reportError(ExitCode::Usage,
                       "--verbose: --format=json always has all kernels; leave "
                       "the flag out");
  TrainCommand &train = command.train;
  std::vector<std::string> read = inputFiles(train.compile);
  read.insert(read.end(), train.data.data.begin(), train.data.data.end());
  if (ExitCode code = refuseOverwriting("--trace", command.trace, read);
      code != ExitCode::Done)
    return code;
  if (ExitCode code = checkDestination("--trace", command.trace);
      code != ExitCode::Done)
    return code;
  if (train.data.data.empty())
    return profileOnRandom(command);
  train.isTrial = true;
  return static_cast<ExitCode>(prepareRun(train, [&](const PreparedRun &run) {
    return static_cast<int>(profileRun(command, run));
  }));
}

// Adds the flags of `mpc train` for data. All need --data, which is optional
// here.
static void addProfiledData(CLI::App &app, TrainCommand &train) {
  addDataFlags(app, train.data);
  CLI::Option *data = app.get_option("--data")->required(false);
  addAugmentFlag(app, train.data);
  app.add_option("--val-data", train.valData,
                 "data to evaluate on once, for the share of evaluations in an "
                 "epoch (repeatable)")
      ->allow_extra_args(false)
      ->type_name("FILE");
  app.add_option("--val-split", train.valSplit,
                 "fraction of the data to hold back and evaluate on once")
      ->check(fraction());
  for (const char *flag :
       {"--augment", "--val-data", "--val-split", "--csv-columns",
        "--normalize", "--input-layout", "--allow-nan", "--allow-empty"})
    app.get_option(flag)->needs(data);
}

void mpc::tools::addProfileCommand(CLI::App &program, int &exitCode) {
  auto command = std::make_shared<ProfileCommand>();
  CLI::App *app = program.add_subcommand(
      "profile", "time of each kernel and node in a training step");
  command->train.app = app;
  addCompileOptions(*app, command->train.compile);
  addProfiledData(*app, command->train);
  app->add_option("--steps", command->steps,
                  "steps to measure; default: as many as take about three "
                  "seconds, 100 at most")
      ->transform(wholeNumber(int64_t(1)));
  app->add_option("--format", command->format,
                  "text: tables; json: one object with everything")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str();
  app->add_flag("-v,--verbose", command->isVerbose,
                "print all kernels and nodes, and the name of each kernel's "
                "code");
  app->add_option("--trace", command->trace,
                  "also write the profiled steps as a Chrome trace, which "
                  "Perfetto opens")
      ->type_name("FILE");
  app->add_flag("--measure-roof", command->measuresRoof,
                "measure the roof of this machine again, instead of taking it "
                "from the kernel cache");
  addSessionOptions(*app, command->train.session);
  addKernelCacheOption(*app, command->train.compile);
  app->callback([app, command, &exitCode] {
    exitCode = static_cast<int>(
        matchSession(*app, command->train.compile, command->train.session));
    if (exitCode == 0)
      exitCode = static_cast<int>(runProfile(*command));
  });
}
