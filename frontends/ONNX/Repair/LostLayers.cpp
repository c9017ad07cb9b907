// Warns of layers that an exporter has left out.
//
// PyTorch's exporters and tf2onnx fold BatchNormalization into the product
// before it. PyTorch's exporters also drop Dropout of a model in evaluation
// mode. Suggests a better export if there is one.
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
  /// The BatchNormalization of the program that the node comes from; nullopt if
  /// none.
  std::optional<StringRef> batchNorm;
  /// True if this BatchNormalization was in evaluation mode.
  bool isEvaluation = false;
};
} // namespace

// Finds the origin of a node. The list of classes has modules from the outside
// in, then the operator.
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

// True if the older exporter has folded a normalization into `node`: the
// changed weight and bias have numbers. Unchanged weights keep their names.
static bool isFoldedByOlderExporter(const proto::NodeProto &node) {
  return node.op_type() == "Conv" && node.input_size() > 2 &&
         StringRef(node.input(1)).starts_with("onnx::Conv_") &&
         StringRef(node.input(2)).starts_with("onnx::Conv_");
}

static void warnLostByPyTorch(const Model &model,
                              ArrayRef<const proto::NodeProto *> nodes) {
  // Collect the folded layers from the metadata of the products.
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
  // Layers that PyTorch's newer exporter folded: give one warning with the
  // first layer as example, or a note if no layer is known to be lost.
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
  // Layers that PyTorch's older exporter folded: give one warning.
  if (!foldedBefore.empty())
    model.warn("the BatchNormalization " + foldedBefore[0] +
               countOthers(foldedBefore.size()) +
               ", so mpc cannot train it, and any Dropout is lost; to keep "
               "such layers with PyTorch's older exporter, export with "
               "torch.onnx.export(model.train(), ..., "
               "training=torch.onnx.TrainingMode.TRAINING, "
               "do_constant_folding=False)");
}

// tf2onnx names a product after the folded layer:
// "batch_normalization_1/batchnorm/mul_1".
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
