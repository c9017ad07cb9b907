// Building the precision problem: group, consult policy, pin, connect.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Analysis/PrecisionGraph.h"

#include "compiler/Analysis/PrecisionCost.h"
#include "compiler/Support/ExitCode.h"

#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/ADT/StringSet.h"

#include <map>

using namespace mlir;
using namespace mpc;
using amp::PrecisionClass;
using amp::Reason;
using Pin = PlacementNode::Pin;

static Type getElementType(Value value) {
  return getElementTypeOrSelf(value.getType());
}

static bool isFloat(Value value) {
  return isa<FloatType>(getElementType(value));
}

static bool isF32(Value value) { return getElementType(value).isF32(); }

StringRef mpc::getPhase(Operation *op) {
  auto phase = op->getAttrOfType<StringAttr>(kPhaseAttr);
  return phase ? phase.getValue() : StringRef("forward");
}

//===----------------------------------------------------------------------===//
// Nodes
//===----------------------------------------------------------------------===//

// Ops of the same kind and node name are one node across functions; within one
// function the n-th of them is the n-th of the others. Ops without a name stand
// for themselves.
void PrecisionGraph::collect(ModuleOp module) {
  std::map<std::pair<std::string, unsigned>, unsigned> groups;
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
}

// The row of an op. A sum in a backward pass is the gradient of a broadcast,
// whatever op differentiation or the model's author wrote it with: it carries
// no risk that would deny or poison the gradients around it.
static StringRef getRow(PrecisionOpInterface op) {
  auto region = cast<RegionOpInterface>(op.getOperation());
  if (getPhase(op) == "backward" &&
      region.getRegionRole() == RegionRole::Reduction)
    return SumToSizeOp::getOperationName().split('.').second;
  return op.getPolicyKey();
}

