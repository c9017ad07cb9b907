// mpc inspect: what a model, an artifact or a file of arrays contains.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/ArrayFile.h"
#include "tools/mpc/Commands.h"
#include "tools/mpc/Driver.h"
#include "tools/mpc/PrintableStream.h"
#include "tools/mpc/TrainReport.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"

#include <CLI/CLI.hpp>

using namespace mpc;
using namespace mpc::tools;
using namespace mpc::runtime;

//===----------------------------------------------------------------------===//
// Models
//===----------------------------------------------------------------------===//

static ExitCode inspectModel(const std::string &file) {
  mlir::MLIRContext context;
  auto model = onnx_frontend::readModel(file, &context);
  if (!model)
    return reportError(model.takeError());
  auto summary = onnx_frontend::summarizeModel(**model);
  if (!summary)
    return reportError(summary.takeError());
  PrintableStream os(llvm::outs());
  os << file << ": ONNX model, IR version " << summary->irVersion;
  for (const auto &[domain, version] : summary->opsets)
    os << ", " << (domain.empty() ? "opset" : domain) << " " << version;
  if (!summary->producer.empty())
    os << ", by " << summary->producer;
  os << "\n";
  for (const std::string &input : summary->inputs)
    os << "input   " << input << "\n";
  for (const std::string &output : summary->outputs)
    os << "output  " << output << "\n";
  os << "initializers: " << summary->initializers << ", " << summary->parameters
     << " float elements\n";
  if (summary->hasTrainingInfo)
    os << "has training_info\n";
  os << "ops:";
  for (const auto &[name, count] : summary->ops)
    os << " " << name << " x" << count;
  os << "\n";
  return ExitCode::Done;
}

// A directory of ONNX Runtime's training artifacts.
static ExitCode inspectFolder(const std::string &folder) {
  bool found = false;
  for (const char *name :
       {"training_model.onnx", "optimizer_model.onnx", "eval_model.onnx"}) {
    std::string file = folder + "/" + name;
    if (!llvm::sys::fs::exists(file))
      continue;
    found = true;
    if (ExitCode code = inspectModel(file); code != ExitCode::Done)
      return code;
  }
  if (found)
    return ExitCode::Done;
  return reportError(ExitCode::InvalidInput,
                     folder + ": expected ONNX Runtime training artifacts, "
                              "found no training_model.onnx");
}

//===----------------------------------------------------------------------===//
// Artifacts
//===----------------------------------------------------------------------===//

static void printValues(llvm::raw_ostream &os, const char *kind,
                        const Function &function,
                        const std::vector<FunctionValue> &values) {
  for (const FunctionValue &value : values) {
    const Buffer &buffer = function.buffers[value.buffer];
    os << "  " << kind << " " << value.name << ": " << nameOf(buffer.type)
       << " " << toString(buffer.shape) << " (" << value.role << ")\n";
  }
}

static void printState(llvm::raw_ostream &os, const Plan &plan) {
  std::map<std::string, std::pair<int64_t, int64_t>> byRole;
  for (const StateVariable &variable : plan.state) {
    byRole[variable.role].first += 1;
    byRole[variable.role].second += variable.bytes;
  }
  for (const auto &[role, total] : byRole)
    os << "state   " << role << ": " << total.first << ", "
       << formatBytes(double(total.second)) << "\n";
}

static ExitCode inspectArtifact(const std::string &file) {
  auto artifact = Artifact::open(file);
  if (!artifact.ok())
    return reportError(artifact.status());
  const Plan &plan = (*artifact)->plan();
  PrintableStream os(llvm::outs());
  os << file << ": artifact by " << plan.producer << ", "
     << formatBytes(double((*artifact)->fileBytes())) << "\n"
     << "model   " << plan.modelName << " (" << plan.modelHash << ")\n"
     << "target  " << plan.target.cpu << ", needs "
     << llvm::join(plan.target.features, " ") << "\n"
     << "precision " << plan.precision << "\n"
     << "recipe  " << plan.recipe << "\n"
     << "memory  "
     << formatBytes(double(plan.stateBytes() + plan.activationBytes())) << "\n";
  printState(os, plan);
  for (const auto &[name, function] : plan.functions) {
    os << "function " << name << ": " << function.steps.size() << " steps, "
       << formatBytes(double(function.arenaBytes)) << " of activations\n";
    printValues(os, "input", function, function.inputs);
    printValues(os, "output", function, function.outputs);
  }
  return ExitCode::Done;
}

//===----------------------------------------------------------------------===//
// Arrays
//===----------------------------------------------------------------------===//

static ExitCode inspectArrays(const std::string &file) {
  auto arrays = train::readArrays(file);
  if (!arrays.ok())
    return reportError(arrays.status());
  PrintableStream os(llvm::outs());
  os << file << ": " << arrays->size() << " arrays\n";
  for (const train::Array &array : *arrays)
    os << "  " << array.name << ": " << train::nameOf(array.type) << " "
       << toString(array.shape) << "\n";
  return ExitCode::Done;
}

static ExitCode runInspect(const std::string &file) {
  llvm::StringRef name(file);
  if (llvm::sys::fs::is_directory(file))
    return inspectFolder(file);
  if (isArtifact(file))
    return inspectArtifact(file);
  if (name.ends_with(".npz") || name.ends_with(".npy") ||
      name.ends_with(".safetensors"))
    return inspectArrays(file);
  return inspectModel(file);
}

void mpc::tools::addInspectCommand(CLI::App &program, int &exitCode) {
  auto file = std::make_shared<std::string>();
  CLI::App *app = program.add_subcommand(
      "inspect", "show what a model, an artifact or an array file contains");
  app->add_option("file", *file, "ONNX model, .mpc, .npz, .npy or .safetensors")
      ->required()
      ->type_name("FILE");
  app->callback(
      [file, &exitCode] { exitCode = static_cast<int>(runInspect(*file)); });
}
