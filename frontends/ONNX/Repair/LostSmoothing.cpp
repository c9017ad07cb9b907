// Warns of a label smoothing left out by PyTorch's exporter.
//
// Before:
//
// ```
// <ir_version: 10, opset_import: ["" : 18], producer_name: "pytorch">
// g (float[4,3] x, int64[4] labels) => (float loss)
// <float[3,3] w = {1, 2, 3, 4, 5, 6, 7, 8, 9}>
// {
//   s = MatMul (x, w)
//   # pkg.torch.onnx.fx_node: %loss : call_function[target=
//       torch.ops.aten.cross_entropy_loss.default](args = (%s, %labels, None,
//       1, -100, 0.1), kwargs = {})
//   [n] loss = SoftmaxCrossEntropyLoss (s, labels)
// }
// ```
//
// After:
//
// ```
// warning: node 'n': the program's loss has a label smoothing of 0.1, which
//     PyTorch's exporter leaves out; ...
// ```
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Model/ExportedProgram.h"
#include "frontends/ONNX/Repair/Repair.h"

#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace mpc::onnx_frontend;

// Finds the label smoothing in a loss node's call (argument 5 of
// cross_entropy_loss), which the ONNX op cannot express; nullopt if there is
// none.
static std::optional<double> findLostSmoothing(const proto::NodeProto &node) {
  if (node.op_type() != "SoftmaxCrossEntropyLoss")
    return std::nullopt;
  ProgramCall call = readCall(node);
  double smoothing = 0;
  if (!call.target.contains("cross_entropy_loss.") ||
      call.arguments.size() < 6 || call.arguments[5].getAsDouble(smoothing) ||
      smoothing == 0)
    return std::nullopt;
  return smoothing;
}

void mpc::onnx_frontend::warnLostSmoothing(const LossContext &context) {
  const Model &model = context.getModel();
  if (!context.isTraining || model.getProto().producer_name() != "pytorch")
    return;
  for (const proto::NodeProto *node : context.nodes)
    if (std::optional<double> smoothing = findLostSmoothing(*node)) {
      std::string number;
      llvm::raw_string_ostream(number) << llvm::format("%g", *smoothing);
      model.warn("node '" + node->name() +
                 "': the program's loss has a label "
                 "smoothing of " +
                 number +
                 ", which PyTorch's exporter leaves "
                 "out; export the scores without the loss, and train with "
                 "--loss softmax_cross_entropy --label-smoothing " +
                 number);
    }
}
