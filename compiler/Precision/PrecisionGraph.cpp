// Builds the placement problem (Placement.h) from a module: groups ops into
// nodes, looks up their policy, pins nodes whose type is settled, and connects
// users.
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

// Groups ops of different functions into nodes. The n-th op of a kind and name
// in one function shares a node with the n-th of this kind and name in the
// others. An op without a name gets a node of its own.
void PrecisionGraph::collect(ModuleOp module) {
  std::map<std::pair<std::string, unsigned>, unsigned> groups;
  // The training step, evaluation and prediction share forward ops, which must
  // get equal types in all functions.
  for (auto function : module.getOps<FunctionOpInterface>()) {
    llvm::StringMap<unsigned> occurrences;
    function->walk([&](PrecisionOpInterface op) {
      if (llvm::none_of(op->getOperands(), isFloat) &&
          llvm::none_of(op->getResults(), isFloat))
        return;
      StringRef name = getNodeName(op);
      unsigned index = nodes.size();
      if (!name.empty()) {
        std::string key = (op.getPolicyKey() + " " + name).str();
        index = groups
                    .try_emplace({key, occurrences[key]++},
                                 static_cast<unsigned>(nodes.size()))
                    .first->second;
      }
      if (index == nodes.size()) {
        nodes.emplace_back();
        nodes.back().name = name.empty() ? op.getPolicyKey().str() : name.str();
      }
      nodes[index].ops.push_back(op);
      indexOf[op] = index;
    });
  }
  problem.nodes.resize(nodes.size());
  assert(llvm::none_of(
             nodes,
             [](const PrecisionGraphNode &node) { return node.ops.empty(); }) &&
         "a node stands for ops");
}

// Returns the key of the policy row that applies to `op`. A reduction in a
// backward pass is the gradient of a broadcast, and takes the row of
// mpc.sum_to_size. The row of a forward sum would deny the gradients around it,
// or mark them as unbounded.
StringRef mpc::getPolicyRow(PrecisionOpInterface op) {
  auto region = cast<RegionOpInterface>(op.getOperation());
  if (getPhase(op) == Phase::Backward &&
      region.getRegionRole() == RegionRole::Reduction)
    return SumToSizeOp::getOperationName().split('.').second;
  return op.getPolicyKey();
}

