// Decides the types of every op and records the reasons.
//
// Stores each decision in the IR, as an attribute of the op, and changes no
// types. InsertCasts carries the decisions out, VerifyPrecision checks the
// result, and `mpc explain` prints the attributes.
//
// In mixed modes, low is the 16-bit type (bf16 or f16). A placement chooses low
// or fp32 for each op.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Dialect/AMP/NodeIds.h"
#include "compiler/Dialect/MPC/Target.h"
#include "compiler/Precision/DecisionReport.h"
#include "compiler/Precision/PrecisionGraph.h"
#include "compiler/Support/ExitCode.h"
#include "passes/Precision/DecidedTypes.h"
#include "passes/Precision/Flips/Followers.h"
#include "passes/Precision/Passes.h"
#include "passes/Precision/RequestOptions.h"

#include "mlir/IR/Remarks.h"
#include "mlir/IR/TypeUtilities.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/SmallSet.h"

namespace mpc {
#define GEN_PASS_DEF_ASSIGNPRECISIONPASS
#include "passes/Precision/Passes.h.inc"
} // namespace mpc

using namespace mlir;
using namespace mpc;
using namespace mpc::amp;

namespace {
struct AssignPrecisionPass
    : mpc::impl::AssignPrecisionPassBase<AssignPrecisionPass> {
  using AssignPrecisionPassBase::AssignPrecisionPassBase;
  void runOnOperation() override;

private:
  FloatType getLowType();
  LogicalResult checkExpanded();
  void decide(const PrecisionGraph &graph, unsigned index,
              ArrayRef<Placement> placements, StringRef flip,
              const TargetInfo &target, const LowTypesFinder &finder);
  bool roundsToTF32(const PrecisionGraph &graph, unsigned index,
                    FloatType compute, const TargetInfo &target) const;
  std::vector<Placement> placeInOneType(const PrecisionGraph &graph,
                                        const TargetInfo &target) const;
  void record(const PrecisionGraph &graph, const TargetInfo &target);
  void recordFollowers(const PrecisionGraph &graph,
                       ArrayRef<Placement> placements,
                       const TargetInfo &target);
  void emitRemarks(const TargetInfo &target);

  Request request;
  /// The low type of a mixed mode; null in 32-true and 64-true.
  FloatType low;
};
} // namespace

//===----------------------------------------------------------------------===//
// The mode
//===----------------------------------------------------------------------===//

// Returns the low type of the mode; null if the mode is not mixed.
FloatType AssignPrecisionPass::getLowType() {
  if (request.mode == PrecisionMode::FP16Mixed)
    return Float16Type::get(&getContext());
  if (request.mode == PrecisionMode::BF16Mixed)
    return BFloat16Type::get(&getContext());
  return {};
}

LogicalResult AssignPrecisionPass::checkExpanded() {
  WalkResult walk = getOperation().walk([](GradientOp op) {
    op.emitOpError("expected gradients to be expanded before precision is "
                   "assigned");
    return WalkResult::interrupt();
  });
  return failure(walk.wasInterrupted());
}

//===----------------------------------------------------------------------===//
// One decision
//===----------------------------------------------------------------------===//

// True if an op that is high must read float operands in the types of the
// model: the node is pinned or denied. Any other high op reads low values as
// they are.
static bool keepsOperands(const PlacementNode &problem) {
  return problem.pin == PlacementNode::Pin::High ||
         problem.precisionClass == PrecisionClass::Deny;
}

/// In a mode with one float type: the flag that would make an op low.
static constexpr llvm::StringLiteral kOfferedFlag = "--precision=bf16-mixed";

// Returns the flag with which the user can change the decision:
// `--keep-fp32=^conv1$`, for example. Empty if no flag can.
static std::string getFlip(Reason reason, bool low, StringRef rule,
                           StringRef id) {
  switch (reason) {
  case Reason::Mode:
  case Reason::Update:
  case Reason::ModelCast:
  case Reason::ModelType:
  case Reason::Constant:
  case Reason::LossRegion:
    return "";
  // A flag of the user caused the decision, so dropping the flag undoes it.
  case Reason::KeepFP32:
  case Reason::ForceLow:
    return ("drop " + rule).str();
  default:
    return ((low ? "--keep-fp32=^" : "--force-low=^") +
            llvm::Twine(llvm::Regex::escape(id)) + "$")
        .str();
  }
}

/// The reason recorded for a convolution's weight gradient that the GPU's
/// library can only store in the low type.
static constexpr char kRoundedWeightGradient[] =
    "; rounded once it is summed, as in PyTorch: the GPU's library has no "
    "float32 weight gradient of low operands, and wide operands would take "
    "twice the traffic at half the rate";

