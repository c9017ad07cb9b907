// SPDX-License-Identifier: Apache-2.0
#include "passes/Differentiation/LossSpec.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <charconv>
#include <cmath>

using namespace mpc;

//===----------------------------------------------------------------------===//
// Losses
//===----------------------------------------------------------------------===//

std::vector<std::string> mpc::getLossNames() {
  std::vector<std::string> names;
  for (std::string_view word : Words<LossKind>::list)
    if (symbolize<LossKind>(word) != LossKind::Output)
      names.emplace_back(word);
  names.insert(names.begin() + 1, std::string(kCrossEntropy));
  return names;
}

std::string mpc::listLosses() { return llvm::join(getLossNames(), ", "); }

// Returns the kind called `name`; nullopt for unknown names and `output`, which
// needs the name of an output.
static std::optional<LossKind> findLossKind(llvm::StringRef name) {
  if (name == llvm::StringRef(kCrossEntropy))
    return LossKind::SoftmaxCrossEntropy;
  std::optional<LossKind> kind = symbolize<LossKind>(name);
  return kind == LossKind::Output ? std::nullopt : kind;
}

llvm::Expected<LossSpec> mpc::parseLoss(llvm::StringRef text) {
  llvm::StringRef rest = text;
  LossSpec spec;
  // A name of an output may contain a star, so text before a star is a factor
  // only if that text is a number.
  auto [number, behind] = text.split('*');
  if (!behind.empty() && !number.getAsDouble(spec.factor)) {
    if (!std::isfinite(spec.factor) || spec.factor <= 0)
      return llvm::createStringError(
          "'" + text + "': expected a factor above 0, found " + number);
    rest = behind;
  }
  // The form is FACTOR*KIND@OUTPUT; only KIND is required.
  auto [name, output] = rest.split('@');
  spec.output = output.str();
  // output:NAME is a loss that the model computes. NAME may contain an @.
  if (rest.consume_front("output:")) {
    spec.kind = LossKind::Output;
    spec.output = rest.str();
    return spec;
  }
  if (std::optional<LossKind> kind = findLossKind(name)) {
    spec.kind = *kind;
    return spec;
  }
  return llvm::createStringError("unknown loss '" + text + "'; expected " +
                                 listLosses() +
                                 ", each with an optional @OUTPUT, or "
                                 "output:NAME of a loss that the model "
                                 "computes itself");
}

// Prints the shortest text that reads back as `value`.
static std::string printFactor(double value) {
  char text[32];
  auto [end, error] = std::to_chars(std::begin(text), std::end(text), value);
  return std::string(text, end);
}

std::string mpc::printLoss(const LossSpec &loss) {
  std::string text = loss.factor == 1 ? "" : printFactor(loss.factor) + "*";
  text += stringify(loss.kind);
  if (loss.kind == LossKind::Output)
    return text + ":" + loss.output;
  return loss.output.empty() ? text : text + "@" + loss.output;
}

std::vector<std::string> mpc::nameLosses(llvm::ArrayRef<LossSpec> losses) {
  std::vector<std::string> names;
  if (losses.size() > 1)
    for (const LossSpec &loss : losses)
      names.push_back(nameLoss(loss.kind, loss.output));
  numberEqualNames(names);
  return names;
}

//===----------------------------------------------------------------------===//
// Targets
//===----------------------------------------------------------------------===//

TargetSpec mpc::parseTarget(llvm::StringRef text) {
  if (!text.contains('='))
    return {std::nullopt, text.str()};
  auto [output, array] = text.rsplit('=');
  return {output.str(), array.str()};
}

std::string mpc::printTarget(const TargetSpec &target) {
  return target.output ? *target.output + "=" + target.array : target.array;
}

std::optional<std::vector<int64_t>> mpc::parseLabelShape(llvm::StringRef text) {
  std::vector<int64_t> shape;
  if (text == "scalar")
    return shape;
  for (llvm::StringRef part : llvm::split(text, 'x'))
    if (part.getAsInteger(10, shape.emplace_back()) || shape.back() < 0)
      return std::nullopt;
  return shape;
}

bool mpc::isTargetOf(const TargetSpec &target, llvm::StringRef output) {
  return target.output && (*target.output == output ||
                           *target.output == output.rsplit(':').first);
}

std::string mpc::findTarget(llvm::ArrayRef<TargetSpec> targets,
                            llvm::StringRef output) {
  for (const TargetSpec &target : targets)
    if (isTargetOf(target, output))
      return target.array;
  return findCommonTarget(targets);
}

std::string mpc::findCommonTarget(llvm::ArrayRef<TargetSpec> targets) {
  for (const TargetSpec &target : targets)
    if (!target.output)
      return target.array;
  return "target";
}
