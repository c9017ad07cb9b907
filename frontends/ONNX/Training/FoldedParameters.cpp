// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Training/FoldedParameters.h"

#include "frontends/ONNX/Model/Metadata.h"

using namespace mlir;
using namespace mpc::onnx_frontend;

namespace {
/// A tensor of the file, and what it was computed from.
struct Folded {
  StringRef name;
  SmallVector<StringRef> sources;
};
} // namespace

// What the exporter computed from values that the program has names for, beside
// its own numbered ones.
static SmallVector<Folded> findFolded(const Graph &graph) {
  SmallVector<Folded> all;
  const proto::GraphProto &file = graph.getModel().getProto().graph();
  for (const proto::ValueInfoProto &value : file.value_info()) {
    Folded folded = {value.name(), readFoldedParameters(value)};
    if (!folded.sources.empty())
      all.push_back(std::move(folded));
  }
  return all;
}

void mpc::onnx_frontend::warnFolded(FunctionImporter &function,
                                    const Graph &graph) {
  SmallVector<Folded> all = findFolded(graph);
  SmallVector<const Folded *> renamed, computed;
  for (const Folded &folded : all) {
    const ImportedValue &value = function.lookup(folded.name);
    if (!value.constant || value.constant->getNumElements() < 2)
      continue;
    if (folded.sources.size() == 1 && isExportersName(folded.name) &&
        value.stateRole)
      renamed.push_back(&folded);
    else if (value.stateRole == Role::Parameter)
      computed.push_back(&folded);
  }
  if (!renamed.empty())
    graph.getModel().note(
        "PyTorch's exporter has made '" + renamed[0]->name + "' of '" +
        renamed[0]->sources[0] + "'" + countOthers(renamed.size()) +
        ", and --train, --freeze, --weights and the trained weights have it by "
        "that name; torch.onnx.export(..., optimize=False) keeps names");
  if (!computed.empty())
    graph.getModel().warn(
        "parameter '" + computed[0]->name + "'" + countOthers(computed.size()) +
        " was computed by PyTorch's exporter, and what it was computed from is "
        "not there to train; torch.onnx.export(..., optimize=False) keeps it");
}