void PrecisionGraph::consult(PrecisionPolicy &policy) {
  assert(nodes.size() == problem.nodes.size() && "collect comes first");
  for (auto [node, placed] : llvm::zip(nodes, problem.nodes)) {
    PrecisionOpInterface op = node.ops.front();
    StringRef key = getPolicyRow(op);
    // An op without a row stays fp32, with a warning.
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

// Returns the reason for which an op of class Fixed is fixed.
static Reason getFixedReason(Operation *op) {
  if (op->hasTrait<OpTrait::ConstantLike>())
    return Reason::Constant;
  return isa<mpc::CastOp>(op) ? Reason::ModelCast : Reason::Update;
}

// True if `bound`, a limit of a clip, overflows in `low`, or becomes denormal
// or zero.
static bool leavesRange(std::optional<APFloat> bound, FloatType low) {
  if (!bound || bound->isZero())
    return false;
  bool losesInfo;
  bound->convert(low.getFloatSemantics(), APFloat::rmNearestTiesToEven,
                 &losesInfo);
  return bound->isInfinity() || bound->isZero() || bound->isDenormal();
}

// True if `value` is an argument or a constant, directly or through loops. Such
// a value stays fp32, and each low user rounds it.
static bool isGiven(Value value) {
  return llvm::all_of(listOrigins(value), [](Value origin) {
    return isa<BlockArgument>(origin) || origin.getDefiningOp<ConstantOp>();
  });
}

// True if a constant moves a value of `op` out of the range of `low`, such as
// 1e6 in f16. The constant may be an operand, a bound of a clip, or determine
// the range of an operand or result.
static bool leavesRange(PrecisionOpInterface op, const ConstantRanges &ranges,
                        FloatType low) {
  StringRef key = op.getPolicyKey();
  // Small values do not matter in the backward pass, where the loss scale makes
  // them larger.
  bool isScaled = getPhase(op) == Phase::Backward;
  auto leaves = [&](Value value) {
    return ranges.overflows(value, low) ||
           (!isScaled && ranges.vanishes(value, low));
  };
  // A bound that rounds to infinity or zero would no longer clip.
  if (auto clip = dyn_cast<ClipOp>(op.getOperation()))
    if (leavesRange(clip.getMin(), low) || leavesRange(clip.getMax(), low))
      return true;
  // Check the operands that a low op would round: contracted operands, and
  // arguments and constants.
  for (OpOperand &operand : op->getOpOperands()) {
    unsigned index = operand.getOperandNumber();
    bool rounded =
        index < op.getNumContractedOperands() || isGiven(operand.get());
    if (rounded && isF32(operand.get()) &&
        !policyKeepsOperandFP32(key, index) && leaves(operand.get()))
      return true;
  }
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

// True if no precision can be chosen: a float of the op is not fp32 in the
// model, or no result is a float.
static bool hasOtherType(Operation *op) {
  auto isOther = [](Value value) { return isFloat(value) && !isF32(value); };
  return llvm::any_of(op->getResults(), isOther) ||
         llvm::any_of(op->getOperands(), isOther) ||
         llvm::none_of(op->getResults(), isFloat);
}

// Pins the nodes that the graph settles without flags. Later pins override
// earlier pins.
void PrecisionGraph::pin(const PrecisionPolicy &policy, ModuleOp module) {
  llvm::DenseSet<Operation *> lossRegion = findLossRegion(module);
  llvm::DenseSet<Operation *> multiplesOfSeed = findMultiplesOfSeed(module);
  ConstantRanges ranges(module);
  Cancellations cancellations(module, ranges, policy.getLowType());
  GivenValues givenValues(module, policy.getLowType());

  for (auto [node, placed] : llvm::zip(nodes, problem.nodes)) {
    auto pinHigh = [&, node = &node, placed = &placed](Reason reason) {
      placed->pin = Pin::High;
      placed->pinReason = reason;
      node->evidence = amp::Evidence::Proved;
    };
    PrecisionOpInterface op = node.ops.front();
    bool isFixed = node.entry.precisionClass == PrecisionClass::Fixed;
    if (llvm::any_of(node.ops, [&](PrecisionOpInterface member) {
          return leavesRange(member, ranges, policy.getLowType());
        }))
      pinHigh(Reason::ConstantRange);
    // Values close to a constant lose all digits in the low type
    // (Cancellations). A contraction may still compute low, but keeps its
    // result in fp32.
    if (llvm::any_of(node.ops, [&](Operation *member) {
          return cancellations.contains(member);
        })) {
      placed.keepsResult = true;
      if (node.ops.front().getNumContractedOperands() == 0)
        pinHigh(Reason::ConstantRange);
    }
    for (Operation *member : node.ops) {
      GivenValues::Meeting meeting = givenValues.lookup(member);
      placed.meetsWide |= meeting == GivenValues::Meeting::Wide;
      placed.meetsKnown |= meeting == GivenValues::Meeting::Harmless;
      if (meeting != GivenValues::Meeting::None && node.met.empty())
        node.met = givenValues.describe(member);
      // The size was measured in the present data. Data of a later run may be
      // larger.
      if (givenValues.restsOnData(member))
        node.evidence = amp::Evidence::Assumed;
    }
    placed.isBounded = GivenValues::isBounded(op);
    node.isOpen = !isFixed && hasOpenType(op);
    // Multiples of the loss scale may exceed the range of a low type.
    if (llvm::any_of(node.ops, [&](Operation *member) {
          return multiplesOfSeed.contains(member);
        }))
      pinHigh(Reason::LossRegion);
    // Ops of a loss are high, and so are their users, as behind a denied op.
    if (llvm::any_of(node.ops, [&](Operation *member) {
          return lossRegion.contains(member);
        })) {
      pinHigh(Reason::LossRegion);
      placed.deniesReaders = true;
    }
    if (llvm::any_of(node.ops, [&](Operation *member) {
          return getPhase(member) == Phase::Optimizer;
        }))
      pinHigh(Reason::Update);
    // Nothing overrides these two: ops of class Fixed, and ops that have
    // another type than fp32 in the model.
    if (isFixed)
      pinHigh(getFixedReason(op));
    else if (hasOtherType(op))
      pinHigh(Reason::ModelType);
  }
}

// True if no flag can lift the pin, because the op has its type from the model,
// or belongs to the update or the loss.
static bool isHard(const PlacementNode &placed) {
  return placed.pin == Pin::High && (placed.pinReason == Reason::ModelType ||
                                     placed.pinReason == Reason::Update ||
                                     placed.pinReason == Reason::LossRegion);
}

// Lists the names of nodes that a flag can change, most similar to `expression`
// first.
std::string PrecisionGraph::listOpenNodes(StringRef expression) const {
  std::vector<std::string> names;
  for (auto [node, placed] : llvm::zip(nodes, problem.nodes))
    if (node.isOpen && !isHard(placed))
      names.push_back(node.name);
  return listNearestNames(expression, names);
}

// Lists the kinds of ops in the model that a rule can change, most similar to
// `op` first.
std::string PrecisionGraph::listOps(StringRef op) const {
  std::vector<std::string> names;
  for (const PrecisionGraphNode &node : nodes) {
    PrecisionOpInterface first = node.ops.front();
    if (node.isOpen)
      names.push_back(first.getPolicyKey().str());
  }
  return listNearestNames(op, names);
}

// True if the pattern matches a name of the op. An op without a name has the
// empty name.
static bool matchesNode(Operation *op, const NamePattern &pattern) {
  const SmallVector<StringRef> names = getNodeNames(op);
  return names.empty() ? pattern.match("")
                       : llvm::any_of(names, [&](StringRef name) {
                           return pattern.match(name);
                         });
}

// Pins the nodes that the user's expressions match. Skips fixed nodes. Reports
// an error if an expression matches no node, or only fixed nodes.
LogicalResult PrecisionGraph::apply(ArrayRef<std::string> expressions,
                                    StringRef flag, Pin pin, Reason reason,
                                    ModuleOp module) {
  assert(pin != Pin::None && "an expression pins nodes");
  for (const std::string &expression : expressions) {
    // The shell may have mangled the expression, so check its syntax before
    // pinning anything.
    const NamePattern pattern(expression);
    if (StringRef error = pattern.getError(); !error.empty())
      return withExitCode(module.emitError(), ExitCode::Usage)
             << flag << ": " << error;
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
    // An expression that pins nothing is always a mistake, usually a typing
    // error.
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
    unsigned self = index;
    PlacementNode &placed = problem.nodes[self];
    StringRef key = node.ops.front().getPolicyKey();
    assert(placed.consumers.empty() && placed.wideConsumers.empty() &&
           "nodes are connected once");
    llvm::SmallDenseSet<unsigned> open = {self}, wide = {self};
    // Adds an edge to the op that reads `use`. There is no edge to an op
    // outside the graph, or to an operand that policy keeps in fp32.
    auto connectTo = [&](OpOperand &use, bool isWide) {
      auto reader = indexOf.find(use.getOwner());
      if (reader == indexOf.end() ||
          policyKeepsOperandFP32(
              nodes[reader->second].ops.front().getPolicyKey(),
              use.getOperandNumber())) {
        placed.readInFP32 |= !isWide;
        return;
      }
      // Add one edge per user, even if the user reads the value several times.
      PlacementNode &read = problem.nodes[reader->second];
      if (!(isWide ? wide : open).insert(reader->second).second)
        return;
      // Denials spread along wide edges; low types do not.
      if (isWide) {
        placed.wideConsumers.push_back(reader->second);
        read.wideProducers.push_back(self);
      } else {
        placed.consumers.push_back(reader->second);
        read.producers.push_back(self);
      }
    };
    // Wide edges are those through values that stay fp32: results that policy
    // keeps in fp32, and values that enter or leave the body of a loop or
    // branch.
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
    assert(cost.low >= 0 && cost.high >= 0 && cost.cast >= 0 &&
           "costs are times");
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
  // If both flags match a node, fp32 wins as the safer choice.
  if (failed(graph.apply(overrides.forceLow, "--force-low", Pin::Low,
                         Reason::ForceLow, module)) ||
      failed(graph.apply(overrides.keepFP32, "--keep-fp32", Pin::High,
                         Reason::KeepFP32, module)))
    return failure();
  graph.connect();
  graph.estimate(target, policy.getLowType());
  return graph;
}
