// mpc inspect: prints what a model, an artifact, a checkpoint, a metrics file
// or a file of arrays contains.
//
// SPDX-License-Identifier: Apache-2.0
#include "tools/mpc/commands/Inspect.h"
#include "runtime/train/data/ArrayFile.h"
#include "runtime/train/data/CSV.h"
#include "runtime/train/support/FileSystem.h"
#include "runtime/train/support/Text.h"
#include "tools/mpc/commands/Commands.h"
#include "tools/mpc/commands/InspectJSON.h"
#include "tools/mpc/model/Driver.h"
#include "tools/mpc/print/PrintableStream.h"
#include "tools/mpc/print/TrainReport.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"

#include <CLI/CLI.hpp>

using namespace mpc;
using namespace mpc::tools;
using namespace mpc::runtime;

//===----------------------------------------------------------------------===//
// Tables
//===----------------------------------------------------------------------===//

std::string mpc::tools::describeShape(const Shape &shape) {
  return shape.empty() ? "scalar" : runtime::toString(shape);
}

void mpc::tools::printTable(llvm::raw_ostream &os,
                            std::vector<std::vector<std::string>> rows) {
  // Replace control characters in cells: a newline in a name would start a new
  // row.
  for (std::vector<std::string> &row : rows)
    for (std::string &cell : row)
      cell = printable(cell);
  // Do not widen a column beyond this width, so that one long name does not
  // widen the table. Longer cells stick out.
  constexpr size_t widest = 60;
  std::vector<size_t> widths;
  for (const std::vector<std::string> &row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i)
      widths[i] = std::max(widths[i], std::min(widest, row[i].size()));
  }
  for (const std::vector<std::string> &row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i)
      line +=
          row[i] +
          std::string(2 + widths[i] - std::min(widths[i], row[i].size()), ' ');
    os << llvm::StringRef(line).rtrim() << "\n";
  }
}

//===----------------------------------------------------------------------===//
// Artifacts
//===----------------------------------------------------------------------===//

static void printValues(llvm::raw_ostream &os, const char *kind,
                        const Function &function,
                        const std::vector<FunctionValue> &values) {
  for (const FunctionValue &value : values) {
    const Buffer &buffer = function.buffers[value.buffer];
    os << "  " << kind << " " << printable(value.name) << ": "
       << nameOf(buffer.type) << " " << toString(buffer.shape) << " ("
       << stringify(value.role) << ")\n";
  }
}

static void printState(llvm::raw_ostream &os, const Plan &plan) {
  std::map<std::string_view, std::pair<int64_t, int64_t>> byRole;
  for (const StateVariable &variable : plan.state) {
    byRole[stringify(variable.role)].first += 1;
    byRole[stringify(variable.role)].second += variable.bytes;
  }
  for (const auto &[role, total] : byRole)
    os << "state   " << role << ": " << total.first << ", "
       << formatBytes(double(total.second)) << "\n";
}

static void printStateVariables(llvm::raw_ostream &os, const Plan &plan) {
  std::vector<std::vector<std::string>> rows;
  for (const StateVariable &variable : plan.state)
    rows.push_back({"  " + variable.name,
                    std::string(nameOf(variable.type)) + " " +
                        describeShape(variable.shape),
                    formatCount(numElements(variable.shape)),
                    std::string(stringify(variable.role))});
  os << "variables: " << rows.size() << "\n";
  printTable(os, rows);
}

static ExitCode inspectArtifact(const std::string &file,
                                const InspectOptions &options) {
  auto artifact = Artifact::open(file);
  if (!artifact.ok())
    return reportError(artifact.status());
  const Plan &plan = (*artifact)->plan();
  if (options.isJSON) {
    printJSON(describe(file, plan, options.parameters));
    return ExitCode::Done;
  }
  PrintableStream os(llvm::outs());
  os << file << ": artifact by " << printable(plan.producer) << ", "
     << formatBytes(double((*artifact)->fileBytes())) << "\n"
     << "model   " << printable(plan.modelName) << " (" << plan.modelHash
     << ")\n"
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
  if (options.parameters)
    printStateVariables(os, plan);
  return ExitCode::Done;
}

//===----------------------------------------------------------------------===//
// Arrays
//===----------------------------------------------------------------------===//

static ExitCode inspectArrays(const std::string &file,
                              const InspectOptions &options) {
  auto arrays = train::readPackedArrays(file);
  if (!arrays.ok())
    return reportError(arrays.status());
  if (options.isJSON) {
    nlohmann::json object = describeFile(file, "arrays");
    object["arrays"] = describe(*arrays);
    printJSON(object);
    return ExitCode::Done;
  }
  PrintableStream os(llvm::outs());
  os << file << ": " << train::counted(int64_t(arrays->size()), "array")
     << "\n";
  for (const train::Array &array : *arrays)
    os << "  " << printable(array.name) << ": " << train::typeNameOf(array)
       << " " << toString(array.shape) << "\n";
  return ExitCode::Done;
}

