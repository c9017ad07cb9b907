// Optimizers of single tensors outside ai.onnx.preview.training: those of ONNX
// Runtime's older training graphs, and SGD as compilers for small devices write
// it, without a domain.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Ops/Importer.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx_frontend;

// What the update adds to a tensor, as output `index`, where it is asked for.
static LogicalResult defineChange(NodeImporter &node, unsigned index,
                                  Value updated, Value before) {
  if (!node.hasOutput(index))
    return success();
  node.setSuffix("#change");
  return node.define(index, node.emit<SubOp>({updated, before}));
}

// SGDOptimizer(rate, w, g) -> w - rate * g, and the difference.
static LogicalResult importSGDOptimizer(NodeImporter &node) {
  Value rate = node.reshape(node.operand(0), {}), w = node.operand(1);
  auto op = rate ? node.create<SGDOp>({w, node.operand(2), rate}) : SGDOp();
  if (!op || failed(node.define(0, op.getNewParam())))
    return failure();
  return defineChange(node, 1, op.getNewParam(), w);
}

// The attribute of that name among several spellings of one; nothing where the
// node has none.
static std::optional<double> readRate(NodeImporter &node) {
  for (StringRef name : {"lr", "learning_rate"})
    if (node.hasAttribute(name))
      return node.real(name, 0.0);
  return std::nullopt;
}

// SGD(w, g[, rate]) -> w - rate * g; the rate is attribute 'lr' where it is no
// input.
static LogicalResult importPlainSGD(NodeImporter &node) {
  Value w = node.operand(0), g = node.operand(1), rate;
  std::optional<double> given = readRate(node);
  if (node.hasInput(2)) {
    if (given)
      return node.invalid("the learning rate is an input and an attribute");
    rate = node.reshape(node.operand(2), {});
  } else if (given) {
    rate =
        node.scalarConstant(*given, NodeImporter::typeOf(w).getElementType());
  } else {
    return node.invalid("expected a learning rate: input 2, or attribute 'lr'");
  }
  auto op =
      rate ? node.create<SGDOp>(
                 {w, g, rate}, {node.attribute("weight_decay",
                                               node.real("weight_decay", 0.0))})
           : SGDOp();
  return op ? node.define(0, op.getNewParam()) : failure();
}

// What later inputs would change: gradients that are scaled, clipped, or not to
// be used at all.
static LogicalResult refuseMixedInputs(NodeImporter &node) {
  static constexpr StringLiteral names[] = {
      "mixed_precision_weights", "loss_scale", "global_gradient_norm",
      "update_signal"};
  for (auto [i, name] : llvm::enumerate(names))
    if (node.hasInput(6 + i))
      return node.unsupported(
          "input '" + name +
          "' is not supported; export the graph in float32 "
          "and choose with --precision what it computes in");
  return success();
}

// AdamOptimizer(rate, t, w, g, m, v) -> t + 1, m', v', w', and the difference.
// weight_decay_mode 0 is PyTorch's AdamW, 1 that of Hugging Face's
// transformers.
static LogicalResult importAdamOptimizer(NodeImporter &node) {
  if (failed(refuseMixedInputs(node)))
    return failure();
  int64_t mode = node.integer("weight_decay_mode", 0);
  if (mode != 0 && mode != 1)
    return node.invalid("weight_decay_mode is " + Twine(mode) +
                        ", expected 0 or 1");
  node.ignore("max_norm_clip"); // of the norm that was refused
  bool correct = node.integer("do_bias_correction", 1) != 0;
  SmallVector<NamedAttribute> attributes = {
      node.attribute("beta1", node.real("alpha", 0.9f)),
      node.attribute("beta2", node.real("beta", 0.999f)),
      node.attribute("epsilon", node.real("epsilon", 1e-8f)),
      node.attribute("weight_decay", node.real("lambda", 0.0)),
      node.attribute("decay_mode",
                     StringRef(mode == 0 ? "decoupled" : "decoupled_after")),
      node.attribute("bias_correction", StringRef(!correct    ? "none"
                                                  : mode == 0 ? "torch"
                                                              : "step_size"))};
  Value rate = node.reshape(node.operand(0), {}), w = node.operand(2);
  Value step = node.operand(1);
  Value count = node.reshape(step, {});
  if (!rate || !count)
    return failure();
  auto op = node.create<AdamOp>(
      {w, node.operand(3), node.operand(4), node.operand(5), rate, count},
      attributes);
  if (!op)
    return failure();
  (void)node.define(1, op.getNewM());
  (void)node.define(2, op.getNewV());
  (void)node.define(3, op.getNewParam());
  if (node.hasOutput(5))
    return node.unsupported("output 'new_mixed_precision_weights' is not "
                            "supported");
  node.setSuffix("#count");
  if (failed(node.define(0, node.emit<IncrementOp>({step}))))
    return failure();
  return defineChange(node, 4, op.getNewParam(), w);
}

ArrayRef<OpEntry> mpc::onnx_frontend::getOptimizerOps() {
  static const OpEntry entries[] = {
      {"", "SGD", 1, kNoEnd, 2, 3, 1, importPlainSGD},
      {kMicrosoft, "AdamOptimizer", 1, kNoEnd, 6, 10, 6, importAdamOptimizer},
      {kMicrosoft, "SGDOptimizer", 1, kNoEnd, 3, 3, 2, importSGDOptimizer},
  };
  return entries;
}
