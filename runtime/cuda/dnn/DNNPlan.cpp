// Asks cuDNN for engines, and compiles them.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/dnn/DNNPlan.h"

#include "runtime/cuda/SharedLibrary.h"

#include <algorithm>

namespace mpc::runtime::cuda {

/// The most configurations that mpc considers per graph, more than the library
/// proposes.
static constexpr int64_t kMaxCandidates = 256;
static constexpr size_t kMaxNotes = 32;

//===----------------------------------------------------------------------===//
// Plans
//===----------------------------------------------------------------------===//

StatusOr<std::shared_ptr<DNNPlan>>
DNNPlan::compile(const DNN &library, std::shared_ptr<DNNGraph> graph,
                 DNNObject config, DNNEngine engine) {
  std::shared_ptr<DNNPlan> result(new DNNPlan(
      library, std::move(graph), std::move(config), std::move(engine)));
  result->plan = std::make_unique<DNNObject>(
      library, DNNDescriptorType::ExecutionPlan, "plan an operation");
  DNNObject &plan = *result->plan;
  plan.set(DNNAttribute::ExecutionPlanHandle, DNNAttributeType::Handle,
           &library.handle, 1);
  plan.set(DNNAttribute::ExecutionPlanEngineConfig, result->config);
  if (Status status = plan.finalize(); !status.ok())
    return status;
  int64_t bytes = 0, count = 0;
  DNNStatus asked = library.call.getAttribute(
      plan.get(), DNNAttribute::ExecutionPlanWorkspaceSize,
      DNNAttributeType::Int64, 1, &count, &bytes);
  if (Status status = library.check(asked, "size its workspace"); !status.ok())
    return status;
  if (bytes < 0)
    return Status(StatusCode::Device, "cuDNN asks for a workspace of " +
                                          std::to_string(bytes) + " bytes");
  result->bytes = static_cast<size_t>(bytes);
  return result;
}

StatusOr<std::unique_ptr<DNNObject>> DNNPlan::bind(const DNNBindings &bindings,
                                                   void *workspace) const {
  auto pack = std::make_unique<DNNObject>(
      library, DNNDescriptorType::VariantPack, "bind an operation's operands");
  pack->set(DNNAttribute::VariantPackUniqueIds, bindings.ids);
  pack->set(DNNAttribute::VariantPackDataPointers,
            DNNAttributeType::VoidPointer, bindings.addresses.data(),
            bindings.addresses.size());
  pack->set(DNNAttribute::VariantPackWorkspace, DNNAttributeType::VoidPointer,
            &workspace, 1);
  if (Status status = pack->finalize(); !status.ok())
    return status;
  return pack;
}

Status DNNPlan::execute(const DNNObject &pack, const char *what) const {
  return library.check(
      library.call.execute(library.handle, plan->get(), pack.get()), what);
}

//===----------------------------------------------------------------------===//
// Configurations
//===----------------------------------------------------------------------===//

/// Returns the configurations that the library proposes, the fastest first.
/// Empty if there are none.
static StatusOr<std::vector<DNNObject>> listCandidates(const DNN &library,
                                                       const DNNGraph &graph,
                                                       DNNHeuristicMode mode) {
  std::vector<DNNObject> configs;
  DNNObject heuristic(library, DNNDescriptorType::EngineHeuristic,
                      "propose an engine");
  heuristic.set(DNNAttribute::HeuristicOperationGraph, graph.get());
  heuristic.set(DNNAttribute::HeuristicMode, DNNAttributeType::HeuristicMode,
                &mode, 1);
  // The library reports that it has no engine by rejecting the graph here.
  if (!heuristic.finalize().ok())
    return configs;
  int64_t count = 0;
  DNNStatus asked = library.call.getAttribute(
      heuristic.get(), DNNAttribute::HeuristicResults,
      DNNAttributeType::BackendDescriptor, 0, &count, nullptr);
  if (Status status = library.check(asked, "count engines"); !status.ok())
    return status;
  count = std::min(count, kMaxCandidates);
  std::vector<DNNDescriptor> handles;
  for (int64_t i = 0; i < count; ++i) {
    configs.emplace_back(library, DNNDescriptorType::EngineConfig,
                         "describe an engine");
    handles.push_back(configs.back().get());
  }
  if (count == 0)
    return configs;
  // The library may fill in fewer configurations than it counted.
  int64_t given = 0;
  asked = library.call.getAttribute(
      heuristic.get(), DNNAttribute::HeuristicResults,
      DNNAttributeType::BackendDescriptor, count, &given, handles.data());
  if (Status status = library.check(asked, "list engines"); !status.ok())
    return status;
  while (configs.size() > static_cast<size_t>(std::max<int64_t>(given, 0)))
    configs.pop_back();
  return configs;
}

/// Returns the engine of a configuration.
static StatusOr<DNNEngine> findEngine(const DNN &library,
                                      const DNNObject &config) {
  DNNObject object(library, DNNDescriptorType::Engine, "describe an engine");
  DNNDescriptor handle = object.get();
  int64_t count = 0;
  DNNStatus asked = library.call.getAttribute(
      config.get(), DNNAttribute::EngineConfigEngine,
      DNNAttributeType::BackendDescriptor, 1, &count, &handle);
  if (Status status = library.check(asked, "name an engine"); !status.ok())
    return status;
  DNNEngine engine;
  asked = library.call.getAttribute(
      object.get(), DNNAttribute::EngineGlobalIndex, DNNAttributeType::Int64, 1,
      &count, &engine.index);
  if (Status status = library.check(asked, "number an engine"); !status.ok())
    return status;
  engine.notes.resize(kMaxNotes);
  asked = library.call.getAttribute(
      object.get(), DNNAttribute::EngineNumericalNote,
      DNNAttributeType::NumericalNote, kMaxNotes, &count, engine.notes.data());
  if (Status status = library.check(asked, "describe an engine"); !status.ok())
    return status;
  engine.notes.resize(
      static_cast<size_t>(std::clamp<int64_t>(count, 0, kMaxNotes)));
  return engine;
}

/// True if no known note says that an engine gives different bits in each run,
/// or computes in another type than the step's. A note that a later version of
/// the library added is only logged, since its meaning is unknown.
static bool keepsPromises(const DNNEngine &engine, const DNNDemands &demands) {
  for (DNNNumericalNote note : engine.notes)
    // A note may be harmless, exclude the engine, or be unknown.
    switch (note) {
    case DNNNumericalNote::TensorCore:
      if (!demands.allowsTensorCores)
        return false;
      break;
    case DNNNumericalNote::DownConvertInputs:
    case DNNNumericalNote::ReducedPrecisionReduction:
    case DNNNumericalNote::FFT:
    case DNNNumericalNote::Nondeterministic:
    case DNNNumericalNote::Winograd:
    case DNNNumericalNote::Winograd4x4:
    case DNNNumericalNote::Winograd6x6:
    case DNNNumericalNote::Winograd13x13:
      return false;
    case DNNNumericalNote::StrictNaNPropagation:
      break;
    default:
      logChoice(engine.describe() +
                " has a numerical note this runtime does not know, " +
                std::to_string(static_cast<int>(note)) + "; used anyway");
    }
  return true;
}

//===----------------------------------------------------------------------===//
// The choice
//===----------------------------------------------------------------------===//

/// Adds the operation to the error of an allocation of scratch memory.
static Status explain(const Status &shortage, const DNNDemands &demands) {
  std::string text = shortage.message() + "; these bytes are for " +
                     demands.operation + ", beside the plan's memory";
  if (text.find(demands.remedy) == std::string::npos)
    text += demands.remedy;
  return Status(shortage.getCode(), text);
}

namespace {
class PlanChooser {
public:
  PlanChooser(DNN &library, std::shared_ptr<DNNGraph> graph,
              const DNNDemands &demands)
      : library(library), graph(std::move(graph)), demands(demands) {}

