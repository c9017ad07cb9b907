// SPDX-License-Identifier: Apache-2.0
#include "tools/mpc/commands/TrainRanks.h"

#include "compiler/Target/TargetInfo.h"
#include "runtime/Device.h"
#include "runtime/distributed/Connect.h"
#include "runtime/distributed/Launch.h"
#include "runtime/train/support/Duration.h"
#include "runtime/train/support/Ranks.h"
#include "tools/mpc/print/Notes.h"

#include "llvm/ADT/StringSet.h"

using namespace mpc;
using namespace mpc::tools;
using namespace mpc::runtime;

// Divides --global-batch-size by the ranks.
static ExitCode chooseBatch(TrainCommand &command, int ranks) {
  const int64_t global = command.ranks.globalBatch;
  if (global == 0)
    return ExitCode::Done;
  if (global % ranks != 0)
    return reportError(ExitCode::Usage, "--global-batch-size " +
                                            std::to_string(global) +
                                            " cannot be divided by " +
                                            std::to_string(ranks) + " ranks");
  command.compile.model.batchSize = global / ranks;
  return ExitCode::Done;
}

ExitCode mpc::tools::connectRanks(TrainCommand &command,
                                  std::unique_ptr<Communicator> &communicator) {
  StatusOr<Launch> launch = Launch::find(command.ranks.ranks);
  if (!launch.ok())
    return reportError(launch.status());
  if (launch->size > 1)
    setRank(launch->rank);
  if (!launch->incomplete.empty())
    warn(launch->incomplete + ", so this process trains alone; set it, or say "
                              "--ranks 1");
  if (ExitCode code = chooseBatch(command, launch->size);
      code != ExitCode::Done)
    return code;
  if (launch->size == 1)
    return ExitCode::Done;
  StatusOr<std::chrono::seconds> timeout =
      train::parseDuration(command.ranks.timeout);
  if (!timeout.ok())
    return reportError(ExitCode::Usage,
                       "--rank-timeout: " + timeout.status().message());
  ConnectOptions options;
  options.rankTimeout = command.session.rankTimeout = *timeout;
  StatusOr<std::unique_ptr<Communicator>> connected = connect(*launch, options);
  // Rank 0 does not know of failures before the ranks are connected.
  if (!connected.ok())
    return reportError(connected.status().getCode(),
                       connected.status().message());
  communicator = std::move(*connected);
  divideMachine(launch->localRank, launch->localSize, command.session);
  if (!isArtifact(command.compile.model.model))
    command.compile.pipeline.recipe.dataParallel = true;
  command.train.communicator = command.session.communicator =
      communicator.get();
  holdErrors(true);
  if (!communicator->isFirst()) {
    command.isQuiet = true;
    command.isVerbose = false;
  }
  return ExitCode::Done;
}

// Names the kind of device that the rank trains on.
static std::string describeDevice(const TrainCommand &command) {
  StatusOr<DeviceId> id = DeviceId::parse(command.session.device);
  if (id.ok() && id->kind == DeviceId::Kind::Auto) {
    if (isArtifact(command.compile.model.model))
      return "the device of the artifact";
    llvm::Expected<TargetInfo> target =
        TargetInfo::get(command.compile.pipeline.target);
    if (target)
      return target->isGPU() ? "a GPU" : "a CPU";
    llvm::consumeError(target.takeError());
  }
  return id.ok() && id->kind == DeviceId::Kind::CUDA ? "a GPU" : "a CPU";
}

ExitCode mpc::tools::chooseDevice(TrainCommand &command,
                                  Communicator *communicator) {
  if (!communicator)
    return ExitCode::Done;
  // The flag --target may have chosen "cuda" after the ranks were placed.
  if (StatusOr<Launch> launch = Launch::find(command.ranks.ranks); launch.ok())
    divideMachine(launch->localRank, launch->localSize, command.session);
  StatusOr<std::vector<std::string>> devices =
      train::Ranks(communicator).gatherTexts(describeDevice(command));
  if (!devices.ok())
    return reportError(devices.status());
  for (size_t rank = 1; rank < devices->size(); ++rank)
    if ((*devices)[rank] != devices->front())
      return reportError(ExitCode::Usage,
                         "rank 0 trains on " + devices->front() +
                             ", and rank " + std::to_string(rank) + " on " +
                             (*devices)[rank] +
                             "; choose one kind of device for all by --device");
  return ExitCode::Done;
}

// Prints errors, a line each, with the number of the rank.
static void printErrors(llvm::StringRef errors, size_t rank) {
  for (llvm::StringRef rest = errors; !rest.empty();) {
    const auto [line, after] = rest.split('\n');
    if (rank != 0)
      llvm::errs() << "rank " << rank << ": ";
    llvm::errs() << line << "\n";
    rest = after;
  }
}

ExitCode mpc::tools::agreeOn(ExitCode code, Communicator *communicator) {
  train::Ranks ranks(communicator);
  const std::string errors = takeErrors();
  const Status failure =
      ranks.agree(code == ExitCode::Done ? Status() : Status(code, ""));
  if (failure.ok() || ranks.isSingle())
    return failure.getCode();
  const auto speakForSelf = [&](const Status &loss) {
    printErrors(errors, size_t(ranks.own()));
    holdErrors(false);
    if (code != ExitCode::Done)
      return code;
    static_cast<void>(reportError(loss));
    return communicator->failureCode();
  };
  if (failure.getCode() == ExitCode::Rank)
    return speakForSelf(failure);
  StatusOr<std::vector<std::string>> all = ranks.gatherTexts(errors);
  if (!all.ok())
    return speakForSelf(all.status());
  llvm::StringSet<> printed;
  for (size_t rank = 0; rank < all->size() && ranks.isFirst(); ++rank)
    if (printed.insert((*all)[rank]).second)
      printErrors((*all)[rank], rank);
  waitForPrinter(*communicator);
  return failure.getCode();
}

ExitCode mpc::tools::endRanks(Communicator &communicator,
                              const Status &failure) {
  printErrors(takeErrors(), size_t(communicator.rank()));
  holdErrors(false);
  static_cast<void>(reportError(failure));
  communicator.abort(
      Status(failure.getCode(), "rank " + std::to_string(communicator.rank()) +
                                    ": " + failure.message()));
  return failure.getCode();
}

void mpc::tools::waitForPrinter(Communicator &communicator) {
  // A lost rank changes nothing about the failure that ends the run.
  static_cast<void>(communicator.barrier());
}
