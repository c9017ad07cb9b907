// Warns of parameters folded or dropped by PyTorch's exporter.
//
// There are three cases. The exporter folds a transposed parameter under
// another name. Ops on parameters alone, like w * 0.5, are folded, and only the
// result is in the file. A parameter without effect at the start, like a scale
// of ones, is dropped.
//
// Before:
//
// ```
// <ir_version: 10, opset_import: ["" : 18], producer_name: "pytorch">
// # pkg.torch.export.ExportedProgram.graph_signature:
//     p_w: PARAMETER target='w'
// g (float[1,2] x) => (float[1,2] y)
// <
//   # pkg.onnxscript.optimizer.folded_from: ['w']
//   float[2,2] exp = {1, 2, 3, 4}
// >
// {
//   # pkg.torch.onnx.fx_node: %matmul : call_function[target=
//       torch.ops.aten.matmul.default](args = (%x, %exp), kwargs = {})
//   y = MatMul (x, exp)
// }
// ```
//
// After:
//
// ```
// warning: parameter 'exp' is a result that PyTorch's exporter computed from
//     other tensors of the program, which are not in the file to train; ...
// ```
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Model/ExportedProgram.h"
#include "frontends/ONNX/Model/HostTensor.h"
#include "frontends/ONNX/Model/Metadata.h"
#include "frontends/ONNX/Repair/Origins.h"
#include "frontends/ONNX/Repair/Repair.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx_frontend;

namespace {
/// A folded tensor, with the parameters and buffers from which it was folded
/// (`sources`). If the file has no signature, `sources` may hold names of other
/// values.
struct Folded {
  const proto::ValueInfoProto *value;
  StringRef name;
  SmallVector<StringRef> sources;
};
} // namespace

/// The inputs of the exported program, each with the name in PyTorch, as in
/// ExportedProgram::signature.
using Signature = llvm::MapVector<StringRef, StringRef>;

static SmallVector<Folded> findFolded(const proto::GraphProto &file,
                                      const Signature &signature) {
  llvm::StringSet<> targets;
  for (auto [source, target] : signature)
    targets.insert(target);
  SmallVector<Folded> all;
  // Metadata may describe a value twice: skip the second entry.
  llvm::StringSet<> seen;
  for (const proto::ValueInfoProto &value : file.value_info()) {
    if (!seen.insert(value.name()).second)
      continue;
    Folded folded = {&value, value.name(), readFoldedParameters(value)};
    llvm::erase_if(folded.sources, [&](StringRef source) {
      return !signature.empty() && !targets.contains(source);
    });
    if (!folded.sources.empty())
      all.push_back(std::move(folded));
  }
  return all;
}

// Finds the inputs of all nodes of attention calls. The exporter scales keys
// and queries at export and names the results by numbers, so the inputs are
// computed weights, not renamed weights.
static llvm::StringSet<> findScaled(const proto::GraphProto &file) {
  llvm::StringSet<> scaled;
  for (const proto::NodeProto &node : file.node())
    if (readCall(node).target.starts_with(
            "torch.ops.aten.scaled_dot_product_attention."))
      scaled.insert(node.input().begin(), node.input().end());
  return scaled;
}

// True if the folded tensor is trained as a parameter, or was folded from a
// parameter.
static bool isComputedParameter(const Folded &folded, const ValueFacts &value,
                                const llvm::StringSet<> &parameters) {
  return value.stateRole == Role::Parameter ||
         llvm::any_of(folded.sources, [&](StringRef source) {
           return parameters.contains(source);
         });
}

static void warnComputed(const LossContext &context, ArrayRef<Folded> all) {
  const Graph &graph = context.graph;
  const proto::GraphProto &file = graph.getModel().getProto().graph();
  const llvm::StringSet<> &parameters =
      graph.getModel().getProgram().parameters;
  const llvm::StringSet<> unitMultiples = findUnitMultiples(file);
  // `renamed`: parameters only moved or renamed by the exporter. `computed`:
  // results of arithmetic on parameters, like w * 0.5.
  const llvm::StringSet<> scaled = findScaled(file);
  SmallVector<const Folded *> renamed, computed;
  for (const Folded &folded : all) {
    const ValueFacts value = context.findFacts(folded.name);
    if (!value.constant)
      continue;
    if (isMovedParameter(graph, *folded.value, unitMultiples) ||
        (folded.sources.size() == 1 && isExportersName(folded.name) &&
         !scaled.contains(folded.name) && value.stateRole)) {
      if (value.constant->getNumElements() >= 2)
        renamed.push_back(&folded);
    } else if (isComputedParameter(folded, value, parameters)) {
      computed.push_back(&folded);
    }
  }
  // Give one message for all renamed tensors, and one for all computed tensors,
  // with the first as example.
  if (!renamed.empty())
    graph.getModel().note(
        "PyTorch's exporter has stored '" + renamed[0]->sources[0] +
        "' under the name '" + renamed[0]->name + "'" +
        countOthers(renamed.size()) +
        ": --train, --freeze, --weights and the trained weights use the new "
        "name; to keep names, export with torch.onnx.export(..., "
        "optimize=False)");
  if (!computed.empty())
    graph.getModel().warn(
        "parameter '" + computed[0]->name + "'" + countOthers(computed.size()) +
        " is a result that PyTorch's exporter computed from other tensors of "
        "the program, which are not in the file to train; to keep them, export "
        "with torch.onnx.export(..., optimize=False)");
}

