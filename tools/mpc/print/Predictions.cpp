// SPDX-License-Identifier: Apache-2.0
#include "tools/mpc/print/Predictions.h"

#include "passes/Differentiation/LossSpec.h"
#include "tools/mpc/print/PrintableStream.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Format.h"

#include <algorithm>
#include <cmath>

using namespace mpc;
using namespace mpc::tools;
using namespace mpc::runtime;

using Outputs = std::vector<std::pair<std::string, Tensor>>;

// Returns the output that the loss reads: the named one, or else the first. The
// name of a loss may end in :AXIS. Null if there is no such output.
static const std::pair<std::string, Tensor> *findScores(const Outputs &outputs,
                                                        llvm::StringRef name) {
  if (outputs.empty() || name.empty())
    return outputs.empty() ? nullptr : &outputs.front();
  for (llvm::StringRef each : {name, name.rsplit(':').first})
    for (const auto &output : outputs)
      if (output.first == each)
        return &output;
  return nullptr;
}

// Returns the first recorded loss that tells the probabilities of classes;
// nullopt if there is none.
static std::optional<LossSpec> findLoss(const ModelRecord &record) {
  const auto texts = record.loss.find("loss");
  if (texts == record.loss.end())
    return std::nullopt;
  for (const std::string &text : texts->second) {
    llvm::Expected<LossSpec> loss = parseLoss(text);
    if (!loss) {
      llvm::consumeError(loss.takeError());
      continue;
    }
    if (hasClasses(loss->kind) || loss->kind == LossKind::BCE ||
        loss->kind == LossKind::BCEWithLogits)
      return *loss;
  }
  return std::nullopt;
}

// Returns the probability that a loss gives to the largest of `scores`.
static double probabilityOf(LossKind kind, llvm::ArrayRef<double> scores,
                            double largest) {
  if (kind == LossKind::NLL)
    return std::exp(largest);
  double sum = 0;
  for (double score : scores)
    sum += std::exp(score - largest);
  return 1 / sum;
}

std::optional<Predictions>
mpc::tools::predictClasses(const Outputs &outputs, const ModelRecord &record) {
  const std::optional<LossSpec> loss = findLoss(record);
  const auto *scores = loss ? findScores(outputs, loss->output) : nullptr;
  if (!scores || record.classes.empty() || !isFloat(scores->second.type))
    return std::nullopt;
  const Shape &shape = scores->second.shape;
  const bool isVector =
      shape.size() == 1 || (shape.size() == 2 && shape[1] == 1);
  const int64_t count = int64_t(record.classes.size());
  const bool ofClasses = hasClasses(loss->kind) && shape.size() == 2 &&
                         shape[1] == count && count > 1;
  const bool isBinary = !hasClasses(loss->kind) && isVector && count == 2;
  if (!ofClasses && !isBinary)
    return std::nullopt;
  StatusOr<Tensor> values = runtime::convert(scores->second, DType::F64);
  if (!values.ok())
    return std::nullopt;
  const double *value = values->as<double>();
  Predictions predictions;
  predictions.output = scores->first;
  const auto add = [&](int64_t index, double probability) {
    predictions.classes.push_back(record.classes[size_t(index)]);
    predictions.probabilities.push_back(float(probability));
  };
  for (int64_t row = 0; row < shape[0]; ++row) {
    if (isBinary) {
      const double positive = loss->kind == LossKind::BCE
                                  ? value[row]
                                  : 1 / (1 + std::exp(-value[row]));
      add(positive > 0.5, positive > 0.5 ? positive : 1 - positive);
      continue;
    }
    const llvm::ArrayRef<double> one(value + row * count, size_t(count));
    const auto *largest = std::max_element(one.begin(), one.end());
    add(largest - one.begin(), probabilityOf(loss->kind, one, *largest));
  }
  return predictions;
}

void mpc::tools::printPredictions(llvm::raw_ostream &os,
                                  const Predictions &predictions,
                                  const std::vector<std::string> &samples) {
  const bool isNamed = samples.size() == predictions.classes.size();
  for (size_t i = 0; i < predictions.classes.size(); ++i)
    os << (isNamed ? printable(samples[i]) : std::to_string(i)) << ": "
       << printable(predictions.classes[i])
       << llvm::format(" %.2f%%\n", 100 * double(predictions.probabilities[i]));
}
