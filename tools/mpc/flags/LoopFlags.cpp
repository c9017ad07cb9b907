// SPDX-License-Identifier: Apache-2.0
#include "tools/mpc/flags/LoopFlags.h"

#include "runtime/train/support/Duration.h"
#include "tools/mpc/flags/Validators.h"
#include "tools/mpc/model/Driver.h"

#include "llvm/ADT/StringRef.h"

#include <csignal>

using namespace mpc;
using namespace mpc::tools;
using namespace mpc::runtime;
using namespace mpc::runtime::train;

// Returns the name of a signal as kill lists it: USR1 for SIGUSR1.
static std::string withoutPrefix(std::string name) {
  return llvm::StringRef(name).starts_with("SIG") ? name.substr(3) : name;
}

// Accepts an exit code that no failure has.
static CLI::Validator unfinishedCode() {
  constexpr int least = int(ExitCode::Rank) + 1, most = 255;
  CLI::Validator whole = wholeNumber(least, most);
  return CLI::Validator(
      [whole](std::string &text) -> std::string {
        const std::string error = whole(text);
        if (!error.empty() || text != std::to_string(int(ExitCode::Internal)))
          return error;
        return "expected a code that no failure has, found '" + text + "'";
      },
      "");
}

void mpc::tools::addLoopFlags(CLI::App &app, LoopFlags &flags,
                              TrainOptions &train) {
  app.add_option("--val-every", train.evalEvery,
                 "steps between evaluations; default: each epoch's end")
      ->transform(wholeNumber(int64_t(1)))
      ->type_name("STEPS");
  app.add_option("--best", flags.best,
                 "keep the weights of the evaluation with the best METRIC: "
                 "loss, accuracy, any metric of --metric or one of several "
                 "losses; min: or max: before it sets the direction. --output "
                 "gets these weights, and "
                 "--checkpoint-dir keeps their checkpoint as 'best'")
      ->type_name("METRIC");
  app.add_option("--early-stopping", flags.earlyStopping,
                 "end the run after PATIENCE evaluations in a row without a "
                 "better METRIC; METRIC is as in --best")
      ->type_name("METRIC:PATIENCE");
  app.add_option("--max-time", flags.maxTime,
                 "end the run normally after this time, compiling included: "
                 "90s, 30m, 2h, 1d, 1h30m or DD:HH:MM:SS; a resumed run gets "
                 "the full time again")
      ->type_name("DURATION");
  app.add_option(
         "--unfinished-code", train.unfinishedCode,
         "exit code of a run that --max-time ends before its last step, "
         "for schedulers; default: 0")
      ->transform(unfinishedCode())
      ->type_name("CODE");
  app.add_option("--requeue-signal", flags.requeueSignal,
                 "signal after which the run saves and ends with exit code 128 "
                 "+ the signal's number (138 for USR1), so that a scheduler "
                 "queues it again")
      ->transform(CLI::IsMember({"USR1", "USR2"}, withoutPrefix));
}

int LoopFlags::requeueNumber() const {
  return requeueSignal.empty()     ? 0
         : requeueSignal == "USR1" ? SIGUSR1
                                   : SIGUSR2;
}

static ExitCode refuse(const std::string &flag, const Status &status) {
  return status.ok()
             ? ExitCode::Done
             : reportError(ExitCode::Usage, flag + ": " + status.message());
}

// Refuses flags that need evaluations, like --best, if there are none.
static ExitCode checkEvaluated(const LoopFlags &flags,
                               const TrainOptions &train) {
  const std::pair<const char *, bool> given[] = {
      {"--best", !flags.best.empty()},
      {"--early-stopping", !flags.earlyStopping.empty()},
      {"--val-every", train.evalEvery > 0},
      {"--lr-scheduler plateau", train.schedule.kind == ScheduleKind::Plateau}};
  for (const auto &[flag, isGiven] : given)
    if (isGiven)
      return reportError(ExitCode::Usage,
                         std::string(flag) +
                             " needs evaluations, and has no effect without "
                             "--val-data or --val-split");
  return ExitCode::Done;
}

static ExitCode resolveBest(const LoopFlags &flags, bool keepsWeights,
                            TrainOptions &train) {
  if (flags.best.empty())
    return ExitCode::Done;
  if (!keepsWeights)
    return reportError(ExitCode::Usage,
                       "--best has no effect without --output or "
                       "--checkpoint-dir, which would get the best weights");
  StatusOr<Monitor> monitor = parseMonitor(flags.best);
  if (!monitor.ok())
    return refuse("--best", monitor.status());
  train.best = *monitor;
  requestMetric(*monitor, train.evalMetrics);
  return ExitCode::Done;
}

static ExitCode resolveEarlyStopping(const LoopFlags &flags,
                                     TrainOptions &train) {
  if (flags.earlyStopping.empty())
    return ExitCode::Done;
  StatusOr<EarlyStopping> stopping = parseEarlyStopping(flags.earlyStopping);
  if (!stopping.ok())
    return refuse("--early-stopping", stopping.status());
  train.earlyStopping = *stopping;
  requestMetric(stopping->monitor, train.evalMetrics);
  return ExitCode::Done;
}

static ExitCode resolveMaxTime(const LoopFlags &flags, TrainOptions &train) {
  if (flags.maxTime.empty())
    return ExitCode::Done;
  StatusOr<std::chrono::seconds> duration = parseDuration(flags.maxTime);
  if (!duration.ok())
    return refuse("--max-time", duration.status());
  train.deadline = std::chrono::steady_clock::now() + *duration;
  if (train.unfinishedCode != 0 && train.epochs == 0 && train.maxSteps == 0 &&
      !train.earlyStopping)
    return reportError(ExitCode::Usage,
                       "--unfinished-code is for runs that have an end besides "
                       "--max-time; give --epochs, --max-steps or "
                       "--early-stopping");
  return ExitCode::Done;
}

// Checks that a schedule that runs to the last step has a known last step.
// Requests the metric that a plateau watches.
static ExitCode checkSchedule(TrainOptions &train) {
  const Schedule &schedule = train.schedule;
  if (schedule.hasEnd() && train.endsOtherwise() && train.epochs == 0 &&
      train.maxSteps == 0)
    return reportError(ExitCode::Usage,
                       "--lr-scheduler " + schedule.name() +
                           " needs to know the last step; give --epochs or "
                           "--max-steps");
  if (schedule.kind == ScheduleKind::Plateau)
    requestMetric(schedule.plateau.monitor, train.evalMetrics);
  return ExitCode::Done;
}

ExitCode mpc::tools::resolve(const LoopFlags &flags, bool evaluates,
                             bool keepsWeights, TrainOptions &train) {
  if (!evaluates)
    if (ExitCode code = checkEvaluated(flags, train); code != ExitCode::Done)
      return code;
  if (ExitCode code = resolveBest(flags, keepsWeights, train);
      code != ExitCode::Done)
    return code;
  if (ExitCode code = resolveEarlyStopping(flags, train);
      code != ExitCode::Done)
    return code;
  if (ExitCode code = resolveMaxTime(flags, train); code != ExitCode::Done)
    return code;
  return checkSchedule(train);
}
