// Decides the types of every op and records why.
//
// The decision stands in the IR, as an attribute per op, before anything is
// changed: insertion carries it out, verification holds the result against it,
// and everything that explains precision prints it.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Dialect/MPC/Target.h"
#include "compiler/Kernels/ContractionTable.h"
#include "compiler/Precision/DecisionReport.h"
#include "compiler/Precision/Lowered.h"
#include "compiler/Precision/PrecisionGraph.h"
#include "compiler/Regions/RegionAnalysis.h"
#include "compiler/Support/ExitCode.h"
#include "passes/Precision/OperandTypes.h"
#include "passes/Precision/Passes.h"

#include "mlir/IR/Remarks.h"
#include "mlir/IR/TypeUtilities.h"
#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/ADT/BitVector.h"
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
  FailureOr<FloatType> getLowType();
  LogicalResult checkExpanded();
  DecisionAttr decide(const PrecisionGraph &graph, unsigned index,
                      ArrayRef<Placement> placements, StringRef flip,
                      const TargetInfo &target);
  void record(const PrecisionGraph &graph, const TargetInfo &target);
  void countCasts(Block &block);
  void emitRemarks();

  /// The type mixed modes lower to; null in 32-true and 64-true.
  FloatType low;
};
} // namespace

//===----------------------------------------------------------------------===//
// The mode
//===----------------------------------------------------------------------===//