// Returns the numbers that led to the placement of node `index`; null if none
// did. An op that is high because it reads the sum of a low and a large value
// has the sources of the sum, where its path begins.
static ArrayAttr findSources(const PrecisionGraph &graph, unsigned index,
                             const Placement &placement) {
  switch (placement.reason) {
  case Reason::ConstantRange:
    return graph.getNodes()[index].rangeSources;
  case Reason::KnownOperand:
    return graph.getNodes()[index].metSources;
  case Reason::WideOperand:
    return graph.getNodes()[placement.path.nodes.front()].metSources;
  default:
    return {};
  }
}

// True if a GPU may round the operands of node `index`, which computes in
// `compute`, to tf32: the user allows this for products, and no flag, list or
// fact keeps the node in fp32.
bool AssignPrecisionPass::roundsToTF32(const PrecisionGraph &graph,
                                       unsigned index, FloatType compute,
                                       const TargetInfo &target) const {
  PrecisionOpInterface op = graph.getNodes()[index].ops.front();
  return request.tf32 && target.isGPU() && compute.isF32() &&
         op.getNumContractedOperands() > 0 &&
         !keepsOperands(graph.getProblem().nodes[index]);
}

// Records the decision for all ops of node `index`.
void AssignPrecisionPass::decide(const PrecisionGraph &graph, unsigned index,
                                 ArrayRef<Placement> placements, StringRef flip,
                                 const TargetInfo &target,
                                 const LowTypesFinder &finder) {
  MLIRContext *context = &getContext();
  const PrecisionGraphNode &node = graph.getNodes()[index];
  const PlacementNode &problem = graph.getProblem().nodes[index];
  const Placement &placement = placements[index];
  PrecisionOpInterface op = node.ops.front();
  FloatType wide = getModelType(op);
  if (request.mode == PrecisionMode::FP64True && wide.isF32())
    wide = Float64Type::get(context);

  bool contraction = op.getNumContractedOperands() > 0;
  FloatType compute = wide.getWidth() < 32 && !contraction
                          ? FloatType(Float32Type::get(context))
                          : wide;
  const LowTypes types = finder.find(index, placements);
  if (types.computesLow)
    compute = low;
  FloatType factor = compute;
  if (roundsToTF32(graph, index, compute, target))
    compute = FloatTF32Type::get(context);
  const bool keeps = low && !placement.low && keepsOperands(problem);
  FloatType moved = types.storesLow ? low : keeps ? wide : FloatType();
  FloatType stored = types.storesLow ? low : FloatType();
  if (request.mode == PrecisionMode::FP64True)
    stored = Float64Type::get(context);

  SmallVector<Attribute> path;
  for (unsigned step : placement.path.nodes)
    path.push_back(StringAttr::get(context, graph.getNodes()[step].name));
  // If the path was shortened, say how many nodes are missing in the middle.
  if (size_t omitted = placement.path.omitted)
    path.insert(path.begin() + PlacementPath::kEnd,
                StringAttr::get(context, "(" + Twine(omitted) + " more)"));
  std::string why = node.entry.why;
  if (types.isRounded)
    why += kRoundedWeightGradient;
  auto rule = StringAttr::get(context, node.entry.rule);
  auto reasonOfRule = StringAttr::get(context, why);
  auto steps = ArrayAttr::get(context, path);
  auto flag = flip.empty() ? StringAttr() : StringAttr::get(context, flip);
  ArrayAttr model = listModelTypes(op);
  for (PrecisionOpInterface each : node.ops)
    each->setAttr(
        DecisionAttr::attrName,
        DecisionAttr::get(context, listOperandTypes(each, factor, moved, keeps),
                          listResultTypes(each, stored), compute,
                          node.entry.precisionClass, rule, reasonOfRule,
                          placement.reason, steps, node.evidence,
                          findSources(graph, index, placement), flag, model));
}

//===----------------------------------------------------------------------===//
// All decisions
//===----------------------------------------------------------------------===//

// Returns the path from an op with results of unbounded range, through ops of
// class clear, to node `index`; empty if there is none. `bounded` marks nodes
// without such a path. If the search finds nothing, marks all visited nodes, so
// that later searches skip them.
static PlacementPath findUnbounded(const PlacementProblem &problem,
                                   unsigned index, llvm::BitVector &bounded) {
  /// Maps each node to the user from which the search reached it.
  llvm::SmallDenseMap<unsigned, unsigned> next;
  SmallVector<unsigned> worklist = {index};
  while (!worklist.empty()) {
    // Search upstream. `wideProducers` are producers whose results stay fp32.
    unsigned reader = worklist.pop_back_val();
    const PlacementNode &read = problem.nodes[reader];
    for (unsigned producer :
         llvm::concat<const unsigned>(read.producers, read.wideProducers)) {
      const PlacementNode &node = problem.nodes[producer];
      if (bounded.test(producer) || !next.try_emplace(producer, reader).second)
        continue;
      // Follow `next` from the unbounded op down to node `index`.
      if (node.unbounded) {
        PlacementPath path;
        path.add(producer);
        while (path.nodes.back() != index)
          path.add(next.lookup(path.nodes.back()));
        return path;
      }
      // A clear op passes the range of its operands on, so search further.
      // Other ops have results of a new range.
      if (node.precisionClass == PrecisionClass::Clear)
        worklist.push_back(producer);
    }
  }
  for (auto [node, from] : next)
    bounded.set(node);
  return {};
}

