// Building the precision problem: group, consult policy, pin, connect.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Precision/PrecisionGraph.h"

#include "compiler/Dialect/MPC/NodeNames.h"
#include "compiler/Interfaces/TiedValues.h"
#include "compiler/Precision/Cancellations.h"
#include "compiler/Precision/ConstantRanges.h"
#include "compiler/Precision/GivenValues.h"
#include "compiler/Precision/LossRegion.h"
#include "compiler/Precision/PrecisionCost.h"
#include "compiler/Support/ExitCode.h"
#include "compiler/Support/NamePattern.h"
#include "compiler/Support/NearestNames.h"

#include "mlir/Interfaces/FunctionInterfaces.h"

#include <map>

using namespace mlir;
using namespace mpc;
using amp::Reason;
using Pin = PlacementNode::Pin;

static Type getElementType(Value value) {
  return getElementTypeOrSelf(value.getType());
}

static bool isFloat(Value value) {
  return isa<FloatType>(getElementType(value));
}

static bool isF32(Value value) { return getElementType(value).isF32(); }

//===----------------------------------------------------------------------===//
// Nodes
//===----------------------------------------------------------------------===//

// Ops of the same kind and node name are one node across functions; within one
// function the n-th of them is the n-th of the others. Ops without a name stand
// for themselves.
void PrecisionGraph::collect(ModuleOp module) {
  std::map<std::pair<std::string, unsigned>, unsigned> groups;
  // Training step, evaluation and prediction have the same forward ops, which
  // must be alike in all.
  for (auto function : module.getOps<FunctionOpInterface>()) {
    llvm::StringMap<unsigned> occurrences;
    function->walk([&](PrecisionOpInterface op) {
      // Ops without floats have nothing to decide.
      if (llvm::none_of(op->getOperands(), isFloat) &&
          llvm::none_of(op->getResults(), isFloat))
        return;
      // The n-th op of this kind and name joins the n-th of the other
      // functions.
      StringRef name = getNodeName(op);
      unsigned index = nodes.size();
      if (!name.empty()) {
        std::string key = (op.getPolicyKey() + " " + name).str();
        index = groups
                    .try_emplace({key, occurrences[key]++},
                                 static_cast<unsigned>(nodes.size()))
                    .first->second;
      }
      // The first of its kind opens a node.
      if (index == nodes.size()) {
        nodes.emplace_back();
        nodes.back().name = name.empty() ? op.getPolicyKey().str() : name.str();
      }
      nodes[index].ops.push_back(op);
      indexOf[op] = index;
    });
  }
  problem.nodes.resize(nodes.size());
}

// The row of an op. A sum in a backward pass is the gradient of a broadcast,
// whatever op differentiation or the model's author wrote it with: it carries
// no risk that would deny the gradients around it or make them unbounded.
StringRef mpc::getPolicyRow(PrecisionOpInterface op) {
  auto region = cast<RegionOpInterface>(op.getOperation());
  if (getPhase(op) == Phase::Backward &&
      region.getRegionRole() == RegionRole::Reduction)
    return SumToSizeOp::getOperationName().split('.').second;
  return op.getPolicyKey();
}

void PrecisionGraph::consult(PrecisionPolicy &policy) {
  for (auto [node, placed] : llvm::zip(nodes, problem.nodes)) {
    PrecisionOpInterface op = node.ops.front();
    StringRef key = getPolicyRow(op);
    // The policy's row, or a warning: an op that policy does not know stays
    // fp32.
    if (auto entry = policy.lookup(key, getNodeNames(op))) {
      node.entry = std::move(*entry);
    } else {
      op->emitWarning("no precision policy for ")
          << op->getName() << ", so it stays fp32";
      node.entry.precisionClass = PrecisionClass::Deny;
      node.entry.rule = ("default:" + key).str();
      node.entry.why = "in no list";
      placed.pin = Pin::High;
      placed.pinReason = Reason::UnknownOp;
    }
    placed.precisionClass = node.entry.precisionClass;
    placed.unbounded = node.entry.unbounded;
    placed.deniesReaders = placed.precisionClass == PrecisionClass::Deny;
  }
}

