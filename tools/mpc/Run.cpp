// mpc run: one call of one function on given inputs; outputs printed or saved.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/ArrayFile.h"
#include "tools/mpc/Arrays.h"
#include "tools/mpc/Commands.h"
#include "tools/mpc/Driver.h"
#include "tools/mpc/Overwriting.h"
#include "tools/mpc/PrintableStream.h"
#include "tools/mpc/Validators.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MathExtras.h"

#include <CLI/CLI.hpp>

using namespace mpc;
using namespace mpc::tools;
using namespace mpc::runtime;

namespace {
struct RunCommand {
  CompileOptions compile;
  std::vector<std::string> inputs;
  std::string function, output;
  SessionOptions session;
};
} // namespace

using Inputs = std::vector<train::Array>;

// How the model declares an input, such as "f32[N,1,8,8]"; empty where it does
// not.
static std::string declarationOf(const onnx_frontend::ModelSummary &summary,
                                 const std::string &name) {
  for (llvm::StringRef input : summary.inputs)
    if (input.consume_front(name + ": "))
      return input.str();
  return {};
}

// Inputs that may decide shapes (Reshape's shape, Resize's scales, the boxes of
// NonMaxSuppression) offer their value when compiling: integers, booleans, and
// floats that are not too many to be copied. They stay inputs where it need not
// be known.
static bool isOffered(llvm::StringRef declaration, const Shape &shape) {
  constexpr int64_t kMostFloats = int64_t(1) << 22;
  auto [type, declared] = declaration.split('[');
  bool isScalar = declared.empty() || declared == "]" || declared == "1]";
  int64_t count = 1;
  for (int64_t extent : shape)
    if (llvm::MulOverflow(count, extent, count))
      return false;
  bool isList = !shape.empty() && count <= kMostFloats;
  return !type.empty() && (!type.contains('f') || isScalar || isList);
}

// What a model may need to be compiled that its inputs tell: the shapes of all,
// and the values of some. `known` receives the names the model declares.
static ExitCode bindInputs(const Inputs &inputs, CompileOptions &options,
                           Driver &driver, std::vector<std::string> &known) {
  if (llvm::Error error = driver.readModel(options.model.model))
    return reportError(std::move(error));
  auto summary = onnx_frontend::summarizeModel(driver.getModel());
  if (!summary)
    return reportError(summary.takeError());
  for (const train::Array &input : inputs) {
    std::string declaration = declarationOf(*summary, input.name);
    // What is no input of the model is a mistake; better said here than as what
    // it leaves open. Training adds inputs.
    bool isTraining = !options.pipeline.recipe.losses.empty() ||
                      input.name == "learning_rate" ||
                      llvm::sys::fs::is_directory(options.model.model);
    if (declaration.empty() && !isTraining)
      return reportError(ExitCode::Usage,
                         "--input " + input.name + ": " + options.model.model +
                             " has the inputs " +
                             llvm::join(summary->inputs, ", "));
    if (declaration.empty())
      continue;
    known.push_back(input.name);
    auto type = parseDType(llvm::StringRef(declaration).split('[').first.str());
    bool isScalar = llvm::StringRef(declaration).ends_with("[]");
    if (!input.shape.empty() && !isScalar)
      options.model.shapes.push_back(input.name + "=" + toString(input.shape));
    if (!type.ok() || !isOffered(declaration, input.shape)) {
      if (input.shape.empty() && type.ok())
        return reportError(ExitCode::Usage, "--input " + input.name +
                                                ": found a scalar, expected " +
                                                declaration);
      continue; // Compiling says which types there are.
    }
    StatusOr<Tensor> value = train::toTensor(input, *type);
    if (!value.ok())
      return reportError(value.status());
    // Many tools write a scalar as an array of one element.
    if (value->size() == 1 && isScalar)
      value->shape.clear();
    if (value->size() == 1 && llvm::StringRef(declaration).ends_with("[1]"))
      value->shape = {1};
    driver.offerValue(input.name, *value);
  }
  return ExitCode::Done;
}

// The function to run: the one named, the forward function, or one step.
static ExitCode chooseFunction(const Plan &plan, const std::string &asked,
                               const Function *&function) {
  std::vector<std::string> names;
  for (const auto &[name, unused] : plan.functions)
    names.push_back(name);
  for (const std::string &name :
       asked.empty() ? std::vector<std::string>{"forward", "step"}
                     : std::vector<std::string>{asked})
    if ((function = plan.findFunction(name)))
      return ExitCode::Done;
  return reportError(ExitCode::Usage, "expected --function to be one of " +
                                          llvm::join(names, ", ") +
                                          ", found '" + asked + "'");
}

