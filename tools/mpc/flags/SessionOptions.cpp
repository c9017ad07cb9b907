// The flags that choose a device, and the target that fits the device.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Target/TargetInfo.h"
#include "tools/mpc/flags/Options.h"
#include "tools/mpc/flags/Validators.h"
#include "tools/mpc/model/Driver.h"
#include "tools/mpc/print/Notes.h"

#include "llvm/ADT/StringRef.h"

using namespace mpc;
using namespace mpc::tools;

/// The oldest GPU that mpc generates code for; newer GPUs run the code too.
static constexpr llvm::StringLiteral kOldestGPU = "sm_80";

void mpc::tools::addSessionOptions(CLI::App &command,
                                   runtime::SessionOptions &options) {
  command
      .add_option("--device", options.device,
                  "device to run on: cpu, cuda (the first GPU), cuda:N, or "
                  "auto: a GPU if one can run the code, else the CPU")
      ->capture_default_str();
  command
      .add_option("--threads", options.threads,
                  "worker threads; 0, the default: one per physical core that "
                  "mpc may use")
      ->transform(wholeNumber(0))
      ->check(threadCount());
}

// Returns the number in the name of a GPU target, 80 for sm_80; 0 if the target
// is no GPU.
static unsigned numberOf(llvm::StringRef name) {
  unsigned value = 0;
  return name.consume_front("sm_") && !name.getAsInteger(10, value) ? value
                                                                    : 0u;
}

// Returns the newest target whose code runs on a GPU of `architecture`, such as
// sm_90.
static std::string targetFor(llvm::StringRef architecture) {
  std::string best = kOldestGPU.str();
  for (llvm::StringRef name : TargetInfo::getNames())
    if (numberOf(name) > numberOf(best) &&
        numberOf(name) <= numberOf(architecture))
      best = name.str();
  return best;
}

ExitCode mpc::tools::matchSession(const CLI::App &command,
                                  CompileOptions &options,
                                  runtime::SessionOptions &session) {
  options.threads = session.threads;
  if (ExitCode code = matchTargetAndDevice(command, options.pipeline.target,
                                           session.device, WithoutGPU::Fail);
      code != ExitCode::Done)
    return code;
  auto id = runtime::DeviceId::parse(session.device);
  auto target = TargetInfo::get(options.pipeline.target);
  if (!target)
    return reportError(target.takeError());
  if (target->isGPU() && options.pipeline.attention == "auto")
    options.attentionDevice = *id;
  return ExitCode::Done;
}

// Stores the target for the GPU of `device` in `target`. An error if there is
// no such GPU, or if the GPU or its driver is too old.
static runtime::Status findTargetOfGPU(const runtime::DeviceId &device,
                                       std::string &target) {
  auto architecture = runtime::findArchitecture(device);
  if (!architecture.ok())
    return architecture.status();
  if (numberOf(*architecture) < numberOf(kOldestGPU))
    return runtime::Status(runtime::StatusCode::Device,
                           "the GPU found is " + *architecture +
                               ", but mpc generates code for " +
                               kOldestGPU.str() +
                               " and newer; to run on the CPU instead, use "
                               "--device cpu");
  target = targetFor(*architecture);
  auto info = llvm::cantFail(TargetInfo::get(target));
  return runtime::checkGPU(
      device, {info.getTriple().str(), target, info.getFeatures().vec()});
}

ExitCode mpc::tools::matchTargetAndDevice(const CLI::App &command,
                                          std::string &target,
                                          std::string &device,
                                          WithoutGPU withoutGPU) {
  using Kind = runtime::DeviceId::Kind;
  auto id = runtime::DeviceId::parse(device);
  if (!id.ok())
    throw CLI::ValidationError("--device", id.status().message());
  const bool hasDevice = command.count("--device") > 0;
  if (command.count("--target") == 0) {
    if (id->kind == Kind::CPU || !hasDevice)
      return ExitCode::Done;
    std::string found = kOldestGPU.str();
    runtime::Status status = findTargetOfGPU(*id, found);
    // Fail without a GPU only if the command runs the code. Code that is only
    // compiled may be for another computer.
    if (id->kind == Kind::CUDA && withoutGPU == WithoutGPU::Fail &&
        !status.ok())
      return reportError(status);
    if (id->kind == Kind::CUDA || status.ok())
      target = found;
    // With --device auto, say nothing if the computer has no GPU. If a GPU is
    // present but unusable, print a note.
    else if (runtime::hasGPUDriver())
      note(
          "--device auto uses the CPU: " +
          llvm::StringRef(status.message()).split("; to run on the CPU").first);
    return ExitCode::Done;
  }
  auto info = TargetInfo::get(target);
  if (!info) {
    llvm::consumeError(info.takeError());
    return ExitCode::Done; // compiling reports the error
  }
  const bool isFixed = hasDevice && id->kind != Kind::Auto;
  if (isFixed && info->isGPU() != (id->kind == Kind::CUDA))
    throw CLI::ValidationError("--device " + device +
                               " cannot run code for --target " + target);
  if (info->isGPU() && !isFixed)
    device = "cuda";
  return ExitCode::Done;
}