//===----------------------------------------------------------------------===//
// Pins
//===----------------------------------------------------------------------===//

// Why a fixed op is fixed.
static Reason getFixedReason(Operation *op) {
  if (op->hasTrait<OpTrait::ConstantLike>())
    return Reason::Constant;
  return isa<mpc::CastOp>(op) ? Reason::ModelCast : Reason::Update;
}

// Whether `low` overflows at the bound, or has fewer digits there or none.
static bool leavesRange(std::optional<APFloat> bound, FloatType low) {
  if (!bound || bound->isZero())
    return false;
  bool losesInfo;
  bound->convert(low.getFloatSemantics(), APFloat::rmNearestTiesToEven,
                 &losesInfo);
  return bound->isInfinity() || bound->isZero() || bound->isDenormal();
}

// True if the value is written in the model, and rounded where it is read.
static bool isGiven(Value value) {
  return llvm::all_of(listOrigins(value), [](Value origin) {
    return isa<BlockArgument>(origin) || origin.getDefiningOp<ConstantOp>();
  });
}

// True if a constant makes values that `low` cannot hold, such as 1e6 in f16: a
// constant that the op reads, a bound of its clip, or one from which the range
// of an operand or of the result follows.
static bool leavesRange(PrecisionOpInterface op, const ConstantRanges &ranges,
                        FloatType low) {
  StringRef key = op.getPolicyKey();
  // What is too small for `low` counts where no loss scale makes it larger.
  bool isScaled = getPhase(op) == Phase::Backward;
  auto leaves = [&](Value value) {
    return ranges.overflows(value, low) ||
           (!isScaled && ranges.vanishes(value, low));
  };
  // Bounds that the low type does not hold would not bound.
  if (auto clip = dyn_cast<ClipOp>(op.getOperation()))
    if (leavesRange(clip.getMin(), low) || leavesRange(clip.getMax(), low))
      return true;
  // What is rounded before it is read.
  for (OpOperand &operand : op->getOpOperands()) {
    unsigned index = operand.getOperandNumber();
    bool rounded =
        index < op.getNumContractedOperands() || isGiven(operand.get());
    if (rounded && isF32(operand.get()) &&
        !policyKeepsOperandFP32(key, index) && leaves(operand.get()))
      return true;
  }
  // What the op computes.
  return llvm::any_of(op->getResults(), [&](OpResult result) {
    return isF32(result) &&
           !policyKeepsResultFP32(key, result.getResultNumber()) &&
           leaves(result);
  });
}

//===----------------------------------------------------------------------===//
// Nodes that the graph alone settles
//===----------------------------------------------------------------------===//

static bool hasOpenType(PrecisionOpInterface op) {
  return op.getNumContractedOperands() > 0 ||
         llvm::any_of(op->getResults(), [&](OpResult result) {
           return isF32(result) &&
                  !policyKeepsResultFP32(op.getPolicyKey(),
                                         result.getResultNumber());
         });
}

// Whether the op has a float that is not fp32 in the model, or no float result.
static bool hasOtherType(Operation *op) {
  auto isOther = [](Value value) { return isFloat(value) && !isF32(value); };
  return llvm::any_of(op->getResults(), isOther) ||
         llvm::any_of(op->getOperands(), isOther) ||
         llvm::none_of(op->getResults(), isFloat);
}

