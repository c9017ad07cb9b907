// Warns of parameters that PyTorch's exporter has replaced by computed values.
//
// A transposed parameter has another name in the file. Only the result remains
// of ops on parameters alone. A parameter that changes nothing at first is
// missing.
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
/// A folded tensor, and its sources: parameters and buffers. If the file has no
/// signature, `sources` may hold other names too.
struct Folded {
  const proto::ValueInfoProto *value;
  StringRef name;
  SmallVector<StringRef> sources;
};
} // namespace

/// The inputs of the program, as in ExportedProgram.
using Signature = llvm::MapVector<StringRef, StringRef>;

static SmallVector<Folded> findFolded(const proto::GraphProto &file,
                                      const Signature &signature) {
  llvm::StringSet<> targets;
  for (auto [source, target] : signature)
    targets.insert(target);
  SmallVector<Folded> all;
  // A file may describe a value twice.
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

// Finds operands of attentions. The exporter scales keys and queries in advance
// under numbered names, so the operands are not renamed weights.
static llvm::StringSet<> findScaled(const proto::GraphProto &file) {
  llvm::StringSet<> scaled;
  for (const proto::NodeProto &node : file.node())
    if (readCall(node).target.starts_with(
            "torch.ops.aten.scaled_dot_product_attention."))
      scaled.insert(node.input().begin(), node.input().end());
  return scaled;
}

// True if the folded value acts as a weight, or certainly comes from a
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
  // `renamed`: weights that the exporter only moved or renamed. `computed`:
  // results of arithmetic on weights, such as w * 0.5.
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
  // Give one message per kind, with the first value as example.
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

// Returns the names of all initializers, of their originals, and of the
// parameters that were folded into initializers.
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

// Adds parameters that `node` reads under the name of another, like a head tied
// to the embedding. Splats do not count: the two may only start equal.
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
    // Drop the error: the import will report the tensor.
    llvm::consumeError(values.takeError());
  }
}

// Finds parameters of modules whose calls read another module's parameter
// instead. The program shares the two under one name, like a head tied to the
// embedding, so nothing is lost.
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

// True if calls of the file read results of calls that are not in the file.
// "getitem" is skipped: a call with several results has no such name in the
// file.
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

// Warns of parameters that the file has lost. The exporter drops ops with
// parameters of zeros or ones, which change nothing at first, and keeps one of
// two equal results.
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
  // If the program is complete, a parameter that no call reads is simply
  // unused.
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
