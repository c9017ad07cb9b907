// Imports If: inlines the branch if the condition is known, and otherwise
// creates an mpc.if.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Importer/Bodies.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx_frontend;

//===----------------------------------------------------------------------===//
// A condition that is known
//===----------------------------------------------------------------------===//

// Imports the nodes of the selected branch `graph` into the function, in place
// of the If `node`.
static LogicalResult inlineBranch(NodeImporter &node, const Graph &graph) {
  FunctionImporter branch(node.getFunction(), graph);
  branch.defaultPhase = node.getPhase();
  branch.scope = "#" + findOutput(node).str();
  branch.importNodes(findNodes(graph));
  if (branch.getModule().hasFailed())
    return failure();
  LogicalResult result = success();
  for (auto [i, output] : llvm::enumerate(graph.getOutputs())) {
    StringRef name = output->name();
    const ImportedValue &value = branch.lookup(name);
    if (value.selected) {
      node.getFunction().lookup(node.getOutputName(i)) = value;
      continue;
    }
    bool isConstant = value.constant && !value.value && !value.stateRole;
    if (failed(isConstant ? node.define(i, *value.constant)
                          : node.define(i, branch.materialize(name, ""))))
      result = failure();
  }
  return result;
}

//===----------------------------------------------------------------------===//
// A condition that depends on data
//===----------------------------------------------------------------------===//

namespace {
/// Builds one branch of an mpc.if. The branch's block has an argument for each
/// outer value that the nodes of the branch read.
class Branch {
public:
  Branch(NodeImporter &node, const Graph &graph)
      : graph(graph), holder(createHolder(node)),
        importer(node.getFunction(), graph, &getBlock()) {
    importer.defaultPhase = node.getPhase();
    importer.scope = "#" + findOutput(node).str();
    importer.isConditional = true;
  }

  LogicalResult import();
  Region &getBody() { return holder->getBody(); }
  Block &getBlock() { return holder->getBody().front(); }
  ArrayRef<Value> getCaptured() { return importer.getOuterValues(); }
  ArrayRef<Value> getYielded() const { return yielded; }
  /// Adds arguments for the outer values that the other branch reads: in front
  /// of this branch's own arguments if `before`, otherwise behind. Both
  /// branches then have the same arguments.
  void addArguments(ArrayRef<Value> captured, bool before) {
    for (auto [i, value] : llvm::enumerate(captured))
      getBlock().insertArgument(before ? i : getBlock().getNumArguments(),
                                value.getType(), value.getLoc());
  }

private:
  const Graph &graph;
  OwningOpRef<ScanOp> holder;
  FunctionImporter importer;
  SmallVector<Value> yielded;
};
} // namespace

LogicalResult Branch::import() {
  importer.importNodes(findNodes(graph));
  if (importer.getModule().hasFailed())
    return failure();
  for (const proto::ValueInfoProto *output : graph.getOutputs()) {
    yielded.push_back(importer.materialize(output->name(), ""));
    if (!yielded.back())
      return failure();
  }
  return success();
}

static LogicalResult checkTypes(NodeImporter &node, const Branch &then,
                                const Branch &otherwise) {
  for (auto [i, a, b] :
       llvm::enumerate(then.getYielded(), otherwise.getYielded())) {
    if (a.getType() == b.getType())
      continue;
    std::string text;
    llvm::raw_string_ostream(text)
        << "expected a condition that is known at import, or branches that "
           "agree: output "
        << i << " is " << a.getType() << " in one and " << b.getType()
        << " in the other, and '" << node.getInputName(0)
        << "' depends on data";
    return node.unsupported(text);
  }
  return success();
}

static LogicalResult importBranches(NodeImporter &node, const Graph &thenGraph,
                                    const Graph &elseGraph) {
  if (!node.operandType(0).getElementType().isInteger(1) ||
      node.operandType(0).getNumElements() != 1)
    return node.invalid("expected one boolean as condition" + node.found({0}));
  Branch then(node, thenGraph), otherwise(node, elseGraph);
  if (failed(then.import()) || failed(otherwise.import()) ||
      failed(checkTypes(node, then, otherwise)))
    return failure();
  // Both branches of an mpc.if take the same arguments: the outer values that
  // the then-branch reads, then those of the else-branch.
  SmallVector<Value> captured(then.getCaptured());
  llvm::append_range(captured, otherwise.getCaptured());
  then.addArguments(otherwise.getCaptured(), /*before=*/false);
  otherwise.addArguments(then.getCaptured(), /*before=*/true);
  IfOp op = node.createIf(node.reshape(node.operand(0), {}), captured,
                          then.getBody(), then.getYielded(),
                          otherwise.getBody(), otherwise.getYielded());
  if (!op)
    return failure();
  LogicalResult result = success();
  for (auto [i, value] : llvm::enumerate(op->getResults()))
    if (failed(node.define(i, value)))
      result = failure();
  return result;
}

// True if `graph`, one branch of the If, can be imported without the other
// branch.
static bool runsAlone(NodeImporter &node, const Graph &graph) {
  return node.getFunction().getModule().succeeds([&] {
    NodeImporter trial(node.getFunction(), node.getNode());
    (void)Branch(trial, graph).import();
  });
}

static LogicalResult importIf(NodeImporter &node) {
  // A known condition selects a branch at import; the other branch is not read.
  std::optional<HostTensor> condition = node.constant(0);
  bool isKnown = condition && !node.isState(0);
  if (isKnown && (condition->getNumElements() != 1 || condition->isFloat()))
    return node.invalid("expected one boolean as condition" + node.found({0}));
  bool holds = isKnown && condition->getInteger(0) != 0;
  if (isKnown)
    node.ignore(holds ? "else_branch" : "then_branch");
  size_t outputs = node.getNode().output_size();
  auto read = [&](StringRef name) -> std::optional<Graph> {
    std::optional<Graph> graph = readBody(node, name);
    if (graph && failed(checkCounts(node, *graph, 0, outputs)))
      return std::nullopt;
    return graph;
  };
  if (isKnown) {
    std::optional<Graph> graph = read(holds ? "then_branch" : "else_branch");
    return graph ? inlineBranch(node, *graph) : failure();
  }
  // If the condition depends on data, import both branches. The condition
  // selects one at run time.
  std::optional<Graph> then = read("then_branch");
  std::optional<Graph> otherwise = read("else_branch");
  if (!then || !otherwise)
    return failure();
  // First import both branches on trial, because one may not be importable.
  // `result` may be a failure without a new error: a branch reads a value whose
  // import has already failed.
  LogicalResult result = failure();
  bool runsEither = node.getFunction().getModule().succeeds([&] {
    NodeImporter trial(node.getFunction(), node.getNode());
    result = importBranches(trial, *then, *otherwise);
  });
  if (runsEither)
    return result;
  // Ask the user for the value of the condition: a known condition selects one
  // branch, and the other need not be imported.
  node.demand(0);
  if (succeeded(importBranches(node, *then, *otherwise)))
    return success();
  if (runsAlone(node, *then) || runsAlone(node, *otherwise))
    return node.unsupported(
        "one branch does not fit, and the condition '" + node.getInputName(0) +
        "' is not known when the model is compiled; if inputs decide it, give "
        "their values in the data, or with --weights");
  return failure();
}

ArrayRef<OpEntry> mpc::onnx_frontend::getConditionalOps() {
  static const OpEntry entries[] = {
      {"", "If", 1, kNoEnd, 1, 1, kAnyNumber, importIf},
  };
  return entries;
}