  StatusOr<std::shared_ptr<const DNNPlan>> choose();

private:
  StatusOr<bool> tryConfig(DNNObject config);
  StatusOr<bool> tryNamed();

  DNN &library;
  std::shared_ptr<DNNGraph> graph;
  const DNNDemands &demands;
  std::shared_ptr<const DNNPlan> chosen;
  Status shortage; ///< the error of the last failed workspace allocation
  Status refusal;  ///< the error of the last plan that was not compiled
};
} // namespace

/// Compiles a configuration. False if the engine cannot run the graph, does not
/// meet the demands, or has no room for its workspace.
StatusOr<bool> PlanChooser::tryConfig(DNNObject config) {
  StatusOr<DNNEngine> engine = findEngine(library, config);
  if (!engine.ok())
    return engine.status();
  if (!keepsPromises(*engine, demands))
    return false;
  StatusOr<std::shared_ptr<DNNPlan>> plan =
      DNNPlan::compile(library, graph, std::move(config), *engine);
  // A proposal may fail for this particular shape.
  if (!plan.ok()) {
    refusal = plan.status();
    return false;
  }
  // The workspace needs device memory beyond the memory that mpc has planned,
  // so its size is limited.
  const size_t bytes = (*plan)->workspaceBytes();
  if (bytes > demands.maxWorkspaceBytes)
    return false;
  if (demands.isExact) {
    StatusOr<bool> exact = demands.isExact(**plan);
    if (!exact.ok() || !*exact)
      return exact;
  }
  // Lack of memory is not final: another engine may need less.
  if (shortage = library.workspace.reserve(bytes + demands.ownBytes);
      !shortage.ok()) {
    logChoice(engine->describe() +
              " is passed over, as there is no room for its workspace of " +
              std::to_string(bytes) + " bytes: " + demands.operation);
    return false;
  }
  // The first engine that works is taken and logged.
  chosen = *plan;
  std::string notes;
  for (DNNNumericalNote note : engine->notes)
    notes += " " + std::to_string(static_cast<int>(note));
  logChoice(engine->describe() + ", notes" + (notes.empty() ? " none" : notes) +
            ", workspace " + std::to_string(bytes) +
            " bytes: " + demands.operation);
  return true;
}

/// Tries the engine that the demands name.
StatusOr<bool> PlanChooser::tryNamed() {
  const DNNDemands::Named &named = *demands.named;
  DNNObject engine(library, DNNDescriptorType::Engine, "name an engine");
  engine.set(DNNAttribute::EngineOperationGraph, graph->get());
  engine.set(DNNAttribute::EngineGlobalIndex, named.index);
  refusal = engine.finalize();
  if (!refusal.ok())
    return false;
  std::vector<DNNObject> choices;
  std::vector<DNNDescriptor> handles;
  for (auto [knob, value] : named.knobs) {
    DNNObject &choice = choices.emplace_back(
        library, DNNDescriptorType::KnobChoice, "set a knob of an engine");
    choice.set(DNNAttribute::KnobChoiceType, DNNAttributeType::KnobType, &knob,
               1);
    choice.set(DNNAttribute::KnobChoiceValue, value);
    refusal = choice.finalize();
    if (!refusal.ok())
      return false;
    handles.push_back(choice.get());
  }
  DNNObject config(library, DNNDescriptorType::EngineConfig,
                   "describe an engine");
  config.set(DNNAttribute::EngineConfigEngine, engine);
  config.set(DNNAttribute::EngineConfigKnobChoices,
             DNNAttributeType::BackendDescriptor, handles.data(),
             handles.size());
  refusal = config.finalize();
  if (!refusal.ok())
    return false;
  return tryConfig(std::move(config));
}

StatusOr<std::shared_ptr<const DNNPlan>> PlanChooser::choose() {
  if (demands.named) {
    StatusOr<bool> works = tryNamed();
    if (!works.ok())
      return works.status();
    if (*works)
      return chosen;
  } else {
    // Take the first proposal that works. cuDNN sorts them by estimated speed.
    for (DNNHeuristicMode mode :
         {DNNHeuristicMode::A, DNNHeuristicMode::Fallback}) {
      StatusOr<std::vector<DNNObject>> configs =
          listCandidates(library, *graph, mode);
      if (!configs.ok())
        return configs.status();
      for (DNNObject &config : *configs) {
        StatusOr<bool> works = tryConfig(std::move(config));
        if (!works.ok())
          return works.status();
        if (*works)
          return chosen;
      }
    }
  }
  // No proposal works: memory is short, or no engine keeps mpc's promises.
  if (!shortage.ok())
    return explain(shortage, demands);
  return Status(StatusCode::Device,
                "cuDNN " + std::to_string(library.call.getVersion()) +
                    " has no deterministic engine for " + demands.operation +
                    (demands.remark ? demands.remark() : "") +
                    (refusal.ok() ? "" : "; " + refusal.message()) +
                    demands.remedy);
}

StatusOr<std::shared_ptr<const DNNPlan>>
findPlan(DNN &library, std::shared_ptr<DNNGraph> graph,
         const DNNDemands &demands) {
  auto known = library.plans.find(graph->key());
  if (known != library.plans.end()) {
    // The workspace never shrinks, but a step may need more beside the plan's.
    Status status = library.workspace.reserve(known->second->workspaceBytes() +
                                              demands.ownBytes);
    if (!status.ok())
      return explain(status, demands);
    return known->second;
  }
  const std::string key = graph->key();
  StatusOr<std::shared_ptr<const DNNPlan>> plan =
      PlanChooser(library, std::move(graph), demands).choose();
  if (plan.ok())
    library.plans.emplace(key, *plan);
  return plan;
}

} // namespace mpc::runtime::cuda
