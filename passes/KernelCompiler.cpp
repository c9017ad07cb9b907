// Compiles the kernels of a plan on several threads.
//
// A kernel is passed to its thread as text. So the text contains everything
// that the code depends on, and serves as the key of the code cache. Each
// thread has an MLIR context of its own.
//
// SPDX-License-Identifier: Apache-2.0
#include "passes/KernelCompiler.h"

#include "compiler/Artifact/Code.h"
#include "compiler/Artifact/CompilerIdentity.h"
#include "compiler/Artifact/KernelCode.h"
#include "compiler/Dialect/AMP/AMP.h"
#include "compiler/Dialect/MPC/MPC.h"
#include "compiler/Dialect/Plan/Plan.h"
#include "compiler/Kernels/KernelPartition.h"
#include "compiler/Support/ExitCode.h"
#include "passes/Pipeline.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"

#include <atomic>
#include <future>
#include <system_error>

using namespace mlir;
using namespace mpc;

namespace {
/// A kernel, its text, and its code or error message.
struct Job {
  func::FuncOp kernel;
  std::string text, key;
  std::optional<std::string> code;
  bool isKept = false; ///< true if the cache had the code
  std::string error;
  ExitCode exitCode = ExitCode::Internal;
};

/// Compiles kernels one after another. Every thread has a worker with a context
/// of its own.
class Worker {
public:
  explicit Worker(const TargetInfo &target);
  void compile(Job &job);
  /// Compiles `text`, a module of kernels, to an object file or to PTX.
  FailureOr<std::string> lower(StringRef text);

private:
  const TargetInfo &target;
  MLIRContext context{MLIRContext::Threading::DISABLED};
};
} // namespace

//===----------------------------------------------------------------------===//
// Kernels as text
//===----------------------------------------------------------------------===//

/// Prints a kernel without its name, decision records and names of nodes.
/// Kernels with equal text have equal code.
static std::string printKernel(func::FuncOp kernel) {
  OwningOpRef<func::FuncOp> copy = kernel.clone();
  Attribute kind = kernel->getAttr(kKernelAttr);
  auto none = DictionaryAttr::get(kernel.getContext());
  copy->walk([&](Operation *op) { op->setDiscardableAttrs(none); });
  (*copy)->setAttr(kKernelAttr, kind);
  copy->setName(kAnonymousKernel);
  std::string text;
  llvm::raw_string_ostream out(text);
  copy->print(out, OpPrintingFlags().assumeVerified());
  return text;
}

static std::vector<Job> collectJobs(ModuleOp planned) {
  std::vector<Job> jobs;
  for (auto kernel : planned.getOps<func::FuncOp>())
    if (kernel->hasAttr(kKernelAttr)) {
      Job &job = jobs.emplace_back();
      job.kernel = kernel;
      job.text = printKernel(kernel);
    }
  return jobs;
}

//===----------------------------------------------------------------------===//
// Compiling
//===----------------------------------------------------------------------===//

Worker::Worker(const TargetInfo &target) : target(target) {
  context.loadDialect<MPCDialect, amp::AMPDialect, plan::PlanDialect,
                      func::FuncDialect>();
}

FailureOr<std::string> Worker::lower(StringRef text) {
  auto module = parseSourceString<ModuleOp>(text, &context);
  if (!module)
    return failure();
  PipelineOptions options;
  options.target = target.getName().str();
  if (failed(runStage(*module, options, Stage::Codegen)))
    return failure();
  auto code = compileKernels(
      *module, target, target.isGPU() ? CodeFormat::PTX : CodeFormat::Object);
  if (code)
    return std::move(*code);
  emitError(UnknownLoc::get(&context)) << llvm::toString(code.takeError());
  return failure();
}

void Worker::compile(Job &job) {
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    if (diagnostic.getSeverity() != DiagnosticSeverity::Error)
      return;
    if (job.error.empty())
      job.exitCode = getExitCode(diagnostic);
    job.error += (job.error.empty() ? "" : "; ") + diagnostic.str();
  });
  if (FailureOr<std::string> code = lower(job.text); succeeded(code))
    job.code = std::move(*code);
}

/// Compiles the jobs without code: those that the cache does not have.
static void compileJobs(std::vector<Job> &jobs,
                        const KernelCompilerOptions &options) {
  std::vector<Job *> missing;
  for (Job &job : jobs)
    if (!job.code)
      missing.push_back(&job);
  // Kernels take different times, so each thread takes the next job as soon as
  // it is free.
  std::atomic<size_t> next = 0;
  auto work = [&] {
    Worker worker(options.target);
    for (size_t i; (i = next++) < missing.size();)
      worker.compile(*missing[i]);
  };
  size_t threads = std::min<size_t>(options.threads, missing.size());
  if (threads == 0)
    return;
  std::vector<std::future<void>> others;
  try {
    while (others.size() + 1 < threads)
      others.push_back(std::async(std::launch::async, work));
  } catch (const std::system_error &) {
    // The system allows no more threads. The running threads do all jobs.
  }
  work();
  // get() waits for the thread, and rethrows its exception, such as out of
  // memory.
  for (std::future<void> &other : others)
    other.get();
}

//===----------------------------------------------------------------------===//
// The cache
//===----------------------------------------------------------------------===//

/// Returns text about everything else that code depends on: compiler and
/// target.
static std::string describeCompilation(const TargetInfo &target) {
  return identifyCompiler() + target.getTriple().str() + " " +
         target.getTuneCPU().str() + " " + target.getFeatureString() + "\n";
}

static void lookUp(std::vector<Job> &jobs, const CodeCache &cache,
                   const TargetInfo &target) {
  std::string compilation = describeCompilation(target);
  for (Job &job : jobs) {
    job.key = compilation + job.text;
    job.code = cache.lookup(job.key);
    job.isKept = job.code.has_value();
  }
}

mlir::FailureOr<std::string>
mpc::compilePlannedKernels(ModuleOp planned,
                           const KernelCompilerOptions &options,
                           KernelCounts *counts) {
  std::vector<Job> jobs = collectJobs(planned);
  // If libraries do all the work, the plan has no kernels. A GPU's driver still
  // needs a module, so compile an empty one.
  if (jobs.empty() && options.target.isGPU())
    return Worker(options.target).lower("module {}");
  if (options.cache)
    lookUp(jobs, *options.cache, options.target);
  if (counts)
    *counts = {jobs.size(), size_t(llvm::count_if(jobs, [](const Job &job) {
                 return job.isKept;
               }))};
  compileJobs(jobs, options);

  // Report all failures, in the order of the kernels in the plan.
  std::vector<KernelCode> kernels;
  for (Job &job : jobs) {
    if (job.code)
      kernels.push_back({job.kernel.getName().str(), std::move(*job.code)});
    else
      withExitCode(job.kernel.emitError(), job.exitCode) << job.error;
  }
  if (kernels.size() != jobs.size())
    return failure();

  // Store new code in the cache. Pruning removes the oldest code.
  if (options.cache) {
    for (size_t i = 0; i < jobs.size(); ++i)
      if (!jobs[i].isKept)
        options.cache->store(jobs[i].key, kernels[i].code);
    options.cache->prune();
  }
  auto joined =
      options.target.isGPU() ? joinPTX(kernels) : joinObjects(kernels);
  if (joined)
    return std::move(*joined);
  return emitError(planned.getLoc()) << llvm::toString(joined.takeError());
}