// Settles what the graph alone settles. Later pins win over earlier ones.
void PrecisionGraph::pin(const PrecisionPolicy &policy, ModuleOp module) {
  llvm::DenseSet<Operation *> lossRegion = findLossRegion(module);
  llvm::DenseSet<Operation *> multiplesOfSeed = findMultiplesOfSeed(module);
  ConstantRanges ranges(module);
  Cancellations cancellations(module, ranges, policy.getLowType());
  GivenValues givenValues(module, policy.getLowType());

  // In order of rank: each rule may overrule those above it.
  for (auto [node, placed] : llvm::zip(nodes, problem.nodes)) {
    auto pinHigh = [&, node = &node, placed = &placed](Reason reason) {
      placed->pin = Pin::High;
      placed->pinReason = reason;
      node->evidence = amp::Evidence::Proved;
    };
    PrecisionOpInterface op = node.ops.front();
    bool isFixed = node.entry.precisionClass == PrecisionClass::Fixed;
    // A constant beyond the range of the low type.
    if (llvm::any_of(node.ops, [&](PrecisionOpInterface member) {
          return leavesRange(member, ranges, policy.getLowType());
        }))
      pinHigh(Reason::ConstantRange);
    // Values next to a constant, of which the low type has nothing left. What
    // is summed computes as it may, and keeps its sum.
    if (llvm::any_of(node.ops, [&](Operation *member) {
          return cancellations.contains(member);
        })) {
      placed.keepsResult = true;
      if (node.ops.front().getNumContractedOperands() == 0)
        pinHigh(Reason::ConstantRange);
    }
    // Float32 values that meet what may be low.
    for (Operation *member : node.ops) {
      GivenValues::Meeting meeting = givenValues.lookup(member);
      placed.meetsWide |= meeting == GivenValues::Meeting::Wide;
      placed.meetsKnown |= meeting == GivenValues::Meeting::Harmless;
    }
    placed.isBounded = GivenValues::isBounded(op);
    node.isOpen = !isFixed && hasOpenType(op);
    // A multiple of the loss's gradient, before anything but scaling is done to
    // it.
    if (llvm::any_of(node.ops, [&](Operation *member) {
          return multiplesOfSeed.contains(member);
        }))
      pinHigh(Reason::LossRegion);
    // The loss, whose readers stay high too.
    if (llvm::any_of(node.ops, [&](Operation *member) {
          return lossRegion.contains(member);
        })) {
      pinHigh(Reason::LossRegion);
      placed.deniesReaders = true;
    }
    // The update of parameters.
    if (llvm::any_of(node.ops, [&](Operation *member) {
          return getPhase(member) == Phase::Optimizer;
        }))
      pinHigh(Reason::Update);
    // What no policy changes, and what the model has in other types.
    if (isFixed)
      pinHigh(getFixedReason(op));
    else if (hasOtherType(op))
      pinHigh(Reason::ModelType);
  }
}

// Whether no flag lifts a pin: types the model gives, the update and the loss.
static bool isHard(const PlacementNode &placed) {
  return placed.pin == Pin::High && (placed.pinReason == Reason::ModelType ||
                                     placed.pinReason == Reason::Update ||
                                     placed.pinReason == Reason::LossRegion);
}

// The names of nodes that an expression might have meant.
std::string PrecisionGraph::listOpenNodes(StringRef expression) const {
  std::vector<std::string> names;
  for (auto [node, placed] : llvm::zip(nodes, problem.nodes))
    if (node.isOpen && !isHard(placed))
      names.push_back(node.name);
  return listNearestNames(expression, names);
}

// The ops of the model, those most like `op` first.
std::string PrecisionGraph::listOps(StringRef op) const {
  std::vector<std::string> names;
  for (const PrecisionGraphNode &node : nodes) {
    PrecisionOpInterface first = node.ops.front();
    if (node.isOpen)
      names.push_back(first.getPolicyKey().str());
  }
  return listNearestNames(op, names);
}

// True if the pattern is found in a name of the op. One without a name has the
// empty one.
static bool matchesNode(Operation *op, const NamePattern &pattern) {
  const SmallVector<StringRef> names = getNodeNames(op);
  return names.empty() ? pattern.match("")
                       : llvm::any_of(names, [&](StringRef name) {
                           return pattern.match(name);
                         });
}

