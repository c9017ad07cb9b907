// Restores x.detach(), which stops derivatives, where PyTorch's exporter drops
// the call.
//
// The exporter writes x.detach() as an Identity with the call aten.detach in
// its metadata, and drops the Identity when optimizing the graph. The call of a
// node that reads the result still names the result ("%detach_1"). Puts the
// Identity back if the call shows which input of the node reads the result.
// Otherwise only warns: training then computes derivatives that the program
// stops.
//
// Before:
//
// ```
// <ir_version: 10, opset_import: ["" : 18], producer_name: "pytorch">
// g (float[2] x) => (float[2] y)
// {
//   s = Sigmoid (x)
//   # pkg.torch.onnx.fx_node: %mul : call_function[target=
//       torch.ops.aten.mul.Tensor](args = (%x, %detach), kwargs = {})
//   y = Mul (x, s)
// }
// ```
//
// After:
//
// ```
// # pkg.torch.onnx.fx_node: %detach : [num_users=1] = call_function[target=
//     torch.ops.aten.detach.default](args = (%s,), kwargs = {})
// [node_detach] detach = Identity (s)
// ...
// y = Mul (x, detach)
// ```
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Repair/Repair.h"

#include "frontends/ONNX/Model/ExportedProgram.h"
#include "frontends/ONNX/Model/Graph.h"
#include "frontends/ONNX/Model/Metadata.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"

using namespace mpc::onnx_frontend;
using llvm::ArrayRef;
using llvm::SmallVector;
using llvm::StringRef;

// True for names of results of x.detach(): "detach", "detach_12".
static bool isDetached(StringRef name) {
  return name.consume_front("detach") &&
         (name.empty() ||
          (name.consume_front("_") && llvm::all_of(name, llvm::isDigit)));
}

namespace {
/// A call with lost arguments: results of x.detach() that no node of the file
/// computes. `lost` names the lost arguments; `nodes` are the indices of the
/// nodes that come from the call.
struct LostReads {
  ProgramCall call;
  SmallVector<int> nodes;
  SmallVector<StringRef, 2> lost;
};

class StopRestorer {
public:
  explicit StopRestorer(RepairContext &context)
      : context(context), graph(context.getGraph()) {}

  std::string run();

private:
  void collect(const std::vector<proto::GraphProto *> &parts);
  void restore(proto::GraphProto &part);
  bool restore(proto::GraphProto &part, const LostReads &reads, StringRef lost);
  SmallVector<std::string *> findByArgument(proto::GraphProto &part,
                                            const LostReads &reads,
                                            StringRef lost);
  SmallVector<std::string *> findByName(proto::GraphProto &part,
                                        const LostReads &reads, StringRef lost);
  void insertNodes(proto::GraphProto &part);

  RepairContext &context;
  proto::GraphProto &graph;
  /// The names of all values in the file, and of all calls that nodes come
  /// from.
  llvm::StringSet<> defined;
  /// The name of each initializer in calls: "p_fc_weight".
  llvm::StringMap<StringRef> sources;
  /// The Identity nodes to insert, by the index of the first reader.
  llvm::MapVector<int, SmallVector<proto::NodeProto *, 1>> insertions;
  /// For each restored result of x.detach(): the value x, and the graph of the
  /// Identity.
  llvm::StringMap<std::pair<std::string, const proto::GraphProto *>> restored;
  std::vector<std::string> done;
};
} // namespace

void StopRestorer::collect(const std::vector<proto::GraphProto *> &parts) {
  for (const proto::GraphProto *part : parts) {
    for (const proto::NodeProto &node : part->node()) {
      defined.insert(node.output().begin(), node.output().end());
      if (StringRef name = readCall(node).name; !name.empty())
        defined.insert(name);
    }
    for (const proto::TensorProto &tensor : part->initializer())
      defined.insert(tensor.name());
    for (const proto::ValueInfoProto &input : part->input())
      defined.insert(input.name());
  }
  for (const proto::ValueInfoProto &value : graph.value_info())
    if (StringRef source = findMetadata(value, kOriginalName); !source.empty())
      sources[value.name()] = source;
}

// Finds the inputs of the call's nodes for the argument `lost`, by the table of
// calls (findArgument): for mul(%x, %detach), input 1 of Mul.
SmallVector<std::string *> StopRestorer::findByArgument(proto::GraphProto &part,
                                                        const LostReads &reads,
                                                        StringRef lost) {
  SmallVector<std::string *> operands;
  for (int index : reads.nodes) {
    proto::NodeProto &node = *part.mutable_node(index);
    for (int i = 0; i < node.input_size(); ++i) {
      std::optional<int> argument = findArgument(reads.call, node.op_type(), i);
      if (!argument || *argument < 0 ||
          *argument >= static_cast<int>(reads.call.arguments.size()))
        continue;
      StringRef text = reads.call.arguments[*argument];
      if (text.consume_front("%") && text == lost)
        operands.push_back(node.mutable_input(i));
    }
  }
  return operands;
}