static ExitCode inspectTable(const std::string &file,
                             const InspectOptions &options) {
  auto bytes = train::readBytes(file);
  if (!bytes.ok())
    return reportError(bytes.status());
  auto columns = train::parseCSV(
      {reinterpret_cast<const char *>(bytes->data), bytes->size}, file);
  if (!columns.ok())
    return reportError(columns.status());
  // A column that contains text has no elements, so take the longest column.
  int64_t rows = 0;
  for (const train::Array &column : *columns)
    rows = std::max(rows, column.shape.front());
  if (options.isJSON) {
    printJSON(describeTable(file, rows, *columns));
    return ExitCode::Done;
  }
  PrintableStream os(llvm::outs());
  os << file << ": table, " << train::counted(rows, "row") << ", "
     << train::counted(int64_t(columns->size()), "column") << "\n";
  std::vector<std::vector<std::string>> lines;
  for (const train::Array &column : *columns) {
    llvm::StringRef fault = column.fault;
    fault.consume_front(file + ": ");
    lines.push_back(
        {"  " + column.name, fault.empty() ? "numbers" : fault.str()});
  }
  printTable(os, lines);
  return ExitCode::Done;
}

static bool isArrayFile(llvm::StringRef name) {
  return name.ends_with(".npz") || name.ends_with(".npy") ||
         name.ends_with(".safetensors") || name.ends_with(".gz") ||
         name.ends_with("-ubyte") || name.ends_with(".idx");
}

// Prints the contents of the file or folder at `path`. A file of unknown kind
// is read as a model; the error then says why it is no model.
static ExitCode runInspect(const std::string &path,
                           const InspectOptions &options) {
  // Determine the kind of file by its name and first bytes.
  StatusOr<train::FileKind> kind = train::kindOf(path);
  if (!kind.ok())
    return reportError(kind.status());
  const bool isFolder = *kind == train::FileKind::Directory;
  const bool isModel = isFolder ? isTrainingFolder(path)
                                : !isArtifact(path) && !isArrayFile(path) &&
                                      !train::isReadableCSV(path) &&
                                      !isMetricsFile(path);
  if (options.layers && !isModel)
    return reportError(ExitCode::Usage,
                       path + ": --layers is for models; this file is not a "
                              "model");
  if (options.parameters && !isModel && !isArtifact(path))
    return reportError(ExitCode::Usage,
                       path + ": --parameters is for models and artifacts; "
                              "this file is neither");
  if (isFolder && isModel)
    return inspectTrainingFolder(path, options);
  if (isFolder && isCheckpointFolder(path))
    return inspectCheckpoints(path, options);
  if (isFolder)
    return reportError(ExitCode::InvalidInput,
                       path + ": expected a checkpoint or ONNX Runtime "
                              "training artifacts, found no train.json, no "
                              "step-N and no training_model.onnx");
  if (isArtifact(path))
    return inspectArtifact(path, options);
  if (train::isReadableCSV(path))
    return inspectTable(path, options);
  if (isArrayFile(path))
    return inspectArrays(path, options);
  if (isMetricsFile(path))
    return inspectMetrics(path, options);
  return inspectModel(path, options);
}

namespace {
struct InspectCommand {
  std::string path, format = "text";
  InspectOptions options;
};
} // namespace

void mpc::tools::addInspectCommand(CLI::App &program, int &exitCode) {
  auto command = std::make_shared<InspectCommand>();
  CLI::App *app = program.add_subcommand(
      "inspect", "show what a model, an artifact, a checkpoint, a metrics file "
                 "or an array file contains");
  app->add_option(
         "file", command->path,
         "ONNX model, .mpc, .npz, .npy, .safetensors, .csv, metrics of mpc "
         "train, or a folder: a checkpoint, the checkpoints of a run, or ONNX "
         "Runtime's training artifacts")
      ->required()
      ->type_name("FILE");
  app->add_flag("--parameters", command->options.parameters,
                "list every parameter of a model: type, shape, number of "
                "elements, and the reason if mpc train does not train it by "
                "default; of an artifact, list every variable");
  app->add_flag("--layers", command->options.layers,
                "list every node of a model: op, output shape and parameters");
  addRepairOption(*app, command->options.noRepair);
  app->add_option("--format", command->format,
                  "text, or json: one object on one line")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str();
  app->callback([command, &exitCode] {
    command->options.isJSON = command->format == "json";
    exitCode = static_cast<int>(runInspect(command->path, command->options));
  });
}