static Status setInputs(Session &session, const Function &function,
                        const Inputs &inputs) {
  for (const FunctionValue &port : function.inputs) {
    auto given = llvm::find_if(inputs, [&](const train::Array &input) {
      return input.name == port.name;
    });
    if (given == inputs.end())
      return Status(StatusCode::InvalidInput, "input '" + port.name +
                                                  "' is missing; give it with "
                                                  "--input " +
                                                  port.name + "=@FILE");
    const Buffer &buffer = function.buffers[port.buffer];
    StatusOr<Tensor> value = train::toTensor(*given, buffer.type);
    if (!value.ok())
      return value.status();
    // Many tools write a scalar as an array of one element.
    if (value->size() == 1 && numElements(buffer.shape) == 1)
      value->shape = buffer.shape;
    if (Status status = session.setInput(function.name, port.name, *value);
        !status.ok())
      return status;
  }
  return Status();
}

static Status writeOutputs(Session &session, const Function &function,
                           const std::string &file) {
  std::vector<train::Array> arrays;
  PrintableStream os(llvm::outs());
  for (const FunctionValue &port : function.outputs) {
    StatusOr<Tensor> value = session.output(function.name, port.name);
    if (!value.ok())
      return value.status();
    if (file.empty())
      printTensor(os, port.name, *value);
    else
      arrays.push_back(train::toArray(port.name, *value));
  }
  return file.empty() ? Status() : train::writeArrays(file, arrays);
}

// An input that is neither the function's nor the model's is a mistake; the
// model may declare one that nothing reads.
static ExitCode checkNames(const Inputs &inputs, const Function &function,
                           const std::vector<std::string> &known) {
  for (const train::Array &input : inputs) {
    if (function.findInput(input.name) || llvm::is_contained(known, input.name))
      continue;
    std::vector<std::string> names;
    for (const FunctionValue &port : function.inputs)
      names.push_back(port.name);
    return reportError(ExitCode::Usage, "--input " + input.name +
                                            ": function '" + function.name +
                                            "' has the inputs " +
                                            llvm::join(names, ", "));
  }
  return ExitCode::Done;
}

static ExitCode runRun(RunCommand &command) {
  std::vector<std::string> read = inputFiles(command.compile);
  read.insert(read.end(), command.inputs.begin(), command.inputs.end());
  if (ExitCode code = refuseOverwriting("-o", command.output, read);
      code != ExitCode::Done)
    return code;
  Inputs inputs;
  for (const std::string &text : command.inputs) {
    StatusOr<train::Array> input = parseInput(text);
    if (!input.ok())
      return reportError(input.status());
    for (const train::Array &other : inputs)
      if (other.name == input->name)
        return reportError(ExitCode::Usage,
                           "--input " + input->name + ": given twice");
    inputs.push_back(std::move(*input));
  }
  Driver driver;
  std::vector<std::string> known;
  if (!isArtifact(command.compile.model.model))
    if (ExitCode code = bindInputs(inputs, command.compile, driver, known);
        code != ExitCode::Done)
      return code;
  RecipeOptions &recipe = command.compile.pipeline.recipe;
  for (const train::Array &input : inputs)
    if (!input.shape.empty())
      recipe.labelShapes[input.name] = {input.shape.begin() + 1,
                                        input.shape.end()};
  std::shared_ptr<const Artifact> artifact;
  if (ExitCode code = loadArtifact(driver, command.compile, artifact);
      code != ExitCode::Done)
    return code;
  const Function *function = nullptr;
  if (ExitCode code =
          chooseFunction(artifact->plan(), command.function, function);
      code != ExitCode::Done)
    return code;
  if (ExitCode code = checkNames(inputs, *function, known);
      code != ExitCode::Done)
    return code;
  auto session = Session::create(artifact, command.session);
  if (!session.ok())
    return reportError(session.status());
  if (Status status = setInputs(**session, *function, inputs); !status.ok())
    return reportError(status);
  if (Status status = (*session)->run(function->name); !status.ok())
    return reportError(status);
  return reportError(writeOutputs(**session, *function, command.output));
}

void mpc::tools::addRunCommand(CLI::App &program, int &exitCode) {
  auto command = std::make_shared<RunCommand>();
  CLI::App *app = program.add_subcommand(
      "run", "run a model or an artifact once on given inputs");
  addCompileOptions(*app, command->compile);
  app->add_option("--input", command->inputs,
                  "NAME=@FILE or NAME=VALUE (repeatable)")
      ->type_name("INPUT")
      ->allow_extra_args(false);
  app->add_option("--function", command->function,
                  "function to run; default: forward, or else step")
      ->type_name("NAME");
  app->add_option("-o,--output", command->output,
                  "file for the outputs (.npz, .safetensors); default: print "
                  "them")
      ->type_name("FILE");
  app->add_option("--seed", command->session.seed,
                  "of dropout and random numbers")
      ->transform(wholeNumber(uint64_t(0)))
      ->capture_default_str();
  addSessionOptions(*app, command->session);
  addKernelCacheOption(*app, command->compile);
  app->callback([app, command, &exitCode] {
    command->compile.threads = command->session.threads;
    command->compile.wantsOutputs = command->function.empty();
    exitCode = static_cast<int>(
        matchTargetAndDevice(*app, command->compile.pipeline.target,
                             command->session.device, WithoutGPU::Fail));
    if (exitCode == 0)
      exitCode = static_cast<int>(runRun(*command));
  });
}