// The low type of the mode, null where it has none.
FailureOr<FloatType> AssignPrecisionPass::getLowType() {
  if (auto known = symbolizePrecisionMode(mode)) {
    if (*known == PrecisionMode::FP16Mixed)
      return FloatType(Float16Type::get(&getContext()));
    if (*known == PrecisionMode::BF16Mixed)
      return FloatType(BFloat16Type::get(&getContext()));
    return FloatType();
  }
  if (llvm::is_contained({"16-true", "bf16-true", "auto"}, mode))
    return withExitCode(getOperation().emitError(), ExitCode::Unsupported)
           << "precision '" << mode
           << "' is not supported, expected 32-true, 16-mixed, bf16-mixed or "
              "64-true";
  return withExitCode(getOperation().emitError(), ExitCode::Usage)
         << "unknown precision '" << mode
         << "', expected 32-true, 16-mixed, bf16-mixed or 64-true";
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

static bool hasLowConsumer(const PlacementNode &node,
                           ArrayRef<Placement> placements) {
  return llvm::any_of(node.consumers, [&](unsigned consumer) {
    return placements[consumer].low;
  });
}

// A sum leaves its fp32 accumulator either way, so where no low op reads it, it
// is stored as it is; rounding it would save no product.
static bool storesLow(PrecisionOpInterface op, const PlacementNode &node,
                      const Placement &placement,
                      ArrayRef<Placement> placements) {
  if (!placement.low || llvm::none_of(op->getResults(), [&](OpResult result) {
        return isa<FloatType>(getElementTypeOrSelf(result.getType())) &&
               !policyKeepsResultFP32(op.getPolicyKey(),
                                      result.getResultNumber());
      }))
    return false;
  auto region = cast<RegionOpInterface>(op.getOperation());
  if (node.keepsResult && placement.reason != Reason::ForceLow)
    return false;
  bool sums = region.getRegionRole() == RegionRole::Contraction ||
              region.getRegionRole() == RegionRole::Reduction;
  return !sums || placement.reason == Reason::ForceLow ||
         hasLowConsumer(node, placements);
}

// Whether `op` is no view of a maximum, or one of values that are stored low:
// of others it stays fp32 as the maximum does, whatever a flag says, since the
// gradient looks for the elements that equal it.
static bool mayRoundMaximum(const PrecisionGraph &graph, Operation *op,
                            ArrayRef<Placement> placements) {
  while (auto view = dyn_cast_or_null<RegionOpInterface>(op)) {
    if (view.getRegionRole() != RegionRole::View)
      break;
    op = op->getOperand(0).getDefiningOp();
  }
  auto maximum = dyn_cast_or_null<ReduceMaxOp>(op);
  if (!maximum)
    return true;
  Operation *source = maximum.getInput().getDefiningOp();
  std::optional<unsigned> index = source ? graph.lookup(source) : std::nullopt;
  return index && storesLow(graph.getNodes()[*index].ops.front(),
                            graph.getProblem().nodes[*index],
                            placements[*index], placements);
}

// The float type the op has in the model: its first float result's, or without
// one its first float operand's.
static FloatType getModelType(Operation *op) {
  for (ValueRange values :
       {ValueRange(op->getResults()), ValueRange(op->getOperands())})
    for (Value value : values)
      if (auto type =
              dyn_cast<FloatType>(getElementTypeOrSelf(value.getType())))
        return type;
  llvm_unreachable("an op of the precision graph has a float");
}

/// What changes an op of a mode with one float type, if anything does.
static constexpr llvm::StringLiteral kOfferedFlag = "--precision=bf16-mixed";

// The flag that changes the decision; none for a hard constraint.
static std::string getFlip(Reason reason, bool low, StringRef rule,
                           StringRef name) {
  switch (reason) {
  // Nothing that a flag says changes these.
  case Reason::Mode:
  case Reason::Update:
  case Reason::ModelCast:
  case Reason::ModelType:
  case Reason::Constant:
  case Reason::LossRegion:
    return "";
  // What a flag asked for is undone by dropping it.
  case Reason::KeepFP32:
  case Reason::ForceLow:
    return ("drop " + rule).str();
  default:
    if (name.empty())
      return "";
    return ((low ? "--keep-fp32=^" : "--force-low=^") +
            llvm::Twine(llvm::Regex::escape(name)) + "$")
        .str();
  }
}

/// What a record adds where hasWideWeightGradient says no.
static constexpr char kRoundedWeightGradient[] =
    "; rounded once it is summed, as in PyTorch: the GPU's library has no "
    "float32 weight gradient of low operands, and wide operands would take "
    "twice the traffic at half the rate";

DecisionAttr AssignPrecisionPass::decide(const PrecisionGraph &graph,
                                         unsigned index,
                                         ArrayRef<Placement> placements,
                                         StringRef flip,
                                         const TargetInfo &target) {
  MLIRContext *context = &getContext();
  const PrecisionGraphNode &node = graph.getNodes()[index];
  const PlacementNode &problem = graph.getProblem().nodes[index];
  const Placement &placement = placements[index];
  PrecisionOpInterface op = node.ops.front();
  FloatType wide = getModelType(op);
  if (symbolizePrecisionMode(mode) == PrecisionMode::FP64True && wide.isF32())
    wide = Float64Type::get(context);

  bool contraction = op.getNumContractedOperands() > 0;
  FloatType compute = wide.getWidth() < 32 && !contraction
                          ? FloatType(Float32Type::get(context))
                          : wide;
  if (placement.low && contraction)
    compute = low;
  bool isStoredLow = storesLow(op, problem, placement, placements) &&
                     mayRoundMaximum(graph, op, placements);
  // The sums are fp32 all the same, and so is what the gradient becomes.
  const bool isRounded = placement.low && isa<ConvWeightGradOp>(op) &&
                         !hasWideWeightGradient(op, target);
  FloatType storage = isStoredLow || isRounded ? low : wide;
  FloatType accumulate = wide.isF64() ? wide : Float32Type::get(context);

  SmallVector<Attribute> path;
  for (unsigned step : placement.path.nodes)
    path.push_back(StringAttr::get(context, graph.getNodes()[step].name));
  // A long way says how many nodes are left out in its middle.
  if (size_t omitted = placement.path.omitted)
    path.insert(path.begin() + PlacementPath::kEnd,
                StringAttr::get(context, "(" + Twine(omitted) + " more)"));
  return DecisionAttr::get(
      context, compute, accumulate, storage, node.entry.precisionClass,
      StringAttr::get(context, node.entry.rule),
      StringAttr::get(context, isRounded
                                   ? node.entry.why + kRoundedWeightGradient
                                   : node.entry.why),
      placement.reason, ArrayAttr::get(context, path), node.evidence,
      !contraction || target.hasNativeContraction(compute), 0, 0, 0,
      problem.costLow, problem.costHigh,
      flip.empty() ? StringAttr() : StringAttr::get(context, flip));
}

// Whether the op would be low in another mode, whose placements are `offered`.
static bool wouldBeLow(const PrecisionGraph &graph, unsigned index,
                       ArrayRef<Placement> offered) {
  PrecisionOpInterface op = graph.getNodes()[index].ops.front();
  const PlacementNode &problem = graph.getProblem().nodes[index];
  return offered[index].low &&
         (op.getNumContractedOperands() > 0 ||
          (storesLow(op, problem, offered[index], offered) &&
           mayRoundMaximum(graph, op, offered)));
}

//===----------------------------------------------------------------------===//
// All decisions
//===----------------------------------------------------------------------===//

// The way from an op of unbounded range through clear ops to node `index`;
// empty where there is none. `bounded` are nodes that no such way leads
// through: a search that finds nothing adds all nodes it has met, so that later
// searches skip them.
static PlacementPath findUnbounded(const PlacementProblem &problem,
                                   unsigned index, llvm::BitVector &bounded) {
  /// What each node was reached from.
  llvm::SmallDenseMap<unsigned, unsigned> next;
  SmallVector<unsigned> worklist = {index};
  while (!worklist.empty()) {
    // Backwards, from a reader to what makes its operands, values that stay
    // fp32 included.
    unsigned reader = worklist.pop_back_val();
    const PlacementNode &read = problem.nodes[reader];
    for (unsigned producer :
         llvm::concat<const unsigned>(read.producers, read.wideProducers)) {
      const PlacementNode &node = problem.nodes[producer];
      if (bounded.test(producer) || !next.try_emplace(producer, reader).second)
        continue;
      // The way back along what each node was reached from.
      if (node.unbounded) {
        PlacementPath path;
        path.add(producer);
        while (path.nodes.back() != index)
          path.add(next.lookup(path.nodes.back()));
        return path;
      }
      // Clear ops pass on the range of what they read; others have one of their
      // own.
      if (node.precisionClass == PrecisionClass::Clear)
        worklist.push_back(producer);
    }
  }
  for (auto [node, from] : next)
    bounded.set(node);
  return {};
}

// A low contraction that reads an unbounded value, through clear ops at most,
// stands on an assumption about its range: the record says so and names the
// way.
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

void AssignPrecisionPass::record(const PrecisionGraph &graph,
                                 const TargetInfo &target) {
  // Modes with one type place too, to say which ops another mode would lower.
  std::vector<Placement> placements =
      createGreedyPlacement(/*findsPaths=*/static_cast<bool>(low))
          ->place(graph.getProblem());
  std::vector<Placement> offered;
  // What may leave the low type's range gets the way from the op that makes it
  // so.
  if (low) {
    markUnbounded(graph.getProblem(), placements);
  } else {
    offered = std::move(placements);
    placements.assign(offered.size(), Placement());
    for (auto [index, placement] : llvm::enumerate(placements)) {
      placement.reason = Reason::Mode;
      placement.path.add(index);
    }
  }
  // The record of each node goes to all its ops: those of step, evaluation and
  // prediction.
  for (auto [index, node] : llvm::enumerate(graph.getNodes())) {
    // The flag that would turn the decision, for `mpc explain`.
    std::string flip;
    if (!low)
      flip = wouldBeLow(graph, index, offered) ? kOfferedFlag.str() : "";
    else if (node.isOpen)
      flip = getFlip(placements[index].reason, placements[index].low,
                     node.entry.rule, getNodeName(node.ops.front()));
    DecisionAttr decision = decide(graph, index, placements, flip, target);
    for (Operation *op : node.ops)
      op->setAttr(DecisionAttr::attrName, decision);
  }
}

// The type `value` will be stored in.
static FloatType getStorage(Value value) {
  if (auto result = dyn_cast<OpResult>(value))
    return getStoredType(result);
  return dyn_cast<FloatType>(getElementTypeOrSelf(value.getType()));
}

static bool needsCast(OpOperand &operand) {
  FloatType required = getRequiredType(operand);
  return required && required != getStorage(operand.get());
}

// Counts the casts that carrying out the decisions will take. A value that is
// written and read in one kernel is converted in registers.
void AssignPrecisionPass::countCasts(Block &block) {
  RegionAnalysis regions(block);
  auto shareKernel = [&](Operation *a, Operation *b) {
    return a && regions.getRegion(a) &&
           regions.getRegion(a) == regions.getRegion(b);
  };
  for (Operation &each : block) {
    // Bodies of loops and branches have kernels of their own.
    if (isa<BodyOpInterface>(each))
      for (Region &body : each.getRegions())
        countCasts(body.front());
    auto op = dyn_cast<PrecisionOpInterface>(each);
    DecisionAttr decision = op ? DecisionAttr::of(op) : DecisionAttr();
    if (!decision)
      continue;
    int64_t in = 0, out = 0, fused = 0;
    // Casts of operands, of which some are within a kernel.
    for (OpOperand &operand : op->getOpOperands())
      if (needsCast(operand)) {
        ++in;
        fused += shareKernel(operand.get().getDefiningOp(), op);
      }
    // Casts of results: one for each type that readers want.
    for (OpResult result : op->getResults()) {
      llvm::SmallDenseMap<Type, bool, 2> types;
      for (OpOperand &use : result.getUses())
        if (needsCast(use))
          types[getRequiredType(use)] |= shareKernel(op, use.getOwner());
      out += types.size();
      for (auto [type, shared] : types)
        fused += shared;
    }
    op->setAttr(DecisionAttr::attrName, decision.withCasts(in, out, fused));
  }
}

// Emits one remark for each op: "passed" if it computes in the low type,
// "missed" if it does not but a flag would change that, else "analysis".
void AssignPrecisionPass::emitRemarks() {
  for (auto function : getOperation().getOps<FunctionOpInterface>())
    function->walk([&](PrecisionOpInterface op) {
      DecisionAttr decision = DecisionAttr::of(op);
      if (!decision)
        return;
      // Remarks are filtered by the op, the category and the function.
      StringRef name = op->getName().getStringRef();
      auto options = remark::RemarkOpts::name(name).category("amp").function(
          function.getName());
      // In words of LLVM: passed for low, missed for what a flag would make
      // low.
      auto emit = isLowered(decision)  ? remark::passed
                  : decision.getFlip() ? remark::missed
                                       : remark::analysis;
      auto remark = emit(op->getLoc(), options);
      // The keys that `mpc explain` and users' filters know.
      remark << remark::detail::Remark::Arg("Node", getNodeName(op))
             << remark::detail::Remark::Arg("Precision",
                                            Type(decision.getStorage()))
             << remark::detail::Remark::Arg("Reason",
                                            describeDecision(decision));
    });
}

void AssignPrecisionPass::runOnOperation() {
  ModuleOp module = getOperation();
  auto lowType = getLowType();
  TargetInfo target = getTarget(module);
  if (failed(lowType) || failed(checkExpanded()))
    return signalPassFailure();
  low = *lowType;

  // Modes with one type consult the policy too: classes are shown, and a wrong
  // rule is as wrong there.
  PrecisionPolicy precisionPolicy(
      low ? low : FloatType(BFloat16Type::get(&getContext())));
  if (!policy.empty())
    if (llvm::Error error = precisionPolicy.load(policy)) {
      withExitCode(module.emitError(), ExitCode::Usage)
          << llvm::toString(std::move(error));
      return signalPassFailure();
    }
  // Nodes, lists, pins and edges; then the placement and its record.
  auto graph = PrecisionGraph::build(module, precisionPolicy,
                                     {keepFP32, forceLow}, target);
  if (failed(graph))
    return signalPassFailure();

  record(*graph, target);
  // A model without products has nothing to gain, and its user should know.
  if (low &&
      llvm::none_of(graph->getProblem().nodes, [](const PlacementNode &node) {
        return node.precisionClass == PrecisionClass::Allow;
      }))
    module.emitWarning() << mode
                         << " changes nothing: the model has no op that gains "
                            "from a low type";
  if (low)
    for (auto function : module.getOps<FunctionOpInterface>())
      countCasts(function.getFunctionBody().front());
  // A mode with a low type, or without one, is a known one.
  module->setAttr(kModeAttr, PrecisionModeAttr::get(
                                 &getContext(), *symbolizePrecisionMode(mode)));
  emitRemarks();
}
