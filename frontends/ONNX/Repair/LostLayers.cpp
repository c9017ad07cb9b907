// Warns of layers left out by an exporter.
//
// PyTorch's exporters and tf2onnx fold a BatchNormalization into the preceding
// convolution or matrix product. PyTorch's exporters also drop Dropout if the
// model is in evaluation mode. The warning suggests a better export, if there
// is one.
//
// Before:
//
// ```
// <ir_version: 10, opset_import: ["" : 18], producer_name: "pytorch">
// g (float[1,1,2,2] x) => (float[1,1,2,2] y)
// <float[1,1,1,1] w = {2}>
// {
//   # pkg.torch.onnx.name_scopes: ['', 'bn', 'batch_norm']
//   # pkg.torch.onnx.class_hierarchy: ['Net',
//       'torch.nn.modules.batchnorm.BatchNorm2d', 'aten.batch_norm.default']
//   y = Conv (x, w)
// }
// ```
//
// After:
//
// ```
// warning: the BatchNormalization 'bn' is folded into the Conv before it, so
//     mpc cannot train it; ...
// ```
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Model/Metadata.h"
#include "frontends/ONNX/Repair/Repair.h"

using namespace mlir;
using namespace mpc::onnx_frontend;

namespace {
/// The facts about a node in the metadata of PyTorch's exporter.
struct Origin {
  /// The name of the batch normalization that the node comes from; nullopt if
  /// it comes from none.
  std::optional<StringRef> batchNorm;
  /// True if the batch normalization was in evaluation mode at export.
  bool isEvaluation = false;
};
} // namespace

// Reads the origin of `node` from the metadata. The metadata list the classes
// of the modules around the call, from the outside in, and then the operator.
static Origin findOrigin(const proto::NodeProto &node) {
  auto classes = readMetadataList(node, "pkg.torch.onnx.class_hierarchy");
  auto scopes = readMetadataList(node, kNameScopes);
  Origin origin;
  for (auto [index, name] : llvm::enumerate(classes)) {
    bool isOperator = name.starts_with("aten.") && name.contains("batch_norm");
    if (!isOperator && !name.starts_with("torch.nn.modules.batchnorm."))
      continue;
    if (!origin.batchNorm)
      origin.batchNorm = index < scopes.size() ? scopes[index] : name;
    origin.isEvaluation |= name.contains("no_training");
  }
  return origin;
}

static bool isProduct(StringRef op) {
  return op == "Conv" || op == "ConvTranspose" || op == "Gemm" ||
         op == "MatMul";
}

// True if PyTorch's older exporter has folded a batch normalization into
// `node`. The exporter gives the folded weight and bias numbers,
// "onnx::Conv_12". Unchanged weights keep the program's names.
static bool isFoldedByOlderExporter(const proto::NodeProto &node) {
  return node.op_type() == "Conv" && node.input_size() > 2 &&
         StringRef(node.input(1)).starts_with("onnx::Conv_") &&
         StringRef(node.input(2)).starts_with("onnx::Conv_");
}

static void warnLostByPyTorch(const Model &model,
                              ArrayRef<const proto::NodeProto *> nodes) {
  // Find products whose metadata show a folded batch normalization.
  std::vector<std::string> folded, foldedBefore;
  bool isEvaluation = false;
  for (const proto::NodeProto *node : nodes) {
    Origin origin = findOrigin(*node);
    isEvaluation |= origin.isEvaluation;
    if (origin.batchNorm && isProduct(node->op_type()))
      folded.push_back("'" + origin.batchNorm->str() + "' is folded into the " +
                       node->op_type() + " before it");
    else if (isFoldedByOlderExporter(*node))
      foldedBefore.push_back("after node '" + node->name() +
                             "' is folded into this node");
  }
  // For PyTorch's newer exporter: a warning with the first folded layer as
  // example. Without folded layers, a note: the model may have lost Dropout.
  StringRef dropout =
      isEvaluation
          ? "; the model was exported after model.eval(), so any Dropout "
            "is lost as well"
          : "";
  if (!folded.empty())
    model.warn("the BatchNormalization " + folded[0] +
               countOthers(folded.size()) + ", so mpc cannot train it" +
               dropout +
               "; to keep such layers, export with torch.onnx.export("
               "model.train(), ..., dynamo=True, optimize=False)");
  else if (isEvaluation)
    model.note("the model was exported after model.eval(), so any Dropout is "
               "lost; to keep Dropout, export with "
               "torch.onnx.export(model.train(), ..., dynamo=True, "
               "optimize=False)");
  // For PyTorch's older exporter: a warning with the first folded layer as
  // example.
  if (!foldedBefore.empty())
    model.warn("the BatchNormalization " + foldedBefore[0] +
               countOthers(foldedBefore.size()) +
               ", so mpc cannot train it, and any Dropout is lost; to keep "
               "such layers with PyTorch's older exporter, export with "
               "torch.onnx.export(model.train(), ..., "
               "training=torch.onnx.TrainingMode.TRAINING, "
               "do_constant_folding=False)");
}

// Warns of folded batch normalizations in files of tf2onnx. tf2onnx names the
// product after the layer: "batch_normalization_1/batchnorm/mul_1".
static void warnLostByTF2ONNX(const Model &model,
                              ArrayRef<const proto::NodeProto *> nodes) {
  std::vector<std::string> folded;
  for (const proto::NodeProto *node : nodes) {
    auto [layer, rest] = StringRef(node->name()).split("/batchnorm/");
    if (isProduct(node->op_type()) && !rest.empty())
      folded.push_back("'" + layer.str() + "' is folded into the " +
                       node->op_type() + " before it");
  }
  if (!folded.empty())
    model.warn("the BatchNormalization " + folded[0] +
               countOthers(folded.size()) +
               ", so mpc cannot train it; tf2onnx exports for inference only "
               "and has no option to keep it");
}

void mpc::onnx_frontend::warnLostLayers(const LossContext &context) {
  if (!context.isTraining)
    return;
  StringRef producer = context.getModel().getProto().producer_name();
  if (producer == "pytorch")
    warnLostByPyTorch(context.getModel(), context.nodes);
  else if (producer == "tf2onnx")
    warnLostByTF2ONNX(context.getModel(), context.nodes);
}
