// Collects the decision records of a module, gives each a unique id, and
// summarises the records in one line.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Precision/DecisionReport.h"
#include "compiler/Precision/PrecisionGraph.h"

#include "compiler/Dialect/AMP/NodeIds.h"
#include "compiler/Dialect/MPC/MPC.h"
#include "compiler/Dialect/MPC/NodeNames.h"
#include "compiler/Dialect/MPC/Target.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/xxhash.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::amp;

//===----------------------------------------------------------------------===//
// Collecting
//===----------------------------------------------------------------------===//

std::vector<FunctionOpInterface> mpc::getShownFunctions(ModuleOp module) {
  static constexpr llvm::StringLiteral choices[][2] = {
      {kStepFunction, ""},
      {kAccumulateFunction, kUpdateFunction},
      {kForwardFunction, ""},
      {kEvalFunction, ""}};
  for (const auto &names : choices) {
    std::vector<FunctionOpInterface> found;
    for (StringRef name : names)
      if (auto function = module.lookupSymbol<FunctionOpInterface>(name))
        found.push_back(function);
    if (!found.empty())
      return found;
  }
  auto all = module.getOps<FunctionOpInterface>();
  return {all.begin(), all.end()};
}

// Returns the op's id. If the id is taken, as by an op of another function that
// shares all decisions with this op, adds a number: `name~2`, `name~3`, ... An
// op without a name uses its kind.
static std::string makeId(Operation *op, llvm::StringSet<> &taken) {
  StringRef name = getNodeName(op);
  if (auto id = op->getAttrOfType<StringAttr>(kIdAttr))
    name = id.getValue();
  if (name.empty())
    name = op->getName().stripDialect();
  std::string id = name.str();
  for (unsigned n = 2; !taken.insert(id).second; ++n)
    id = (name + "~" + llvm::Twine(n)).str();
  return id;
}

bool mpc::hasFastKernel(PrecisionOpInterface op, DecisionAttr record,
                        const TargetInfo &target) {
  return op.getNumContractedOperands() == 0 ||
         target.hasNativeContraction(record.getCompute());
}

// Returns the low type for which costs are estimated. Modes with one float type
// show the costs of bf16-mixed.
static FloatType getLowType(ModuleOp module) {
  auto mode = module->getAttrOfType<PrecisionModeAttr>(kModeAttr);
  if (mode && mode.getValue() == PrecisionMode::FP16Mixed)
    return Float16Type::get(module.getContext());
  return BFloat16Type::get(module.getContext());
}

DecisionReport::DecisionReport(ModuleOp module, bool showsCosts)
    : module(module), functions(getShownFunctions(module)) {
  const TargetInfo target = getTarget(module);
  const FloatType low = getLowType(module);
  const ModelTypes types(module);
  llvm::StringSet<> taken;
  for (FunctionOpInterface function : functions) {
    function->walk([&](Operation *op) {
      auto precise = dyn_cast<PrecisionOpInterface>(op);
      DecisionAttr record = DecisionAttr::of(op);
      if (precise && record)
        decisions.push_back({op, record, makeId(op, taken), std::nullopt,
                             showsCosts ? std::optional(estimateCost(
                                              precise, low, target, types))
                                        : std::nullopt,
                             hasFastKernel(precise, record, target)});
    });
  }
  summary = DecisionSummary(module, decisions);
}

void DecisionReport::addCasts(const KernelCasts &kernels) {
  casts = kernels.getTotal();
  llvm::StringMap<Decision *> named;
  for (Decision &decision : decisions) {
    decision.casts.emplace();
    named[decision.id] = &decision;
  }
  if (decisions.empty())
    return;
  for (const auto &[name, counts] : kernels.getNames()) {
    Decision *decision = named.lookup(name.getValue());
    *(decision ? decision : &decisions.front())->casts += counts;
  }
}

//===----------------------------------------------------------------------===//
// Names
//===----------------------------------------------------------------------===//

// Returns the model's node behind a backward or update op: conv1 for conv1#dx,
// w for w#update. Names of forward ops stay whole, because the model itself may
// use a #.
static StringRef getForwardName(StringRef name, Phase phase) {
  return isForward(phase) ? name : name.split('#').first;
}

StringRef Decision::getNode() const {
  return getForwardName(getNodeName(op), getPhase(op));
}

std::optional<SmallVector<StringRef>> Decision::getFollowers() const {
  auto followers = op->getAttrOfType<ArrayAttr>(kFollowersAttr);
  if (!followers)
    return std::nullopt;
  SmallVector<StringRef> ids;
  for (auto id : followers.getAsRange<StringAttr>())
    ids.push_back(id.getValue());
  return ids;
}

