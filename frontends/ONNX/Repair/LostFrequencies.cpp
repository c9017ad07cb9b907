// Warns of embeddings whose gradients PyTorch divides by frequency.
//
// nn.Embedding(scale_grad_by_freq=True) divides the gradient of each row by the
// number of reads of the row in the batch. ONNX cannot express the division:
// only the metadata has the flag. mpc trains without the division.
//
// Before:
//
// ```
// <ir_version: 10, opset_import: ["" : 18], producer_name: "pytorch">
// g (int64[2] ids) => (float[2,2] y)
// <float[3,2] w = {1, 2, 3, 4, 5, 6}>
// {
//   # pkg.torch.onnx.fx_node: %embedding : call_function[target=
//       torch.ops.aten.embedding.default](args = (%p_w, %ids, -1, True),
//       kwargs = {})
//   [n] y = Gather (w, ids)
// }
// ```
//
// After:
//
// ```
// warning: node 'n': the program divides the gradient of each row of this
//     embedding by the uses of the row in the batch (scale_grad_by_freq), ...
// ```
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Model/ExportedProgram.h"
#include "frontends/ONNX/Repair/Repair.h"

using namespace mlir;
using namespace mpc::onnx_frontend;

void mpc::onnx_frontend::warnLostFrequencies(const LossContext &context) {
  const Model &model = context.getModel();
  if (!context.isTraining || model.getProto().producer_name() != "pytorch")
    return;
  // Argument 3 of the call is scale_grad_by_freq.
  constexpr unsigned frequencyArgument = 3;
  for (const proto::NodeProto *node : context.nodes) {
    ProgramCall call = readCall(*node);
    if (node->op_type() == "Gather" &&
        call.target.starts_with(kEmbeddingTarget) &&
        call.arguments.size() > frequencyArgument &&
        call.arguments[frequencyArgument] == "True")
      model.warn("node '" + node->name() +
                 "': the program divides the gradient of each row of this "
                 "embedding by the uses of the row in the batch "
                 "(scale_grad_by_freq), which ONNX cannot express; mpc does "
                 "not divide the gradients");
  }
}
