// SPDX-License-Identifier: Apache-2.0
#include "tools/mpc-opt/Help.h"

#include "compiler/Support/NearestNames.h"
#include "passes/Pipeline.h"

#include "mlir/Pass/PassRegistry.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"

using namespace mpc;
using namespace mpc::tools;
using llvm::StringRef;
using mlir::PassInfo;

namespace {
/// The passes of a stage of `mpc compile`, in the order in which mpc runs them.
struct StagePasses {
  StringRef stage, summary;
  std::vector<const PassInfo *> passes;
};
} // namespace

static bool isOwn(StringRef pass) {
  return pass.starts_with("mpc-") || pass.starts_with("amp-") ||
         pass.starts_with("plan-");
}

// Adds to `found` all passes of `pipeline`, also nested ones. MLIR cannot list
// nested passes, so parse the text of the pipeline.
static void addPasses(const mlir::OpPassManager &pipeline,
                      llvm::SetVector<const PassInfo *> &found) {
  std::string text;
  llvm::raw_string_ostream os(text);
  pipeline.printAsTextualPipeline(os);
  auto isOfName = [](char c) { return llvm::isAlnum(c) || c == '-'; };
  for (StringRef rest = text; !rest.empty();) {
    rest = rest.drop_until(isOfName);
    StringRef name = rest.take_while(isOfName);
    rest = rest.drop_front(name.size());
    if (const PassInfo *pass = PassInfo::lookup(name))
      found.insert(pass);
  }
}

// Lists the passes of every stage, for CPUs and GPUs together. Passes that
// belong to no stage, or run in all stages, form the last entry.
static std::vector<StagePasses> listStages() {
  std::vector<StagePasses> stages;
  llvm::StringSet<> seen = {"mpc-attach-target"};
  Stage done = Stage::Import;
  for (const StageInfo &info : getStages()) {
    llvm::SetVector<const PassInfo *> found;
    // A stage runs different passes for different targets and modes, so collect
    // the passes of all variants.
    for (StringRef target : {"native", "sm_80"})
      for (StringRef mode : {"64-true", "bf16-mixed"}) {
        PipelineOptions options;
        options.recipe.losses.emplace_back();
        options.precision.mode = *amp::symbolizePrecisionMode(mode);
        options.target = target.str();
        options.evaluationAlone = mode == "64-true";
        mlir::OpPassManager pipeline(mlir::ModuleOp::getOperationName());
        buildPipeline(pipeline, options, info.stage, done);
        addPasses(pipeline, found);
      }
    // List a pass that several stages run, such as CSE, only with the first.
    StagePasses stage{info.name, info.summary, {}};
    for (const PassInfo *pass : found)
      if (isOwn(pass->getPassArgument()) &&
          seen.insert(pass->getPassArgument()).second)
        stage.passes.push_back(pass);
    if (!stage.passes.empty())
      stages.push_back(std::move(stage));
    done = info.stage;
  }
  stages.push_back({"beside the stages",
                    "",
                    {PassInfo::lookup("mpc-attach-target"),
                     PassInfo::lookup("plan-print-partition")}});
  return stages;
}

static void printFirstScreen(llvm::raw_ostream &os) {
  os << "mpc-opt runs passes of mpc by name on MLIR text: to see what one "
        "does, "
        "and to\nkeep it under test with FileCheck.\n\n"
        "usage: mpc-opt [FILE|-] [--PASS[=\"OPTION=VALUE ...\"]]... [-o "
        "FILE]\n\n"
        "  mpc compile model.onnx --loss mse --emit=differentiate -o "
        "step.mlir\n"
        "  mpc-opt step.mlir --amp-assign-precision=\"mode=bf16-mixed\"\n\n"
        "Passes, by the stage of `mpc compile --emit=STAGE` and in the order "
        "it "
        "runs them;\n`mpc-opt --help PASS` has the options of one:\n";
  for (const StagePasses &stage : listStages()) {
    os << "\n"
       << stage.stage << (stage.summary.empty() ? "" : ": ") << stage.summary
       << "\n";
    for (const PassInfo *pass : stage.passes)
      os << llvm::formatv("  --{0,-35} {1}\n", pass->getPassArgument(),
                          pass->getPassDescription());
  }
  os << "\nMLIR's own passes and flags, of which these are of use most "
        "often:\n\n"
        "  --canonicalize, --cse                 which stages run in between\n"
        "  --pass-pipeline=\"builtin.module(...)\" several passes in one "
        "nesting\n"
        "  --mlir-print-ir-after-all             the IR behind each pass\n"
        "  --mlir-print-debuginfo                with the names of nodes\n"
        "  --mlir-print-local-scope              without aliases\n"
        "  --split-input-file, --verify-diagnostics\n"
        "                                        for tests of errors\n"
        "\n  mpc-opt --help-list                   all flags by name\n"
        "  mpc-opt --help-hidden                 all by what they are of\n";
}

// Prints the options of the named passes.
static int printPasses(llvm::ArrayRef<const char *> names) {
  std::vector<std::string> known;
  for (const StagePasses &stage : listStages())
    for (const PassInfo *pass : stage.passes)
      known.push_back(pass->getPassArgument().str());
  for (StringRef name : names) {
    const PassInfo *pass = PassInfo::lookup(name.ltrim('-'));
    if (!pass) {
      llvm::errs() << "error: there is no pass '" << name.ltrim('-')
                   << "'; there are " << listNearestNames(name, known) << "\n";
      return 2;
    }
    // Names and options of a pass are left of this column, descriptions right.
    constexpr size_t column = 40;
    pass->printHelpStr(/*indent=*/2, column);
  }
  return 0;
}

std::optional<int>
mpc::tools::printHelp(llvm::ArrayRef<const char *> arguments) {
  if (arguments.empty())
    return std::nullopt;
  StringRef first = arguments.front();
  if (first != "--help" && first != "-help" && first != "-h")
    return std::nullopt;
  if (arguments.size() > 1)
    return printPasses(arguments.drop_front());
  printFirstScreen(llvm::outs());
  return 0;
}
