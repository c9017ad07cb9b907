// Tries a training step, which is skipped if gradients are not finite: chooses
// the functions to run, sets their inputs, and reads their results.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/StepRunner.h"

#include "runtime/train/Trainer.h"

#include <algorithm>
#include <limits>
#include <string_view>
#include <utility>

namespace mpc::runtime::train {

StatusOr<FunctionPorts> trainingInputs(const TraineeInfo &info) {
  if (info.accumulate == 1)
    if (const FunctionPorts *step = info.function(kStepFunction))
      return *step;
  const FunctionPorts *accumulate = info.function(kAccumulateFunction);
  if (accumulate && info.function(kUpdateFunction))
    return *accumulate;
  return Status(StatusCode::Unsupported,
                "the artifact cannot train: it has neither the function "
                "'step' nor 'accumulate' and 'update'; compile it with a loss "
                "and an optimizer");
}

StatusOr<StepRunner> StepRunner::create(Trainee &model) {
  const TraineeInfo &info = model.info();
  if (StatusOr<FunctionPorts> inputs = trainingInputs(info); !inputs.ok())
    return inputs.status();
  StepRunner runner(model);
  // Either `step` does a whole attempt, or `accumulate` adds up the gradients
  // of each batch and `update` uses them.
  if (info.accumulate == 1 && info.function(kStepFunction)) {
    runner.batchFunction = kStepFunction;
  } else {
    runner.batchFunction = kAccumulateFunction;
    runner.updateFunction = kUpdateFunction;
    runner.batchCount = info.accumulate;
  }
  // An artifact may lack any of these outputs except the loss.
  const FunctionPorts &updating = *info.function(runner.updating());
  const FunctionPorts &batch = *info.function(runner.batchFunction);
  runner.takesRate = train::takesLearningRate(info);
  runner.sumsLoss = info.sumsLoss;
  runner.loss = batch.output(Role::Loss);
  for (const std::string &name : train::lossNames(info))
    for (const Port &port : batch.outputs)
      if (port.role == Role::Loss &&
          port.name == std::string(kLossPrefix) + name) {
        runner.terms.push_back(&port);
        runner.termNames.push_back(name);
      }
  runner.termSums.assign(runner.terms.size(), 0);
  runner.correct = batch.output(Role::Correct);
  runner.ignored = findIgnoredLabel(info);
  runner.gradNorm = updating.output(Role::GradNorm);
  runner.finite = updating.output(Role::Finite);
  runner.lossScale = updating.output(Role::LossScale);
  if (!runner.loss)
    return Status(StatusCode::Unsupported, "the artifact's function '" +
                                               runner.batchFunction +
                                               "' reports no loss");
  runner.loader.open(model, runner.batchFunction);
  return runner;
}

bool takesLearningRate(const TraineeInfo &info) {
  for (const char *name : {kStepFunction, kUpdateFunction})
    if (const FunctionPorts *function = info.function(name))
      for (const Port &port : function->inputs)
        if (port.role == Role::Scalar && port.name == kLearningRateInput)
          return true;
  return false;
}

Status StepRunner::bindScalars(const std::string &function, double learningRate,
                               uint64_t seedValue) {
  for (const Port &port : model->info().function(function)->inputs) {
    if (port.role != Role::Scalar)
      continue;
    // The rate and the seed are the only scalar inputs.
    Array value;
    value.name = port.name;
    const int64_t seed = int64_t(seedValue);
    if (port.name == kLearningRateInput) {
      value.type = ElementType::F64;
      value.data = reinterpret_cast<const std::byte *>(&learningRate);
    } else if (port.name == kSeedInput) {
      value.type = ElementType::I64;
      value.data = reinterpret_cast<const std::byte *>(&seed);
    } else {
      return Status(StatusCode::Unsupported,
                    "function '" + function + "' takes the scalar '" +
                        port.name + "', which training does not provide");
    }
    // Convert the value to the input's type: most models take the rate as f32.
    StatusOr<Tensor> scalar = toTensor(value, port.type);
    if (!scalar.ok())
      return scalar.status();
    // Do not send a value that the input has already.
    std::vector<std::byte> &before = bound[{function, port.name}];
    if (before == scalar->bytes)
      continue;
    before.clear();
    if (Status status = model->setInput(
            function, port.name, scalar->bytes.data(), scalar->bytes.size());
        !status.ok())
      return status;
    before = std::move(scalar->bytes);
  }
  return Status();
}

StatusOr<StepRunner::Scalars>
StepRunner::readScalars(const std::string &function,
                        const std::vector<const Port *> &ports) {
  std::vector<std::string_view> names;
  for (const Port *port : ports)
    if (port)
      names.push_back(port->name);
  StatusOr<std::vector<Tensor>> values = model->outputs(function, names);
  if (!values.ok())
    return values.status();
  Scalars scalars;
  auto value = values->begin();
  for (const Port *port : ports) {
    scalars.emplace_back();
    if (!port)
      continue;
    if (value->size() != 1)
      return Status(StatusCode::Unsupported,
                    "output '" + port->name + "' of function '" + function +
                        "' is no scalar but " + toString(value->shape));
    StatusOr<Tensor> wide = convert(*value++, DType::F64);
    if (!wide.ok())
      return wide.status();
    scalars.back() = *wide->as<double>();
  }
  return scalars;
}

/// Returns the flag that keeps nodes in float32, with their backward nodes:
/// "--keep-fp32 '^(conv1|fc)(#|$)'". Quotes the expression for a shell. Empty
/// if there is no node, or if the flag would be too long to read.
static std::string flagToKeep(const std::vector<std::string> &nodes) {
  constexpr size_t kMostNodes = 32;
  std::vector<std::string> names;
  for (const std::string &node : nodes) {
    // No flag changes the update. A backward node has its forward node's name.
    const size_t suffix = node.find('#');
    if (node.compare(std::min(suffix, node.size()), node.npos, "#update") == 0)
      continue;
    const std::string name = node.substr(0, suffix);
    if (!name.empty() &&
        std::find(names.begin(), names.end(), name) == names.end())
      names.push_back(name);
  }
  if (names.empty() || names.size() > kMostNodes)
    return "";
  std::string pattern;
  for (const std::string &name : names) {
    pattern += pattern.empty() ? "" : "|";
    for (char c : name) {
      if (std::string_view("()^$|*+?.[]\\{}").find(c) != std::string_view::npos)
        pattern += '\\';
      pattern += c == '\'' ? std::string("'\\''") : std::string(1, c);
    }
  }
  return "--keep-fp32 '^(" + pattern + ")(#|$)'";
}

/// Runs a function and reports its time. Measures the plan steps of the
/// function if the recorder asks for them.
Status StepRunner::runRecorded(const std::string &function) {
  FunctionCall call;
  call.function = function;
  call.span.begin = TimeSpan::Clock::now();
  Status status = recorder->measuresSteps(function)
                      ? model->runTimed(function, call.steps)
                      : model->run(function);
  call.span.end = TimeSpan::Clock::now();
  if (status.ok())
    recorder->add(call);
  return status;
}

/// Runs a function, or traces it if setTrace was called. `data` and `positions`
/// are the batch, for the number of the sample in the trace; null if the
/// function has no batch.
Status StepRunner::run(const std::string &function, const Dataset *data,
                       const int64_t *positions) {
  if (!trace)
    return recorder ? runRecorded(function) : model->run(function);
  StatusOr<std::optional<NonFiniteOrigin>> origin = model->trace(function);
  if (!origin.ok())
    return origin.status();
  if (!*origin || !trace->text.empty())
    return Status();
  std::string &text = trace->text;
  trace->isReceived = (*origin)->isReceived;
  text = (*origin)->text;
  if (data && (*origin)->row && (*origin)->rows == data->batchSize())
    text += ", for sample " +
            std::to_string(data->rowOf(positions[*(*origin)->row])) +
            " of the data";
  if ((*origin)->isFloat16) {
    const std::string flag = flagToKeep((*origin)->nodes);
    text += "; float16 ends at 65504: use --precision bf16-mixed" +
            (flag.empty() ? "" : ", or add " + flag);
  }
  return Status();
}

/// Counts the correct labels of the batch that just ran.
Status StepRunner::countLabels(const Dataset &data, const int64_t *positions) {
  StatusOr<Tensor> right = model->output(batchFunction, correct->name);
  if (right.ok())
    right = convert(*right, DType::F64);
  if (!right.ok())
    return right.status();
  const std::vector<int64_t> labels =
      data.labels(positions, data.batchSize(), targetOf(model->info()));
  if (int64_t(labels.size()) != right->size())
    return Status(StatusCode::Unsupported,
                  "output '" + correct->name + "' of function '" +
                      batchFunction + "' is not one number for each label");
  countCorrect(*right, labels, ignored, counted);
  ++countedBatches;
  return Status();
}

StatusOr<double> StepRunner::runBatch(const Dataset &data,
                                      const int64_t *positions, int64_t epoch,
                                      const BatchLoader::NextBatch &next,
                                      double learningRate, uint64_t seed) {
  // The next batch is prepared during the run: on other cores of a CPU, or on
  // this core while a GPU works.
  Status status = [&] {
    PartTimer timer(recorder, RunPart::Data);
    Status bound = loader.bind(data, *model, batchFunction, positions, epoch);
    if (bound.ok())
      loader.prepare(data, *model, batchFunction, next);
    return bound;
  }();
  if (status.ok())
    status = bindScalars(batchFunction, learningRate, seed);
  if (status.ok())
    status = run(batchFunction, &data, positions);
  if (status.ok() && !trace)
    loader.stage(data, *model, batchFunction, next);
  // Count the correct labels now: the next run overwrites the output.
  if (status.ok() && correct && !trace)
    status = countLabels(data, positions);
  if (!status.ok())
    return status;
  // If one function does the whole attempt, read the results of the update
  // together with the loss: one wait for the device instead of two.
  std::vector<const Port *> ports{loss};
  ports.insert(ports.end(), terms.begin(), terms.end());
  if (updateFunction.empty())
    ports.insert(ports.end(), {gradNorm, finite, lossScale});
  StatusOr<Scalars> scalars = readScalars(batchFunction, ports);
  if (!scalars.ok())
    return scalars.status();
  const auto updates = scalars->begin() + 1 + std::ptrdiff_t(terms.size());
  updated.assign(updates, scalars->end());
  for (size_t i = 0; i < terms.size(); ++i)
    termSums[i] += *(*scalars)[i + 1] / lossDivisor();
  ++summedBatches;
  return *scalars->front();
}

StatusOr<StepOutcome> StepRunner::finish(double lossSum, double learningRate,
                                         uint64_t seed) {
  if (!updateFunction.empty()) {
    Status status = bindScalars(updateFunction, learningRate, seed);
    if (status.ok())
      status = run(updateFunction, nullptr, nullptr);
    if (!status.ok())
      return status;
    StatusOr<Scalars> scalars =
        readScalars(updateFunction, {gradNorm, finite, lossScale});
    if (!scalars.ok())
      return scalars.status();
    updated = std::move(*scalars);
  }
  StepOutcome outcome;
  outcome.loss = lossSum;
  if (summedBatches == batchCount)
    outcome.terms = termSums;
  termSums.assign(terms.size(), 0);
  summedBatches = 0;
  outcome.gradNorm = updated[0];
  outcome.lossScale = updated[2];
  outcome.skipped = updated[1].value_or(1) == 0;
  // Report the accuracy only if all batches of the attempt were counted.
  if (countedBatches == batchCount && counted.labels > 0)
    outcome.accuracy = double(counted.correct) / double(counted.labels);
  outcome.counted = std::exchange(counted, LabelCount());
  countedBatches = 0;
  return outcome;
}

} // namespace mpc::runtime::train
