// What tests of the CUDA device over the emulated libraries share.
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

/// Runs `body` with these variables in a process of its own, where its failed
/// expectations count as the caller's. The emulated driver reads its
/// environment, and starts, once in a process.
void emulated(const std::map<std::string, std::string> &environment,
              const std::function<void()> &body);

/// Where a test may let the emulator write the calls it gets: a fresh file for
/// each call.
std::string newLogFile();

/// The names of the functions in a log, one for each call, and whatever else
/// stands there, line by line.
std::vector<std::string> readLog(const std::string &path);

/// How often a call of that name is in the log.
size_t countCalls(const std::vector<std::string> &log,
                  const std::string &function);

/// A session on the emulated GPU. Fails the test where there is none.
std::unique_ptr<Session> openOnGPU(const ArtifactBuilder &builder);

/// The status of opening one.
Status tryOpenOnGPU(const ArtifactBuilder &builder);

/// A trainee of one parameter `w` of five elements: `step` adds the input to
/// it, kernel by kernel, and gives back the sum before as `before`.
ArtifactBuilder countingTrainee();

using Floats = std::vector<float>;

/// The elements of a tensor of f32. Fails the test where there is none.
Floats values(const StatusOr<Tensor> &tensor);

/// Sets all elements of the input of `countingTrainee`.
Status setX(Session &session, float value);

/// The same by Session::stage.
Status stageX(Session &session, float value);

/// Three steps and their results: every kind of call a session makes.
Status train(const ArtifactBuilder &builder);

/// Expects a message that holds all of `parts`.
void expectMessage(const Status &status, StatusCode code,
                   const std::vector<std::string> &parts);

} // namespace mpc::runtime::test

#endif // MPC_TEST_RUNTIME_CUDA_EMULATED_H