// True if the name `node` selects `decision`: it is the op's id (conv1~2) or
// one of the op's nodes. conv1 also selects the backward op conv1#dx.
static bool isAddressed(const Decision &decision, StringRef node) {
  return decision.id == node ||
         llvm::any_of(getNodeNames(decision.op), [&](StringRef name) {
           return name.consume_front(node) &&
                  (name.empty() || name.front() == '#');
         });
}

std::optional<std::string>
DecisionReport::select(llvm::ArrayRef<std::string> nodes) {
  std::vector<bool> isShown(decisions.size(), false);
  for (const std::string &node : nodes) {
    bool found = false;
    for (auto [i, decision] : llvm::enumerate(decisions))
      if (isAddressed(decision, node))
        isShown[i] = found = true;
    if (!found)
      return node;
  }
  std::vector<Decision> shown;
  for (auto [i, decision] : llvm::enumerate(decisions))
    if (isShown[i])
      shown.push_back(std::move(decision));
  decisions = std::move(shown);
  return std::nullopt;
}

std::vector<std::string> DecisionReport::suggest(StringRef node) const {
  constexpr size_t kMost = 3;
  constexpr unsigned kNear = 2;
  std::vector<std::string> near;
  for (const Decision &decision : decisions)
    for (StringRef name : getNodeNames(decision.op)) {
      name = getForwardName(name, getPhase(decision.op));
      bool isNear =
          (node.size() > 1 && name.contains_insensitive(node)) ||
          name.edit_distance(node, /*AllowReplacements=*/true, kNear) <= kNear;
      if (isNear && near.size() < kMost && !llvm::is_contained(near, name))
        near.push_back(name.str());
    }
  return near;
}

//===----------------------------------------------------------------------===//
// All together
//===----------------------------------------------------------------------===//

DecisionSummary::DecisionSummary(ModuleOp module,
                                 ArrayRef<Decision> decisions) {
  unsigned low = 0, contractions = 0, lowContractions = 0, missing = 0;
  for (const Decision &decision : decisions) {
    bool isContraction =
        cast<PrecisionOpInterface>(decision.op).getNumContractedOperands() > 0;
    low += decision.record.isLowered();
    contractions += isContraction;
    lowContractions += isContraction && decision.record.isLowered();
    missing += !decision.isFast;
  }
  // Report the mode and the loss scale in use, which may differ from those that
  // the flags ask for.
  auto mode = module->getAttrOfType<PrecisionModeAttr>(kModeAttr);
  auto scale = module->getAttrOfType<LossScaleAttr>(kLossScaleAttr);
  llvm::raw_string_ostream(ops)
      << (mode ? stringifyPrecisionMode(mode.getValue()) : "none") << ": "
      << low << " of " << decisions.size() << " ops low (" << lowContractions
      << " of " << contractions << " contractions)";
  llvm::raw_string_ostream os(rest);
  // A module without a gradient and an update has no loss scale.
  if (scale)
    os << ", loss scale " << stringifyLossScale(scale.getValue());
  // Warn if low ops have no fast kernel on the target, because such ops are
  // slower than in float32.
  if (missing != 0)
    os << "; " << missing << (missing == 1 ? " op has" : " ops have")
       << " no fast kernel in the low type on this target, and may be slower "
          "than in float32; CPUs with "
       << (getLowType(module).isF16() ? "AMX" : "AVX512-BF16") << " have some";
}

std::string
DecisionSummary::print(const std::optional<CastCounts> &casts) const {
  return ops + (casts ? ", " + describeCasts(*casts) : "") + rest;
}

std::vector<std::string> DecisionReport::getSummary() const {
  std::vector<std::string> lines = {summary.print(casts)};
  if (casts) {
    lines.push_back("each step stores " + describeStored(*casts));
    if (casts->bytes != 0)
      lines.back() += llvm::formatv("; casts move {0:N} bytes", casts->bytes);
    if (casts->attentions != 0)
      lines.push_back(llvm::formatv("the library computes {0} attentions and "
                                    "gradients of attentions, with scores and "
                                    "softmax in fp32 inside",
                                    casts->attentions));
  }
  return lines;
}

std::string DecisionReport::getDigest() const {
  std::string text;
  llvm::raw_string_ostream os(text);
  module->walk([&](Operation *op) {
    // A run may resume on a single rank, which reduces nothing.
    if (isa<AllReduceOp>(op))
      return;
    if (DecisionAttr decision = DecisionAttr::of(op))
      os << getNodeName(op) << " " << op->getName() << " "
         << decision.getCompute() << " " << decision.getAccumulate() << " "
         << decision.getStorage() << "\n";
  });
  return llvm::utohexstr(llvm::xxh3_64bits(text), /*LowerCase=*/true,
                         /*Width=*/16);
}
