// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Training/LostLayers.h"

#include "frontends/ONNX/Model/ExportedProgram.h"
#include "frontends/ONNX/Model/Metadata.h"
#include "frontends/ONNX/Repair/LostPadding.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

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

// Finds the label smoothing, argument 5 of the program's cross entropy; nullopt
// if there is none. The ONNX op has no such attribute.
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

static void warnLostSmoothing(const Model &model,
                              ArrayRef<const proto::NodeProto *> nodes) {
  for (const proto::NodeProto *node : nodes)
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

//===----------------------------------------------------------------------===//
// Embeddings
//===----------------------------------------------------------------------===//

// Warns of embeddings with scale_grad_by_freq, argument 3: PyTorch divides the
// gradient of a row by the number of uses in the batch.
static void warnLostFrequencies(const Model &model,
                                ArrayRef<const proto::NodeProto *> nodes) {
  constexpr unsigned frequencyArgument = 3;
  for (const proto::NodeProto *node : nodes) {
    ProgramCall call = readCall(*node);
    if (node->op_type() == "Gather" &&
        call.target.starts_with(kEmbeddingTarget) &&
        call.arguments.size() > frequencyArgument &&
        call.arguments[frequencyArgument] == "True")
      model.warn("node '" + node->name() +
                 "': the program divides gradients of this embedding by how "
                 "often a batch has each row (scale_grad_by_freq), which ONNX "
                 "has no word for: they are not divided");
  }
}

static void noteLostPadding(const Graph &graph,
                            ArrayRef<const proto::NodeProto *> nodes) {
  llvm::StringSet<> seen;
  for (const proto::NodeProto *node : nodes) {
    std::optional<int64_t> row = findLostPadding(graph, *node);
    if (row && seen.insert(node->input(0)).second)
      graph.getModel().note(
          "row " + Twine(*row) + " of '" + node->input(0) +
          "' is zeros, as nn.Embedding(padding_idx=" + Twine(*row) +
          ") leaves it, which PyTorch's older exporter does not write: it is "
          "not trained; torch.onnx.export(..., dynamo=True) says which row is "
          "padding");
  }
}

//===----------------------------------------------------------------------===//
// Layers
//===----------------------------------------------------------------------===//

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
                             "' is folded into it");
  }
  // Give one warning for the newer exporter, with the first layer as example,
  // or a note if no layer is known to be lost.
  StringRef dropout =
      isEvaluation
          ? "; it was exported after model.eval(), so that any Dropout "
            "is lost as well"
          : "";
  if (!folded.empty())
    model.warn("the BatchNormalization " + folded[0] +
               countOthers(folded.size()) + ", and not there to train" +
               dropout +
               "; PyTorch's exporter keeps it by torch.onnx.export("
               "model.train(), ..., dynamo=True, optimize=False)");
  else if (isEvaluation)
    model.note("the model was exported after model.eval(), and has no Dropout "
               "any more if it had some; PyTorch's exporter keeps it by "
               "torch.onnx.export(model.train(), ..., dynamo=True, "
               "optimize=False)");
  // Give one warning for the older exporter.
  if (!foldedBefore.empty())
    model.warn("the BatchNormalization " + foldedBefore[0] +
               countOthers(foldedBefore.size()) +
               ", and not there to train, and any Dropout is lost; PyTorch's "
               "older exporter keeps them by torch.onnx.export(model.train(), "
               "..., training=torch.onnx.TrainingMode.TRAINING, "
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
               ", and not there to train; tf2onnx exports for inference and "
               "has no way to keep it");
}

void mpc::onnx_frontend::warnLost(const Graph &graph,
                                  ArrayRef<const proto::NodeProto *> nodes) {
  const Model &model = graph.getModel();
  StringRef producer = model.getProto().producer_name();
  if (producer == "pytorch") {
    warnLostByPyTorch(model, nodes);
    warnLostSmoothing(model, nodes);
    warnLostFrequencies(model, nodes);
    noteLostPadding(graph, nodes);
  } else if (producer == "tf2onnx")
    warnLostByTF2ONNX(model, nodes);
}