// Gives a low contraction the reason AllowListUnbounded if it reads a value of
// unbounded range, directly or through clear ops. Making the contraction low
// assumes that the values fit the low type. Also records the path from the
// unbounded value.
static void markUnbounded(const PlacementProblem &problem,
                          MutableArrayRef<Placement> placements) {
  llvm::BitVector bounded(problem.nodes.size());
  for (auto [index, placement] : llvm::enumerate(placements)) {
    if (placement.reason != Reason::AllowList)
      continue;
    PlacementPath path = findUnbounded(problem, index, bounded);
    if (path.nodes.empty())
      continue;
    placement.reason = Reason::AllowListUnbounded;
    placement.path = std::move(path);
  }
}

// Returns the placements of a mode with one float type. With --tf32, a GPU's
// products have the reason for their type of product.
std::vector<Placement>
AssignPrecisionPass::placeInOneType(const PrecisionGraph &graph,
                                    const TargetInfo &target) const {
  std::vector<Placement> placements(graph.getNodes().size());
  for (auto [index, placement] : llvm::enumerate(placements)) {
    PrecisionOpInterface op = graph.getNodes()[index].ops.front();
    const PlacementNode &problem = graph.getProblem().nodes[index];
    placement.path.add(index);
    placement.reason = Reason::Mode;
    if (roundsToTF32(graph, index, getModelType(op), target))
      placement.reason = Reason::TF32;
    else if (request.tf32 && op.getNumContractedOperands() > 0 &&
             problem.pin == PlacementNode::Pin::High)
      placement.reason = problem.pinReason;
    else if (request.tf32 && op.getNumContractedOperands() > 0 &&
             problem.precisionClass == PrecisionClass::Deny)
      placement.reason = Reason::DenyList;
  }
  return placements;
}

void AssignPrecisionPass::record(const PrecisionGraph &graph,
                                 const TargetInfo &target) {
  // In modes with one float type, also compute the placement of a mixed mode:
  // `mpc explain` tells which ops would be low.
  std::vector<Placement> placements =
      createGreedyPlacement(/*findsPaths=*/static_cast<bool>(low))
          ->place(graph.getProblem());
  std::vector<Placement> offered;
  // In mixed modes, find contractions of unbounded values.
  if (low) {
    markUnbounded(graph.getProblem(), placements);
  } else {
    offered = std::move(placements);
    placements = placeInOneType(graph, target);
  }
  const LowTypesFinder finder(graph, target);
  // True if the op gets other types once the user leaves out `flag`.
  llvm::StringMap<std::vector<Placement>> withoutFlag;
  auto dependsOn = [&](unsigned index, StringRef flag) {
    auto [entry, isNew] = withoutFlag.try_emplace(flag);
    if (isNew)
      entry->second = createGreedyPlacement(/*findsPaths=*/false)
                          ->place(graph.dropFlag(flag));
    return finder.find(index, entry->second) != finder.find(index, placements);
  };
  // A node of the model may have several ops: in the training step, in
  // evaluation and in prediction. All get the same decision.
  for (auto [index, node] : llvm::enumerate(graph.getNodes())) {
    const Placement &placement = placements[index];
    std::string flip;
    const bool rounds = placement.reason == Reason::TF32;
    if (!low && placement.reason == Reason::Mode)
      flip =
          finder.find(index, offered) != LowTypes() ? kOfferedFlag.str() : "";
    else if (node.isOpen)
      flip = getFlip(placement.reason, placement.low || rounds, node.entry.rule,
                     node.id);
    // The op may have the types of the user's flag without the flag, too. Only
    // --keep-fp32 then flips the decision, since it wins over --force-low.
    if (low && StringRef(flip).starts_with("drop ") &&
        !dependsOn(index, node.entry.rule))
      flip = placement.low
                 ? getFlip(Reason::BetweenLow, /*low=*/true, "", node.id)
                 : "";
    decide(graph, index, placements, flip, target, finder);
    for (Operation *op : node.ops)
      if (node.id != getNodeName(op))
        op->setAttr(kIdAttr, StringAttr::get(&getContext(), node.id));
  }
  if (low && listFollowers)
    recordFollowers(graph, placements, target);
}

