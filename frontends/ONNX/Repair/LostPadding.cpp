// Notes embeddings whose padding row is guessed: the table's only row of zeros.
//
// nn.Embedding(padding_idx=...) starts with zeros in the padding row and never
// trains the row. PyTorch's older exporter omits padding_idx. So the importer
// does not train the only row of zeros in a table.
//
// Before:
//
// ```
// <ir_version: 8, opset_import: ["" : 17], producer_name: "pytorch">
// g (int64[2] ids) => (float[2,2] y)
// <float[3,2] w = {0, 0, 3, 4, 5, 6}>
// {
//   y = Gather (w, ids)
// }
// ```
//
// After:
//
// ```
// note: row 0 of 'w' is zeros, as nn.Embedding(padding_idx=0) leaves it, ...
// ```
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Repair/LostPadding.h"

#include "frontends/ONNX/Model/ExportedProgram.h"
#include "frontends/ONNX/Model/HostTensor.h"
#include "frontends/ONNX/Model/Metadata.h"
#include "frontends/ONNX/Repair/Repair.h"

using namespace mlir;
using namespace mpc::onnx_frontend;

// Finds the only row of zeros in a matrix; nullopt if there are none or
// several.
static std::optional<int64_t> findRowOfZeros(const HostTensor &table) {
  const int64_t rows = table.getShape()[0], width = table.getShape()[1];
  std::optional<int64_t> found;
  for (int64_t row = 0; row < rows; ++row) {
    int64_t column = 0;
    while (column < width && table.getDouble(row * width + column) == 0)
      ++column;
    if (column < width)
      continue;
    if (found)
      return std::nullopt;
    found = row;
  }
  return found;
}

std::optional<int64_t>
mpc::onnx_frontend::findLostPadding(const Graph &graph,
                                    const proto::NodeProto &node) {
  const Model &model = graph.getModel();
  if (model.skipsRepair("lost-padding"))
    return std::nullopt;
  // A Gather without a call in the metadata comes from the older exporter.
  if (model.getProto().producer_name() != "pytorch" ||
      node.op_type() != "Gather" || node.input_size() != 2 ||
      !findMetadata(node, kProgramCall).empty())
    return std::nullopt;
  const proto::TensorProto *tensor = graph.getInitializer(node.input(0));
  if (!tensor || tensor->dims_size() != 2 || tensor->dims(0) < 3 ||
      tensor->dims(1) < 1 || !holdsFloats(*tensor))
    return std::nullopt;
  llvm::Expected<HostTensor> table =
      model.decode(*tensor, "initializer '" + tensor->name() + "'");
  if (table)
    return findRowOfZeros(*table);
  // Drop the error: the import reports undecodable tensors.
  llvm::consumeError(table.takeError());
  return std::nullopt;
}

void mpc::onnx_frontend::noteLostPadding(const LossContext &context) {
  if (!context.isTraining)
    return;
  llvm::StringSet<> seen;
  for (const proto::NodeProto *node : context.nodes) {
    std::optional<int64_t> row = findLostPadding(context.graph, *node);
    if (row && seen.insert(node->input(0)).second)
      context.getModel().note(
          "row " + Twine(*row) + " of '" + node->input(0) +
          "' is zeros, as nn.Embedding(padding_idx=" + Twine(*row) +
          ") leaves it, which PyTorch's older exporter does not write: it is "
          "not trained; torch.onnx.export(..., dynamo=True) says which row is "
          "padding, and --no-repair lost-padding trains the row");
  }
}
