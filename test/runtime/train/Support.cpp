// Implements the toy model and the other helpers.
//
// SPDX-License-Identifier: Apache-2.0
#include "test/runtime/train/Support.h"

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <sys/wait.h>

namespace mpc::runtime::train {

TemporaryDirectory::TemporaryDirectory() {
  std::string pattern = testing::TempDir() + "/mpc-train-XXXXXX";
  path = mkdtemp(pattern.data());
}

TemporaryDirectory::~TemporaryDirectory() {
  std::error_code ignored;
  std::filesystem::remove_all(path, ignored);
}

std::string readFile(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

void writeFile(const std::string &path, const std::string &bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

void expectFailure(const Status &status, StatusCode code,
                   const std::string &text) {
  EXPECT_EQ(int(status.getCode()), int(code)) << status.message();
  EXPECT_NE(status.message().find(text), std::string::npos)
      << "message: " << status.message() << "\nexpected in it: " << text;
}

void expectInvalid(const StatusOr<Dataset> &data, const std::string &text) {
  expectFailure(data.status(), StatusCode::InvalidInput, text);
}

//===----------------------------------------------------------------------===//
// ToyModel
//===----------------------------------------------------------------------===//

ToyModel::ToyModel(int64_t accumulate) {
  const Shape weights{kClasses, kFeatures};
  const Port x{"x", Role::Data, DType::F32, {kBatch, kFeatures}};
  const Port y{"y", Role::Label, DType::I64, {kBatch}};
  const Port rate{"learning_rate", Role::Scalar, DType::F32, {}};
  const Port seed{"seed", Role::Scalar, DType::I64, {}};
  const Port loss{"loss", Role::Loss, DType::F32, {}};
  const Port finite{"finite", Role::Finite, DType::I1, {}};
  const Port norm{"grad_norm", Role::GradNorm, DType::F32, {}};
  const Port scale{"scale", Role::LossScale, DType::F32, {}};
  const Port losses{"losses", Role::SampleLoss, DType::F32, {kBatch}};
  const Port scores{"scores", Role::Prediction, DType::F32, {kBatch, kClasses}};
  description.modelHash = "00000000000000aa";
  description.planHash = "00000000000000bb";
  description.precision = "32-true";
  description.recipe = "{\"loss\":\"softmax_cross_entropy\"}";
  description.loss = LossKind::SoftmaxCrossEntropy;
  description.accumulate = accumulate;
  description.stateBytes = 100;
  description.activationBytes = 200;
  if (accumulate == 1)
    description.functions["step"] = {{x, y, rate, seed},
                                     {loss, finite, norm, scale}};
  description.functions["accumulate"] = {{x, y, seed}, {loss}};
  description.functions["update"] = {{rate}, {finite, norm, scale}};
  const Port correct{"correct", Role::Correct, DType::F32, {kBatch}};
  description.functions["eval"] = {{x, y}, {losses, scores, correct}};
  description.state = {
      {"w", Role::Parameter, DType::F32, weights},
      {"momentum", Role::OptimizerState, DType::F32, weights},
      {"gradient", Role::Accumulator, DType::F32, weights},
      {"updates", Role::Counter, DType::I64, {}},
      {"w.bf16", Role::Derived, DType::BF16, weights},
  };
  for (const Port &port : description.state)
    variables[port.name] = Tensor::zeros(port.type, port.shape);
  for (const auto &[name, function] : description.functions)
    for (const Port &port : function.inputs)
      inputs[port.name] = Tensor::zeros(port.type, port.shape);
}

Status ToyModel::setInput(std::string_view function, std::string_view name,
                          const void *bytes, size_t size) {
  Tensor &input = inputs.find(name)->second;
  EXPECT_EQ(size, input.bytes.size());
  std::memcpy(input.bytes.data(), bytes, size);
  return Status();
}

/// Computes the probabilities of sample `n` and its loss.
static double softmax(const float *x, const float *w, int64_t label,
                      double *probabilities, float *scores) {
  double sum = 0;
  for (int64_t c = 0; c < ToyModel::kClasses; ++c) {
    double score = 0;
    for (int64_t f = 0; f < ToyModel::kFeatures; ++f)
      score += double(x[f]) * w[c * ToyModel::kFeatures + f];
    if (scores)
      scores[c] = float(score);
    sum += probabilities[c] = std::exp(score);
  }
  for (int64_t c = 0; c < ToyModel::kClasses; ++c)
    probabilities[c] /= sum;
  return -std::log(probabilities[label]);
}

void ToyModel::accumulate() {
  const float *x = inputs["x"].as<float>();
  const int64_t *y = inputs["y"].as<int64_t>();
  double loss = 0, probabilities[kClasses];
  for (int64_t n = 0; n < kBatch; ++n, x += kFeatures) {
    firstFeatures.push_back(x[0]);
    loss +=
        softmax(x, variables["w"].as<float>(), y[n], probabilities, nullptr);
    for (int64_t c = 0; c < kClasses; ++c)
      for (int64_t f = 0; f < kFeatures; ++f)
        variables["gradient"].as<float>()[c * kFeatures + f] +=
            float((probabilities[c] - (c == y[n])) * x[f] /
                  double(kBatch * description.accumulate));
  }
  outputs["loss"] = Tensor::zeros(DType::F32, {});
  *outputs["loss"].as<float>() = float(loss / kBatch);
}

void ToyModel::update() {
  ++attempts;
  const float rate = *inputs["learning_rate"].as<float>();
  learningRates.push_back(rate);
  double loss = *outputs["loss"].as<float>(), norm = 0;
  bool finite = true;
  if (disturb)
    disturb(attempts, loss, finite);
  *outputs["loss"].as<float>() = float(loss);
  float *gradient = variables["gradient"].as<float>();
  for (int64_t i = 0; i < kClasses * kFeatures; ++i) {
    norm += double(gradient[i]) * gradient[i];
    float &momentum = variables["momentum"].as<float>()[i];
    if (finite) {
      momentum = 0.9f * momentum + gradient[i];
      variables["w"].as<float>()[i] -= rate * momentum;
    }
    gradient[i] = 0;
  }
  *variables["updates"].as<int64_t>() += finite;
  outputs["finite"] = Tensor::zeros(DType::I1, {});
  *outputs["finite"].as<uint8_t>() = finite;
  outputs["grad_norm"] = Tensor::zeros(DType::F32, {});
  *outputs["grad_norm"].as<float>() = float(std::sqrt(norm));
  outputs["scale"] = Tensor::zeros(DType::F32, {});
  *outputs["scale"].as<float>() = 65536;
}

void ToyModel::evaluate() {
  outputs["losses"] = Tensor::zeros(DType::F32, {kBatch});
  outputs["scores"] = Tensor::zeros(DType::F32, {kBatch, kClasses});
  outputs["correct"] = Tensor::zeros(DType::F32, {kBatch});
  double probabilities[kClasses];
  for (int64_t n = 0; n < kBatch; ++n) {
    const int64_t label = inputs["y"].as<int64_t>()[n];
    float *scores = outputs["scores"].as<float>() + n * kClasses;
    outputs["losses"].as<float>()[n] = float(
        softmax(inputs["x"].as<float>() + n * kFeatures,
                variables["w"].as<float>(), label, probabilities, scores));
    outputs["correct"].as<float>()[n] =
        std::max_element(scores, scores + kClasses) - scores == label;
  }
}

Status ToyModel::run(std::string_view function) {
  if (function != "eval" && function != "update")
    accumulate();
  if (function == "step" || function == "update") {
    if (reduce)
      if (Status status = reduce(variables["gradient"].as<float>(),
                                 size_t(kClasses * kFeatures));
          !status.ok())
        return status;
    update();
  }
  if (function == "eval")
    evaluate();
  return Status();
}

StatusOr<Tensor> ToyModel::output(std::string_view function,
                                  std::string_view name) {
  outputsRead.emplace(name);
  return outputs.find(name)->second;
}

StatusOr<Tensor> ToyModel::state(std::string_view name) {
  ++copies;
  return variables.find(name)->second;
}

StatusOr<const std::byte *> ToyModel::stateInPlace(std::string_view name) {
  return readsInPlace ? variables.find(name)->second.bytes.data() : nullptr;
}

Status ToyModel::setState(std::string_view name, const Tensor &value) {
  EXPECT_EQ(value.bytes.size(), variables.find(name)->second.bytes.size());
  variables.find(name)->second = value;
  return Status();
}

Status ToyModel::derive() {
  StatusOr<Tensor> low = convert(variables["w"], DType::BF16);
  if (!low.ok())
    return low.status();
  variables["w.bf16"] = *low;
  return Status();
}

/// Attributes a loss that is not finite to row 2 of the features.
StatusOr<std::optional<NonFiniteOrigin>>
ToyModel::trace(std::string_view function) {
  if (Status status = run(function); !status.ok())
    return status;
  const bool bad =
      function != "update" && !std::isfinite(*outputs["loss"].as<float>());
  if (!bad)
    return std::optional<NonFiniteOrigin>();
  NonFiniteOrigin origin;
  origin.text = "node 'toy' gives nan";
  origin.row = 2;
  origin.rows = kBatch;
  return std::optional<NonFiniteOrigin>(origin);
}

Status ToyModel::reset() {
  for (auto &[name, value] : variables)
    value = Tensor::zeros(value.type, value.shape);
  return derive();
}

std::vector<Array> toyArrays(int64_t count) {
  std::vector<float> x;
  std::vector<int32_t> y;
  for (int64_t n = 0; n < count; ++n) {
    const int64_t label = n % ToyModel::kClasses;
    for (int64_t f = 0; f < ToyModel::kFeatures; ++f)
      x.push_back(float(f == 0 ? n : (f + 1 == label) * 2) / 8);
    y.push_back(int32_t(label));
  }
  return {makeArray("x", ElementType::F32, {count, ToyModel::kFeatures}, x),
          makeArray("target", ElementType::I32, {count}, y)};
}

Dataset toyData(const Trainee &model, int64_t count) {
  StatusOr<FunctionPorts> ports = trainingInputs(model.info());
  StatusOr<Dataset> data = Dataset::create(toyArrays(count), *ports,
                                           datasetOptionsFor(model.info()));
  EXPECT_TRUE(data.ok()) << data.status().message();
  return *data;
}

bool trainAndKill(const std::function<StatusOr<TrainResult>()> &train,
                  useconds_t microseconds) {
  const pid_t child = fork();
  if (child == 0) {
    StatusOr<TrainResult> result = train();
    _exit(result.ok() && result->deferred.ok() ? 0 : 1);
  }
  usleep(microseconds);
  kill(child, SIGKILL);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
  return WIFEXITED(status);
}

} // namespace mpc::runtime::train