// Pins the nodes that the user's expressions match. Fixed nodes are passed
// over; an expression that matches fixed nodes alone is an error, as is one
// that matches none.
LogicalResult PrecisionGraph::apply(ArrayRef<std::string> expressions,
                                    StringRef flag, Pin pin, Reason reason,
                                    ModuleOp module) {
  for (const std::string &expression : expressions) {
    // What the shell left of it may be no expression: a usage error, told
    // before anything is pinned by it.
    const NamePattern pattern(expression);
    if (StringRef error = pattern.getError(); !error.empty())
      return withExitCode(module.emitError(), ExitCode::Usage)
             << flag << ": " << error;
    // Fixed nodes count as found, not as changed.
    bool found = false, changed = false;
    for (auto [node, placed] : llvm::zip(nodes, problem.nodes)) {
      if (!matchesNode(node.ops.front(), pattern))
        continue;
      found = true;
      if (!node.isOpen || isHard(placed))
        continue;
      changed = true;
      placed.pin = pin;
      placed.pinReason = reason;
      placed.deniesReaders = false;
      node.entry.rule = (flag + "=" + expression).str();
      node.entry.why.clear();
      node.evidence = amp::Evidence::Assumed;
    }
    // Silence here would hide a typing error: an expression that pins nothing
    // is always wrong.
    if (!changed)
      return withExitCode(module.emitError(), ExitCode::Usage)
             << flag << ": expression '" << expression << "' matches "
             << (found ? "only nodes whose precision is fixed"
                       : "no node; there are " + listOpenNodes(expression));
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Edges and costs
//===----------------------------------------------------------------------===//

void PrecisionGraph::connect() {
  for (auto [index, node] : llvm::enumerate(nodes)) {
    // One node at a time, with the readers that an edge leads to already.
    unsigned self = index;
    PlacementNode &placed = problem.nodes[self];
    StringRef key = node.ops.front().getPolicyKey();
    llvm::SmallDenseSet<unsigned> open = {self}, wide = {self};
    // An edge to a reader; a reader outside of the graph, or that policy has
    // read fp32, is none. What a loop or a branch takes and gives stays fp32.
    auto connectTo = [&](OpOperand &use, bool isWide) {
      auto reader = indexOf.find(use.getOwner());
      if (reader == indexOf.end() ||
          policyKeepsOperandFP32(
              nodes[reader->second].ops.front().getPolicyKey(),
              use.getOperandNumber())) {
        placed.readInFP32 |= !isWide;
        return;
      }
      // Once each, however many operands of the reader the value is.
      PlacementNode &read = problem.nodes[reader->second];
      if (!(isWide ? wide : open).insert(reader->second).second)
        return;
      // A value that stays fp32 whatever its op computes in: a denial crosses
      // it, a low type does not.
      if (isWide) {
        placed.wideConsumers.push_back(reader->second);
        read.wideProducers.push_back(self);
      } else {
        placed.consumers.push_back(reader->second);
        read.producers.push_back(self);
      }
    };
    // Results that policy keeps in fp32 have wide edges, and so have the values
    // that enter or leave a body.
    for (Operation *op : node.ops)
      for (OpResult result : op->getResults()) {
        if (!isF32(result))
          continue;
        bool keeps = policyKeepsResultFP32(key, result.getResultNumber());
        forEachTiedUse(result, [&](OpOperand &use) {
          bool isTied = use.get() != result;
          placed.readInFP32 |= isTied;
          connectTo(use, keeps || isTied);
        });
      }
  }
}

void PrecisionGraph::estimate(const TargetInfo &target, FloatType low) {
  for (auto [node, placed] : llvm::zip(nodes, problem.nodes)) {
    PrecisionCost cost = estimateCost(node.ops.front(), low, target);
    placed.costLow = cost.low;
    placed.costHigh = cost.high;
    placed.costCast = cost.cast;
  }
}

FailureOr<PrecisionGraph> PrecisionGraph::build(ModuleOp module,
                                                PrecisionPolicy &policy,
                                                const Overrides &overrides,
                                                const TargetInfo &target) {
  PrecisionGraph graph;
  graph.collect(module);
  graph.consult(policy);
  graph.pin(policy, module);
  for (const auto &[place, rule] : policy.getUnmatchedRules())
    return withExitCode(module.emitError(), ExitCode::Usage)
           << place << ": matches no node of the model; there are "
           << (rule->node.empty() ? graph.listOps(rule->op)
                                  : graph.listOpenNodes(rule->node));
  // Keeping fp32 is the safe side, so it wins where both flags match.
  if (failed(graph.apply(overrides.forceLow, "--force-low", Pin::Low,
                         Reason::ForceLow, module)) ||
      failed(graph.apply(overrides.keepFP32, "--keep-fp32", Pin::High,
                         Reason::KeepFP32, module)))
    return failure();
  graph.connect();
  graph.estimate(target, policy.getLowType());
  return graph;
}
