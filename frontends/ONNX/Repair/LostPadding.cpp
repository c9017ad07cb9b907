// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Repair/LostPadding.h"
#include "frontends/ONNX/Model/ExportedProgram.h"
#include "frontends/ONNX/Model/HostTensor.h"
#include "frontends/ONNX/Model/Metadata.h"

using namespace mlir;
using namespace mpc::onnx_frontend;

// Finds the only row of zeros in a matrix; nullopt if there is none, or
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
  // Only the older exporter writes a Gather without the call in its metadata.
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
  // Drop the error: the import will report the tensor.
  llvm::consumeError(table.takeError());
  return std::nullopt;
}