// Finds the inputs of the call's nodes for the argument `lost` by elimination:
// all other arguments appear among the inputs, and a single other value
// remains. Empty otherwise.
SmallVector<std::string *> StopRestorer::findByName(proto::GraphProto &part,
                                                    const LostReads &reads,
                                                    StringRef lost) {
  // Collect the names of the call's other arguments.
  llvm::StringSet<> known;
  for (const auto *names : {&reads.call.sources, &reads.call.results})
    for (StringRef name : *names)
      if (name != lost)
        known.insert(name);
  llvm::StringSet<> results;
  for (int index : reads.nodes)
    results.insert(part.node(index).output().begin(),
                   part.node(index).output().end());
  // Ignore inputs that are results of the call's own nodes, or constants that
  // the exporter made up.
  SmallVector<std::string *> operands;
  llvm::StringSet<> left, met;
  for (int index : reads.nodes)
    for (std::string &input : *part.mutable_node(index)->mutable_input()) {
      StringRef source = sources.lookup(input);
      if (known.contains(input) || (!source.empty() && known.contains(source)))
        met.insert(source.empty() ? StringRef(input) : source);
      else if (!input.empty() && !results.contains(input) &&
               !isExportersName(input)) {
        left.insert(input);
        operands.push_back(&input);
      }
    }
  bool isOnly = left.size() == 1 && met.size() == known.size();
  return isOnly ? operands : SmallVector<std::string *>();
}

// Inserts an Identity named `lost`, and makes the inputs that stand for the
// argument `lost` read the Identity. Returns false if there are no such inputs.
bool StopRestorer::restore(proto::GraphProto &part, const LostReads &reads,
                           StringRef lost) {
  SmallVector<std::string *> operands = findByArgument(part, reads, lost);
  if (operands.empty())
    operands = findByName(part, reads, lost);
  if (operands.empty())
    return false;
  const std::string value = *operands.front();
  // Fail if the inputs read different values: the metadata contradict the
  // graph.
  for (const std::string *operand : operands)
    if (*operand != value)
      return false;
  // Another call may have restored the result already. Fail if the value or the
  // graph differs.
  const std::pair<std::string, const proto::GraphProto *> origin(value, &part);
  bool isNew = restored.try_emplace(lost, origin).second;
  if (restored.lookup(lost) != origin)
    return false;
  // Write the node and the metadata as the exporter would.
  if (isNew) {
    auto *node = new proto::NodeProto();
    node->set_op_type("Identity");
    node->set_name(("node_" + lost).str());
    node->add_input(value);
    node->add_output(lost.str());
    auto *entry = node->add_metadata_props();
    entry->set_key(kProgramCall.str());
    entry->set_value(("%" + lost + " : [num_users=1] = call_function[target=" +
                      kDetachTarget + "default](args = (%" + value +
                      ",), kwargs = {})")
                         .str());
    insertions[reads.nodes.front()].push_back(node);
    done.push_back("'" + lost.str() + "' of '" + value + "'");
  }
  for (std::string *operand : operands)
    *operand = lost.str();
  return true;
}

// Inserts each new Identity before the first reader.
void StopRestorer::insertNodes(proto::GraphProto &part) {
  if (insertions.empty())
    return;
  std::vector<proto::NodeProto *> nodes(part.node_size());
  part.mutable_node()->ExtractSubrange(0, part.node_size(), nodes.data());
  for (auto [index, node] : llvm::enumerate(nodes)) {
    if (auto found = insertions.find(index); found != insertions.end())
      for (proto::NodeProto *added : found->second)
        part.mutable_node()->AddAllocated(added);
    part.mutable_node()->AddAllocated(node);
  }
  insertions.clear();
}

void StopRestorer::restore(proto::GraphProto &part) {
  // Find calls with a lost argument: a result of x.detach() that no node
  // computes.
  llvm::MapVector<StringRef, LostReads> calls;
  // Group nodes by call: the exporter may make several nodes of one call.
  for (auto [index, node] : llvm::enumerate(part.node())) {
    ProgramCall call = readCall(node);
    bool isLost = llvm::any_of(call.results, [&](StringRef name) {
      return isDetached(name) && !defined.contains(name);
    });
    if (!isLost)
      continue;
    LostReads &reads = calls[call.name];
    if (reads.nodes.empty())
      reads.call = std::move(call);
    reads.nodes.push_back(index);
  }
  for (auto &[name, reads] : calls) {
    llvm::SmallSetVector<StringRef, 2> lost;
    for (StringRef result : reads.call.results)
      if (isDetached(result) && !defined.contains(result))
        lost.insert(result);
    for (StringRef each : lost)
      if (!restore(part, reads, each))
        context.warnOfLoss(
            "node '" + part.node(reads.nodes.front()).name() +
            "': the program stops derivatives here by x.detach(), which "
            "PyTorch's exporter has left out and which is not found again: "
            "they are followed; torch.onnx.export(..., optimize=False) keeps "
            "it");
  }
  insertNodes(part);
}

std::string StopRestorer::run() {
  std::vector<proto::GraphProto *> parts;
  llvm::append_range(parts, findGraphs(graph));
  collect(parts);
  for (proto::GraphProto *part : parts)
    restore(*part);
  if (done.empty())
    return {};
  return "the exporter left out where derivatives stop (x.detach()), which is "
         "there again: " +
         listFirst(done, 1);
}

llvm::Error mpc::onnx_frontend::restoreStops(RepairContext &context) {
  context.note(StopRestorer(context).run());
  return llvm::Error::success();
}
