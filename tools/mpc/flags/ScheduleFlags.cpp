// SPDX-License-Identifier: Apache-2.0
#include "tools/mpc/flags/ScheduleFlags.h"

#include "tools/mpc/flags/Validators.h"
#include "tools/mpc/model/Driver.h"

using namespace mpc;
using namespace mpc::tools;
using namespace mpc::runtime;
using namespace mpc::runtime::train;

void mpc::tools::addScheduleFlags(CLI::App &app, ScheduleFlags &flags,
                                  Schedule &schedule) {
  app.add_option("--lr", schedule.learningRate, "learning rate")
      ->check(nonNegativeNumber())
      ->capture_default_str();
  app.add_option(
         "--lr-scheduler", flags.scheduler,
         "path of the learning rate from --lr to --min-lr: constant, linear, "
         "cosine, step:SIZE[:GAMMA] (times GAMMA every SIZE steps; default "
         "0.1), one-cycle (PyTorch's OneCycleLR, with --lr as its maximum), "
         "or plateau[:FACTOR[:PATIENCE[:METRIC]]] (PyTorch's "
         "ReduceLROnPlateau: times FACTOR after more than PATIENCE "
         "evaluations without a better METRIC; defaults 0.1, 10, loss)")
      ->type_name("SCHEDULE")
      ->capture_default_str();
  app.add_option("--min-lr", schedule.minLearningRate,
                 "learning rate at the end of --lr-scheduler")
      ->check(nonNegativeNumber())
      ->capture_default_str();
  app.add_option("--warmup-steps", schedule.warmupSteps,
                 "steps over which the learning rate rises to --lr")
      ->transform(wholeNumber(int64_t(0)))
      ->capture_default_str();
}

ExitCode mpc::tools::resolve(const ScheduleFlags &flags, Schedule &schedule) {
  if (Status status = parseSchedule(flags.scheduler, schedule); !status.ok())
    return reportError(ExitCode::Usage, "--lr-scheduler: " + status.message());
  return reportError(schedule.check());
}
