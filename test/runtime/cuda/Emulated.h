// Helpers of the CUDA device's tests over the emulated libraries.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TEST_RUNTIME_CUDA_EMULATED_H
#define MPC_TEST_RUNTIME_CUDA_EMULATED_H

#include "runtime/Session.h"
#include "test/runtime/ArtifactBuilder.h"

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace mpc::runtime::test {

/// Runs `body` with these variables in a forked process, whose failed
/// expectations count as the caller's. The emulated driver reads its
/// environment, and starts, once per process.
void emulated(const std::map<std::string, std::string> &environment,
              const std::function<void()> &body);

/// A fresh file for the emulator's log of calls.
std::string newLogFile();

/// The whole text of a file.
std::string readText(const std::string &path);

/// The lines of a log: a function's name for each call, and any other lines.
std::vector<std::string> readLog(const std::string &path);

/// The number of calls of that name in the log.
size_t countCalls(const std::vector<std::string> &log,
                  const std::string &function);

/// The number of faults in the log, which the emulated libraries have found.
size_t countFaults(const std::vector<std::string> &log);

/// A session on the emulated GPU. Fails the test if there is none.
std::unique_ptr<Session> openOnGPU(const ArtifactBuilder &builder);

/// The status of opening a session.
Status tryOpenOnGPU(const ArtifactBuilder &builder);

/// A trainee of one parameter `w` of five elements. `step` adds the input to
/// `w`, kernel by kernel, and returns the earlier sum as `before`.
ArtifactBuilder countingTrainee();

using Floats = std::vector<float>;

/// The elements of an f32 tensor. Fails the test on an error.
Floats values(const StatusOr<Tensor> &tensor);

/// Sets all elements of the input of `countingTrainee`.
Status setX(Session &session, float value);

/// Like `setX`, by Session::stage.
Status stageX(Session &session, float value);

/// Runs three steps and reads their results: every kind of call that a session
/// makes.
Status train(const ArtifactBuilder &builder);

/// Expects a message that contains all of `parts`.
void expectMessage(const Status &status, StatusCode code,
                   const std::vector<std::string> &parts);

} // namespace mpc::runtime::test

#endif // MPC_TEST_RUNTIME_CUDA_EMULATED_H