// Records, for each op with a flag that flips the decision, the other ops that
// get other types if the user gives the flag. Lists only ops that a report
// shows.
void AssignPrecisionPass::recordFollowers(const PrecisionGraph &graph,
                                          ArrayRef<Placement> placements,
                                          const TargetInfo &target) {
  ArrayRef<PrecisionGraphNode> nodes = graph.getNodes();
  llvm::BitVector isShown(nodes.size());
  for (FunctionOpInterface function : getShownFunctions(getOperation()))
    function->walk([&](Operation *op) {
      if (std::optional<unsigned> index = graph.lookup(op))
        isShown.set(*index);
    });
  SmallVector<Flip> flips;
  for (unsigned i = 0; i < nodes.size(); ++i) {
    StringAttr flag = DecisionAttr::of(nodes[i].ops.front()).getFlip();
    if (!flag)
      continue;
    StringRef dropped = flag.getValue();
    if (!dropped.consume_front("drop "))
      dropped = {};
    flips.push_back({i, dropped, /*toLow=*/!placements[i].low});
  }
  const std::vector<Followers> found =
      findFollowers(graph, target, placements, flips);
  SmallVector<Attribute> ids;
  for (const PrecisionGraphNode &node : nodes)
    ids.push_back(StringAttr::get(&getContext(), node.id));
  for (auto [flip, followers] : llvm::zip_equal(flips, found)) {
    if (!followers)
      continue;
    SmallVector<Attribute> listed;
    for (unsigned node : *followers)
      if (isShown.test(node) && ids[node] != ids[flip.node])
        listed.push_back(ids[node]);
    for (Operation *op : nodes[flip.node].ops)
      op->setAttr(kFollowersAttr, ArrayAttr::get(&getContext(), listed));
  }
}

// Emits an LLVM remark per op: "passed" for a low op, "missed" for an op that a
// flag would make low, "analysis" for any other op.
void AssignPrecisionPass::emitRemarks(const TargetInfo &target) {
  for (auto function : getOperation().getOps<FunctionOpInterface>())
    function->walk([&](PrecisionOpInterface op) {
      DecisionAttr decision = DecisionAttr::of(op);
      if (!decision)
        return;
      // Users can filter remarks by name of op, category and function.
      StringRef name = op->getName().getStringRef();
      auto options = remark::RemarkOpts::name(name).category("amp").function(
          function.getName());
      auto emit = decision.isLowered() ? remark::passed
                  : decision.getFlip() ? remark::missed
                                       : remark::analysis;
      auto remark = emit(op->getLoc(), options);
      // The texts take long, so write none that nobody reads.
      if (!remark)
        return;
      // `mpc explain` and users read the remarks by these keys.
      remark << remark::detail::Remark::Arg("Node", getNodeName(op))
             << remark::detail::Remark::Arg("Precision",
                                            Type(decision.getStorage()))
             << remark::detail::Remark::Arg(
                    "Reason",
                    describeDecision(decision,
                                     hasFastKernel(op, decision, target)));
    });
}

void AssignPrecisionPass::runOnOperation() {
  ModuleOp module = getOperation();
  if (failed(applyOptions(
          module, {mode, /*lossScale=*/"", policy, keepFP32, forceLow})) ||
      failed(checkExpanded()))
    return signalPassFailure();
  request = getRequest(module);
  low = getLowType();
  TargetInfo target = getTarget(module);

  // Modes with one float type load the policy for bf16: reports then show the
  // classes of ops, and invalid rules are errors in every mode.
  PrecisionPolicy precisionPolicy(
      low ? low : FloatType(BFloat16Type::get(&getContext())));
  if (!request.policy.empty())
    if (llvm::Error error = precisionPolicy.load(request.policy)) {
      withExitCode(module.emitError(), ExitCode::Usage)
          << llvm::toString(std::move(error));
      return signalPassFailure();
    }
  PrecisionFacts facts(module, precisionPolicy, request);
  auto graph = PrecisionGraph::build(module, facts);
  if (failed(graph))
    return signalPassFailure();

  record(*graph, target);
  // Only contractions and similar ops (class allow) gain from a low type. Warn
  // if the model has none.
  if (low &&
      llvm::none_of(graph->getProblem().nodes, [](const PlacementNode &node) {
        return node.precisionClass == PrecisionClass::Allow;
      }))
    module.emitWarning() << stringifyPrecisionMode(request.mode)
                         << " changes nothing: the model has no op that gains "
                            "from a low type";
  module->setAttr(kModeAttr,
                  PrecisionModeAttr::get(&getContext(), request.mode));
  emitRemarks(target);
}
