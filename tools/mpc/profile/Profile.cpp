// SPDX-License-Identifier: Apache-2.0
#include "tools/mpc/profile/Profile.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"

#include <tuple>

using namespace mpc;
using namespace mpc::tools;
using namespace mpc::runtime;
using namespace mpc::runtime::train;

double NodeProfile::total() const {
  double sum = 0;
  for (const auto &[phase, part] : seconds)
    sum += part;
  return sum;
}

double Profile::kernelSeconds() const {
  double sum = 0;
  for (const KernelProfile &kernel : kernels)
    sum += kernel.total();
  return sum;
}

double mpc::tools::findMedian(std::vector<double> values) {
  if (values.empty())
    return 0;
  const size_t middle = values.size() / 2;
  llvm::sort(values);
  return values.size() % 2 ? values[middle]
                           : (values[middle - 1] + values[middle]) / 2;
}

//===----------------------------------------------------------------------===//
// Buffers
//===----------------------------------------------------------------------===//

// Lists the buffers that a step uses, each once, also those of inner steps.
static void listBuffersOf(const Step &step, std::vector<size_t> &found) {
  std::vector<size_t> listed = listBuffers(step);
  if (const auto *loop = std::get_if<ForStep>(&step.op))
    for (const Step &inner : loop->steps)
      listBuffersOf(inner, listed);
  if (const auto *branch = std::get_if<IfStep>(&step.op))
    for (const Step &inner : branch->then)
      listBuffersOf(inner, listed);
  for (size_t buffer : listed)
    if (!llvm::is_contained(found, buffer))
      found.push_back(buffer);
}

static std::vector<std::string> listTypes(const Function &function,
                                          const std::vector<size_t> &buffers) {
  std::vector<std::string> types;
  for (size_t buffer : buffers) {
    std::string type(nameOf(function.buffers[buffer].type));
    if (!llvm::is_contained(types, type))
      types.push_back(std::move(type));
  }
  return types;
}

namespace {
/// Finds the least time of a function's steps by the roof. Each buffer comes at
/// the bandwidth of memory that was last used as many bytes ago as the function
/// has used since: a buffer that was just written is still in a cache.
class RoofTimes {
public:
  RoofTimes(const Function &function, const Roof &roof)
      : function(function), roof(roof) {
    // The steps before the first are the last steps of the run before.
    for (const Step &step : function.steps)
      touch(step);
  }

  double next(const Step &step, const StepWork &work);

private:
  using Place = std::tuple<Space, size_t, int64_t>;
  Place placeOf(size_t buffer) const {
    const Buffer &described = function.buffers[buffer];
    return {described.space, described.index, described.offset};
  }
  void touch(const Step &step);

  const Function &function;
  const Roof &roof;
  double used = 0; ///< bytes of all buffers of all steps so far
  /// The value of `used` when the memory at a place was used last.
  std::map<Place, double> last;
};
} // namespace

void RoofTimes::touch(const Step &step) {
  std::vector<size_t> buffers;
  listBuffersOf(step, buffers);
  for (size_t buffer : buffers)
    used += double(function.buffers[buffer].bytes);
  for (size_t buffer : buffers)
    last[placeOf(buffer)] = used;
}

double RoofTimes::next(const Step &step, const StepWork &work) {
  std::vector<size_t> buffers;
  listBuffersOf(step, buffers);
  double listed = 0;
  for (size_t buffer : buffers)
    listed += double(function.buffers[buffer].bytes);
  double memory = 0;
  for (size_t buffer : buffers) {
    if (listed == 0)
      break;
    // A step may use a part of a buffer, as a gather, or use it several times,
    // as a loop.
    const double bytes = double(function.buffers[buffer].bytes);
    memory += bytes / listed * work.bytes /
              roof.bandwidthAt(used - last[placeOf(buffer)] + bytes);
  }
  touch(step);
  return std::max(memory, work.flops / roof.flopsOf(work.type));
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

static void addKernels(Profile &profile, const Function &function,
                       const std::vector<StepWork> *work,
                       const FunctionSamples &samples, double steps) {
  std::optional<RoofTimes> roof;
  if (work && profile.roof)
    roof.emplace(function, *profile.roof);
  for (size_t i = 0; i < function.steps.size(); ++i) {
    const Step &step = function.steps[i];
    std::vector<size_t> buffers;
    listBuffersOf(step, buffers);
    KernelProfile kernel;
    kernel.function = function.name;
    kernel.name = step.name;
    kernel.op = wordOf(step);
    kernel.symbol = kernelOf(step);
    kernel.types = listTypes(function, buffers);
    kernel.calls = double(samples.calls) / steps;
    kernel.seconds = findMedian(samples.steps[i]);
    if (work)
      kernel.work = (*work)[i];
    if (roof)
      kernel.roofSeconds = roof->next(step, (*work)[i]);
    profile.kernels.push_back(std::move(kernel));
  }
}

// Returns the names of forward nodes, which are the model's own and may have a
// '#'.
static llvm::StringSet<> findForwardNames(const Profile &profile) {
  llvm::StringSet<> names;
  for (const KernelProfile &kernel : profile.kernels)
    if (kernel.work)
      for (const NodeShare &node : kernel.work->nodes)
        if (node.phase == kForwardPhase)
          names.insert_range(node.names);
  return names;
}

// Returns names without the suffixes of phases: conv1#dx becomes conv1, and
// block#2#dx becomes block#2 if the model has a node of this name.
static std::vector<std::string> dropSuffixes(const NodeShare &node,
                                             const llvm::StringSet<> &forward) {
  std::vector<std::string> result;
  for (llvm::StringRef name : node.names) {
    llvm::StringRef own = name;
    while (!forward.contains(own) && own.contains('#'))
      own = own.rsplit('#').first;
    result.push_back(own.str());
  }
  return result;
}

// Splits the time of each kernel over its nodes.
static void addNodes(Profile &profile) {
  const llvm::StringSet<> forward = findForwardNames(profile);
  std::map<std::vector<std::string>, std::map<std::string, double>> nodes;
  for (const KernelProfile &kernel : profile.kernels)
    if (kernel.work)
      for (const NodeShare &node : kernel.work->nodes) {
        const double seconds = node.share * kernel.total();
        nodes[dropSuffixes(node, forward)][node.phase] += seconds;
        profile.phases[node.phase] += seconds;
      }
  for (auto &[names, seconds] : nodes)
    profile.nodes.push_back({names, seconds});
}

void mpc::tools::addTimes(Profile &profile, const Plan &plan,
                          const ArtifactWork &work,
                          const ProfileRecorder &recorder) {
  profile.kernels.clear();
  profile.nodes.clear();
  profile.phases.clear();
  profile.measuredSteps = recorder.getMeasuredSteps().size();
  profile.stepSeconds = findMedian(recorder.getPlainSteps());
  profile.measuredStepSeconds = findMedian(recorder.getMeasuredSteps());
  for (const auto &[name, samples] : recorder.getFunctions())
    if (const Function *function = plan.findFunction(name)) {
      const auto described = work.find(name);
      addKernels(profile, *function,
                 described == work.end() ? nullptr : &described->second,
                 samples, double(profile.measuredSteps));
    }
  addNodes(profile);
  auto isLonger = [](const auto &a, const auto &b) {
    return a.total() > b.total();
  };
  llvm::stable_sort(profile.kernels, isLonger);
  llvm::stable_sort(profile.nodes, isLonger);
}
