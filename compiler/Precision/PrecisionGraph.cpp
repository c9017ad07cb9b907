// Builds the placement problem (Placement.h) from a module: groups ops into
// nodes, looks up their policy, pins nodes whose type is settled, and connects
// users.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Precision/PrecisionGraph.h"

#include "compiler/Dialect/MPC/NodeNames.h"
#include "compiler/Interfaces/TiedValues.h"
#include "compiler/Precision/DecisionReport.h"
#include "compiler/Precision/GivenValues.h"
#include "compiler/Precision/Policy/RecordedPolicy.h"
#include "compiler/Precision/ValueSource.h"
#include "compiler/Support/ExitCode.h"
#include "compiler/Support/NamePattern.h"
#include "compiler/Support/NearestNames.h"

#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/ADT/SmallString.h"

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
  llvm::StringMap<SmallVector<unsigned, 1>> groups;
  unsigned count = 0;
  module.walk([&](PrecisionOpInterface) { ++count; });
  nodes.reserve(count);
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
        llvm::SmallString<64> key(op.getPolicyKey());
        key += ' ';
        key += name;
        SmallVector<unsigned, 1> &group = groups[key];
        unsigned &occurrence = occurrences[key];
        if (occurrence == group.size())
          group.push_back(index);
        index = group[occurrence++];
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
  assignIds(module);
  assert(llvm::none_of(
             nodes,
             [](const PrecisionGraphNode &node) { return node.ops.empty(); }) &&
         "a node stands for ops");
}

// Gives each node an id. Nodes get numbers if a report shows several of a name.
// Otherwise the name is the id, also of nodes that no report shows, such as the
// op of a layer in evaluation. No id with a ~ equals a name of any node.
void PrecisionGraph::assignIds(ModuleOp module) {
  llvm::SmallDenseSet<Operation *> shownFunctions;
  for (FunctionOpInterface function : getShownFunctions(module))
    shownFunctions.insert(function);
  // Seeds become constants before a report shows them.
  auto isShown = [&](const PrecisionGraphNode &node) {
    return llvm::any_of(node.ops, [&](Operation *op) {
      return !isa<GradientSeedOp>(op) &&
             shownFunctions.contains(
                 op->getParentOfType<FunctionOpInterface>());
    });
  };
  llvm::StringMap<unsigned> shownNodes, numbers;
  for (auto [index, node] : llvm::enumerate(nodes))
    for (StringRef name : getNodeNames(node.ops.front())) {
      named[name].push_back(index);
      shownNodes[name] += isShown(node);
    }
  for (PrecisionGraphNode &node : nodes) {
    node.id = node.name;
    const bool hasName = !getNodeName(node.ops.front()).empty();
    if (hasName && (shownNodes.lookup(node.name) < 2 || !isShown(node)))
      continue;
    do
      node.id = (node.name + "~" + Twine(++numbers[node.name])).str();
    while (named.contains(node.id));
  }
}