// Returns the names of all values in the file: initializers, the program's
// names of initializers, and parameters folded into initializers.
static llvm::StringSet<> findPresent(const proto::GraphProto &file,
                                     ArrayRef<Folded> all) {
  llvm::StringSet<> tensors;
  for (const proto::TensorProto &tensor : file.initializer())
    tensors.insert(tensor.name());
  llvm::StringSet<> present = tensors;
  for (const proto::ValueInfoProto &value : file.value_info())
    if (tensors.contains(value.name()))
      present.insert(findMetadata(value, kOriginalName));
  for (const Folded &folded : all)
    if (tensors.contains(folded.name))
      present.insert(folded.sources.begin(), folded.sources.end());
  return present;
}

// Adds to `present` the parameters that `node` reads, by its call, although the
// file has the values under the name of another parameter: a head tied to the
// embedding. Ignores tensors of equal elements: the two parameters may only
// start equal.
static void addTied(const Graph &graph, const proto::NodeProto &node,
                    const ProgramCall &call, llvm::StringSet<> &present) {
  for (int index = 0; index < node.input_size(); ++index) {
    std::optional<int> argument = findArgument(call, node.op_type(), index);
    const proto::TensorProto *tensor = graph.getInitializer(node.input(index));
    if (!argument || !tensor || !holdsFloats(*tensor))
      continue;
    std::optional<StringRef> source = call.findSource(*argument);
    if (!source || !isParameter(*source) || present.contains(*source))
      continue;
    llvm::Expected<HostTensor> values = graph.getModel().decode(
        *tensor, "initializer '" + tensor->name() + "'");
    if (values && !values->isSplat())
      present.insert(*source);
    // Drop the error: the import reports undecodable tensors.
    llvm::consumeError(values.takeError());
  }
}

// Finds parameters read by no call, because the calls of the module read a
// parameter of another module instead: the program shares a parameter under two
// names, like a head tied to the embedding. Nothing is lost then.
static llvm::StringSet<> findShared(const proto::GraphProto &file,
                                    const Signature &signature) {
  llvm::StringSet<> targets, shared;
  for (auto [source, target] : signature)
    if (isParameter(source))
      targets.insert(target);
  for (const proto::GraphProto *part : findGraphs(file))
    for (const proto::NodeProto &node : part->node()) {
      std::optional<StringRef> module = findModule(node);
      if (!module)
        continue;
      for (StringRef source : readCall(node).sources) {
        auto [owner, name] = signature.lookup(source).rsplit('.');
        std::string own = (*module + "." + name).str();
        if (owner != *module && targets.contains(own))
          shared.insert(own);
      }
    }
  return shared;
}

// True if a call in the file reads the result of a call without nodes in the
// file. Skips "getitem": the file does not name the results of a call with
// several results.
static bool hasLostCalls(ArrayRef<ProgramCall> calls, const Signature &inputs) {
  llvm::StringSet<> known;
  for (const ProgramCall &call : calls)
    known.insert(call.name);
  return llvm::any_of(calls, [&](const ProgramCall &call) {
    return call.target.starts_with("torch.ops.aten.") &&
           llvm::any_of(call.results, [&](StringRef result) {
             return !known.contains(result) && !inputs.contains(result) &&
                    !result.starts_with("getitem") &&
                    !result.starts_with("sym_");
           });
  });
}

// Warns of parameters lost at export. The exporter drops ops whose parameter of
// zeros or ones changes nothing, and merges two equal results.
static void warnDropped(const Graph &graph, ArrayRef<Folded> all,
                        const Signature &signature) {
  const proto::GraphProto &file = graph.getModel().getProto().graph();
  SmallVector<ProgramCall, 0> calls;
  llvm::StringSet<> read, present = findPresent(file, all);
  for (const proto::GraphProto *part : findGraphs(file))
    for (const proto::NodeProto &node : part->node()) {
      calls.push_back(readCall(node));
      read.insert(calls.back().sources.begin(), calls.back().sources.end());
      addTied(graph, node, calls.back(), present);
    }
  // If no call is lost, a parameter read by no call is unused in the program,
  // and no loss.
  const bool isPart = hasLostCalls(calls, signature);
  const llvm::StringSet<> shared = findShared(file, signature);
  SmallVector<StringRef> dropped;
  for (auto [source, target] : signature)
    if (isParameter(source) && !present.contains(source) &&
        !present.contains(target) &&
        (read.contains(source) || (isPart && !shared.contains(target))))
      dropped.push_back(target);
  if (!dropped.empty())
    graph.getModel().warn(
        "parameter '" + dropped[0] + "'" + countOthers(dropped.size()) +
        " of the program is not in the file, so mpc cannot train it: PyTorch's "
        "exporter drops parameters that start as zeros or ones, merges "
        "parameters that start equal, and leaves out parameters that the "
        "program does not use; to keep all that are used, export with "
        "torch.onnx.export(..., optimize=False)");
}

void mpc::onnx_frontend::warnFolded(const LossContext &context) {
  if (!context.isTraining || !context.findFacts)
    return;
  const proto::GraphProto &file = context.getModel().getProto().graph();
  const Signature &signature = context.getModel().getProgram().signature;
  const SmallVector<Folded> all = findFolded(file, signature);
  warnComputed(context, all);
  warnDropped(context.graph, all, signature);
}