void PrecisionGraph::consult(PrecisionPolicy &policy) {
  for (auto [node, placed] : llvm::zip(nodes, problem.nodes)) {
    PrecisionOpInterface op = node.ops.front();
    StringRef key = getRow(op);
    if (auto entry = policy.lookup(key, getNodeName(op))) {
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
    placed.poison = node.entry.poison;
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

// Whether a finite value of `elements` is infinite in `low`.
static bool overflows(ElementsAttr elements, FloatType low) {
  auto values = elements.try_value_begin<APFloat>();
  if (!values)
    return false;
  auto overflowsAt = [&](APFloat value) {
    if (!value.isFinite())
      return false;
    bool losesInfo;
    value.convert(low.getFloatSemantics(), APFloat::rmNearestTiesToEven,
                  &losesInfo);
    return value.isInfinity();
  };
  int64_t count = elements.isSplat() ? 1 : elements.getNumElements();
  return std::any_of(*values, *values + count, overflowsAt);
}

static bool overflows(std::optional<APFloat> bound, FloatType low) {
  if (!bound)
    return false;
  bool losesInfo;
  bound->convert(low.getFloatSemantics(), APFloat::rmNearestTiesToEven,
                 &losesInfo);
  return bound->isInfinity();
}

// Whether a constant the op reads, or a bound it clips to, overflows `low`.
static bool readsOverflowingConstant(PrecisionOpInterface op, FloatType low) {
  StringRef key = op.getPolicyKey();
  if (auto clip = dyn_cast<ClipOp>(op.getOperation()))
    if (overflows(clip.getMin(), low) || overflows(clip.getMax(), low))
      return true;
  for (OpOperand &operand : op->getOpOperands()) {
    auto constant = operand.get().getDefiningOp<ConstantOp>();
    if (constant && isF32(operand.get()) &&
        !policyKeepsOperandFP32(key, operand.getOperandNumber()) &&
        overflows(constant.getValue(), low))
      return true;
  }
  return false;
}

// What is computed from the seed of a backward pass and constants alone: the
// loss scale times some factor, which low types may not hold.
static llvm::DenseSet<Operation *> findMultiplesOfSeed(ModuleOp module) {
  llvm::DenseSet<Operation *> multiples;
  auto isMultiple = [&](Value value) {
    Operation *op = value.getDefiningOp();
    return op && (isa<GradientSeedOp>(op) || multiples.contains(op));
  };
  // Operands come before their readers.
  module.walk([&](PrecisionOpInterface op) {
    bool isAlone = llvm::all_of(op->getOperands(), [&](Value operand) {
      return isMultiple(operand) || operand.getDefiningOp<ConstantOp>();
    });
    if (isAlone && llvm::any_of(op->getOperands(), isMultiple))
      multiples.insert(op);
  });
  return multiples;
}

// Settles what the graph alone settles. Later pins win over earlier ones.
void PrecisionGraph::pin(const PrecisionPolicy &policy, ModuleOp module) {
  llvm::StringSet<> lossNodes;
  for (const PrecisionGraphNode &node : nodes)
    for (Operation *op : node.ops)
      if (getPhase(op) == "loss" && !getNodeName(op).empty())
        lossNodes.insert(getNodeName(op).split('#').first);
  llvm::DenseSet<Operation *> multiplesOfSeed = findMultiplesOfSeed(module);

  for (auto [node, placed] : llvm::zip(nodes, problem.nodes)) {
    auto pinHigh = [&, node = &node, placed = &placed](Reason reason) {
      placed->pin = Pin::High;
      placed->pinReason = reason;
      node->evidence = amp::Evidence::Proved;
    };
    PrecisionOpInterface op = node.ops.front();
    bool ofLoss = llvm::any_of(node.ops, [&](Operation *member) {
      return getPhase(member) == "loss" ||
             (getPhase(member) == "backward" &&
              lossNodes.contains(getNodeName(member).split('#').first));
    });
    if (readsOverflowingConstant(op, policy.getLowType()))
      pinHigh(Reason::ConstantRange);
    if (llvm::any_of(node.ops, [&](Operation *member) {
          return multiplesOfSeed.contains(member);
        }))
      pinHigh(Reason::LossRegion);
    if (ofLoss && node.entry.precisionClass != PrecisionClass::Deny) {
      pinHigh(Reason::LossRegion);
      placed.deniesReaders = true;
    }
    if (llvm::any_of(node.ops, [&](Operation *member) {
          return getPhase(member) == "optimizer";
        }))
      pinHigh(Reason::Update);
    if (node.entry.precisionClass == PrecisionClass::Fixed)
      pinHigh(getFixedReason(op));
    bool otherTypes =
        llvm::any_of(op->getResults(),
                     [](Value v) { return isFloat(v) && !isF32(v); }) ||
        llvm::any_of(op->getOperands(),
                     [](Value v) { return isFloat(v) && !isF32(v); }) ||
        llvm::none_of(op->getResults(), isFloat);
    if (otherTypes && node.entry.precisionClass != PrecisionClass::Fixed)
      pinHigh(Reason::ModelType);
  }
}

// Pins what the user's expressions name. What is fixed stays: an expression
// that finds nothing else is as wrong as one that finds nothing.
LogicalResult PrecisionGraph::apply(ArrayRef<std::string> expressions,
                                    StringRef flag, Pin pin, Reason reason,
                                    ModuleOp module) {
  for (const std::string &expression : expressions) {
    llvm::Regex regex(expression);
    std::string message;
    if (!regex.isValid(message))
      return withExitCode(module.emitError(), ExitCode::Usage)
             << flag << ": invalid expression '" << expression
             << "': " << message;
    bool found = false, changed = false;
    for (auto [node, placed] : llvm::zip(nodes, problem.nodes)) {
      if (!regex.match(getNodeName(node.ops.front())))
        continue;
      found = true;
      bool fixed = node.entry.precisionClass == PrecisionClass::Fixed ||
                   placed.pinReason == Reason::ModelType ||
                   placed.pinReason == Reason::Update;
      if (fixed)
        continue;
      changed = true;
      placed.pin = pin;
      placed.pinReason = reason;
      placed.deniesReaders = false;
      node.entry.rule = (flag + "=" + expression).str();
      node.entry.why.clear();
      node.evidence = amp::Evidence::Assumed;
    }
    if (!changed)
      return withExitCode(module.emitError(), ExitCode::Usage)
             << flag << ": expression '" << expression << "' matches "
             << (found ? "only nodes whose precision is fixed" : "no node");
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
    llvm::SmallDenseSet<unsigned> known = {self};
    for (Operation *op : node.ops)
      for (OpResult result : op->getResults()) {
        if (!isF32(result) ||
            policyKeepsResultFP32(key, result.getResultNumber()))
          continue;
        for (OpOperand &use : result.getUses()) {
          auto reader = indexOf.find(use.getOwner());
          if (reader == indexOf.end() ||
              policyKeepsOperandFP32(
                  nodes[reader->second].ops.front().getPolicyKey(),
                  use.getOperandNumber())) {
            placed.readInFP32 = true;
            continue;
          }
          if (!known.insert(reader->second).second)
            continue;
          placed.consumers.push_back(reader->second);
          problem.nodes[reader->second].producers.push_back(self);
        }
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
  for (const std::string &rule : policy.getUnmatchedRules())
    return withExitCode(module.emitError(), ExitCode::Usage)
           << rule << ": matches no node of the model";
  graph.pin(policy, module);
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