void PrecisionGraph::consult(const PrecisionFacts &facts) {
  assert(nodes.size() == problem.nodes.size() && "collect comes first");
  for (auto [node, placed] : llvm::zip(nodes, problem.nodes)) {
    PrecisionOpInterface op = node.ops.front();
    // An op without a row stays fp32, with a warning.
    if (std::optional<PolicyEntry> entry = facts.lookupPolicy(op)) {
      node.entry = std::move(*entry);
    } else {
      op->emitWarning("no precision policy for ")
          << op->getName() << ", so it stays fp32";
      node.entry.precisionClass = PrecisionClass::Deny;
      node.entry.rule = ("default:" + getPolicyRow(op)).str();
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

// Returns the strongest constraint on the ops of a node, which share a type.
static std::optional<Reason> findConstraint(const PrecisionGraphNode &node,
                                            const PrecisionFacts &facts) {
  // Ops of one node get the reason that comes last.
  static constexpr Reason kOrder[] = {Reason::ConstantRange, Reason::LossRegion,
                                      Reason::Update,        Reason::ModelType,
                                      Reason::ModelCast,     Reason::Constant};
  std::optional<Reason> strongest;
  for (PrecisionOpInterface op : node.ops)
    if (std::optional<Reason> reason =
            facts.findConstraint(op, node.entry.precisionClass);
        reason && (!strongest || llvm::find(kOrder, *reason) >
                                     llvm::find(kOrder, *strongest)))
      strongest = reason;
  return strongest;
}

// Returns the number for which the ops of a node have the reason ConstantRange.
static RangeFinding findRange(const PrecisionGraphNode &node,
                              const PrecisionFacts &facts) {
  for (PrecisionOpInterface op : node.ops)
    if (facts.findConstraint(op, node.entry.precisionClass) ==
        Reason::ConstantRange)
      return *facts.findRange(op);
  llvm_unreachable("an op of the node has the reason");
}

// Describes a finding for the record.
static ArrayAttr describe(const RangeFinding &finding, MLIRContext *context) {
  Builder builder(context);
  const ValueSource source = findSource(finding.source);
  NamedAttrList described;
  described.set("kind", builder.getStringAttr(source.kind));
  if (!source.name.empty())
    described.set("name", builder.getStringAttr(source.name));
  described.set("value", builder.getF64FloatAttr(finding.number));
  return builder.getArrayAttr(described.getDictionary(context));
}

// Pins the nodes that the graph settles without flags.
void PrecisionGraph::pin(const PrecisionFacts &facts, ModuleOp module) {
  const GivenValues &givenValues = facts.getGivenValues();
  for (auto [node, placed] : llvm::zip(nodes, problem.nodes)) {
    PrecisionOpInterface op = node.ops.front();
    node.isOpen = facts.isOpen(op, node.entry.precisionClass);
    std::optional<Reason> constraint = findConstraint(node, facts);
    if (constraint) {
      placed.pin = Pin::High;
      placed.pinReason = *constraint;
      node.evidence = amp::Evidence::Proved;
    }
    if (constraint == Reason::ConstantRange) {
      const RangeFinding finding = findRange(node, facts);
      node.rangeSources = describe(finding, module.getContext());
      if (!finding.isProved)
        node.evidence = amp::Evidence::Assumed;
    }
    for (Operation *member : node.ops) {
      placed.keepsResult |= facts.cancels(member);
      // Users of an op of a loss are high, too, as behind a denied op.
      placed.deniesReaders |= facts.isInLoss(member);
      GivenValues::Meeting meeting = givenValues.lookup(member);
      placed.meetsWide |= meeting == GivenValues::Meeting::Wide;
      placed.meetsKnown |= meeting == GivenValues::Meeting::Harmless;
      if (meeting != GivenValues::Meeting::None && !node.metSources)
        node.metSources = givenValues.listSources(member);
    }
    placed.isBounded = GivenValues::isBounded(op);
  }
}

// True if no flag can lift the pin.
static bool isPinnedHard(const PlacementNode &placed) {
  return placed.pin == Pin::High && isHard(placed.pinReason);
}

// Lists the names of nodes that a flag can change, most similar to `expression`
// first.
std::string PrecisionGraph::listOpenNodes(StringRef expression) const {
  std::vector<std::string> names;
  for (auto [node, placed] : llvm::zip(nodes, problem.nodes))
    if (node.isOpen && !isPinnedHard(placed))
      names.push_back(node.name);
  return listNearestNames(expression, names);
}

// Lists the kinds of ops in the model that a rule can change, most similar to
// `op` first. Leaves out ops that mpc adds, such as those of the loss.
std::string PrecisionGraph::listOps(StringRef op) const {
  std::vector<std::string> names;
  for (auto [node, placed] : llvm::zip(nodes, problem.nodes)) {
    PrecisionOpInterface first = node.ops.front();
    if (node.isOpen && !isPinnedHard(placed))
      names.push_back(first.getPolicyKey().str());
  }
  return listNearestNames(op, names);
}

// True if the pattern matches a name of the node's op. Only an expression with
// a ~ may match the node's id, too: otherwise 1$ would match the number at the
// end of fc~1.
static bool matchesExpression(const PrecisionGraphNode &node,
                              StringRef expression,
                              const NamePattern &pattern) {
  return (expression.contains('~') && pattern.match(node.id)) ||
         matchesNode(node.ops.front(), pattern);
}

static void settle(PlacementNode &placed, Pin pin, Reason reason) {
  placed.pin = pin;
  placed.pinReason = reason;
  placed.deniesReaders = false;
}

// Pins the nodes that the user's expressions match. Skips fixed nodes. Reports
// an error if an expression matches no node, or only fixed nodes.
LogicalResult PrecisionGraph::apply(ArrayRef<std::string> values,
                                    StringRef flag, Pin pin, Reason reason,
                                    ModuleOp module) {
  assert(pin != Pin::None && "an expression pins nodes");
  for (StringRef value : values) {
    StringRef expression = getExpression(value);
    // The shell may have mangled the expression, so check its syntax before
    // pinning anything.
    const NamePattern pattern(expression);
    if (StringRef error = pattern.getError(); !error.empty())
      return withExitCode(module.emitError(), ExitCode::Usage)
             << flag << ": " << error;
    bool found = false, changed = false;
    AppliedFlag &applied = flags.emplace_back(
        AppliedFlag{(flag + "=" + expression).str(), pin, reason, {}});
    for (auto [index, node] : llvm::enumerate(nodes)) {
      PlacementNode &placed = problem.nodes[index];
      if (!matchesExpression(node, expression, pattern))
        continue;
      found = true;
      if (!node.isOpen || isPinnedHard(placed))
        continue;
      changed = true;
      unflagged.try_emplace(index, placed);
      applied.nodes.push_back(index);
      settle(placed, pin, reason);
      node.entry.rule = applied.flag;
      node.entry.why.clear();
      node.evidence = amp::Evidence::Assumed;
    }
    // An expression of a model's record may name nodes that only training has.
    if (!changed && value.starts_with(kRecordedExpression)) {
      module.emitRemark() << flag << ": the model's expression '" << expression
                          << "' matches no node that it can change";
      continue;
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

SmallVector<unsigned> PrecisionGraph::listNamed(unsigned index) const {
  assert(nodes[index].isOpen && !isPinnedHard(problem.nodes[index]) &&
         "a flag can settle the node");
  // An id that is a name matches all nodes with the name.
  SmallVector<unsigned> matched = {index};
  if (auto group = named.find(nodes[index].id); group != named.end())
    matched.assign(group->second.begin(), group->second.end());
  llvm::erase_if(matched, [&](unsigned each) {
    return !nodes[each].isOpen || isPinnedHard(problem.nodes[each]);
  });
  return matched;
}

PlacementProblem PrecisionGraph::dropFlag(StringRef flag) const {
  PlacementProblem changed = problem;
  // The nodes have got their edges since the flags were applied, so restore
  // only what flags change.
  for (const auto &[index, before] : unflagged) {
    PlacementNode &placed = changed.nodes[index];
    placed.pin = before.pin;
    placed.pinReason = before.pinReason;
    placed.deniesReaders = before.deniesReaders;
  }
  for (const AppliedFlag &applied : flags)
    if (applied.flag != flag)
      for (unsigned index : applied.nodes)
        settle(changed.nodes[index], applied.pin, applied.reason);
  return changed;
}

//===----------------------------------------------------------------------===//
// Edges
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

FailureOr<PrecisionGraph> PrecisionGraph::build(ModuleOp module,
                                                const PrecisionFacts &facts) {
  PrecisionGraph graph;
  graph.collect(module);
  graph.consult(facts);
  graph.pin(facts, module);
  const PrecisionPolicy &policy = facts.getPolicy();
  for (const auto &[place, rule] : policy.getUnmatchedRules())
    return withExitCode(module.emitError(), ExitCode::Usage)
           << place << ": matches no node of the model; there are "
           << (rule->node.empty() ? graph.listOps(rule->op)
                                  : graph.listOpenNodes(rule->node))
           << "; with \"optional\": true, the rule may match none";
  // If both flags match a node, fp32 wins as the safer choice.
  const amp::Request &request = facts.getRequest();
  if (failed(graph.apply(request.forceLow, "--force-low", Pin::Low,
                         Reason::ForceLow, module)) ||
      failed(graph.apply(request.keepFP32, "--keep-fp32", Pin::High,
                         Reason::KeepFP32, module)))
    return failure();
  graph.connect();
  return graph;
}
