// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Training/WeightedOps.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"

using namespace mpc::onnx_frontend;

const WeightedOp *mpc::onnx_frontend::findWeightedOp(llvm::StringRef name) {
  using Kind = WeightedOp::Kind;
  static const WeightedOp ops[] = {
      {"Attention", Kind::Contraction, {1, 2}},
      {"Conv", Kind::Contraction, {0, 1, 2}},
      {"ConvTranspose", Kind::Contraction, {0, 1, 2}},
      {"DeformConv", Kind::Contraction, {1, 3}},
      {"Einsum", Kind::Contraction, {0, 1, 2, 3}},
      {"FusedConv", Kind::Contraction, {0, 1, 2}},
      {"FusedGemm", Kind::Contraction, {0, 1, 2}},
      {"FusedMatMul", Kind::Contraction, {0, 1}},
      {"GRU", Kind::Contraction, {1, 2, 3}},
      {"Gemm", Kind::Contraction, {0, 1, 2}},
      {"LSTM", Kind::Contraction, {1, 2, 3, 7}},
      {"MatMul", Kind::Contraction, {0, 1}},
      {"MatMulNBits", Kind::Contraction, {5}},
      {"RNN", Kind::Contraction, {1, 2, 3}},
      {"TransposeMatMul", Kind::Contraction, {0, 1}},
      {"BatchNormalization", Kind::Normalization, {1, 2}},
      {"EmbedLayerNormalization", Kind::Normalization, {2, 3, 4, 5, 6}},
      {"GroupNorm", Kind::Normalization, {1, 2}},
      {"GroupNormalization", Kind::Normalization, {1, 2}},
      {"InstanceNormalization", Kind::Normalization, {1, 2}},
      {"LayerNormalization", Kind::Normalization, {1, 2}},
      {"LpNormalization", Kind::Normalization, {}},
      {"MeanVarianceNormalization", Kind::Normalization, {}},
      {"RMSNormalization", Kind::Normalization, {1}},
      {"SimplifiedLayerNormalization", Kind::Normalization, {1}},
      {"SkipLayerNormalization", Kind::Normalization, {2, 3, 4}},
      {"SkipSimplifiedLayerNormalization", Kind::Normalization, {2, 3}},
      {"PRelu", Kind::Slope, {1}},
      {"BiasDropout", Kind::FusedBias, {1}},
      {"BiasGelu", Kind::FusedBias, {1}},
      {"FastGelu", Kind::FusedBias, {1}},
      {"MultiHeadAttention", Kind::FusedBias, {3}},
  };
  const auto *found =
      llvm::find_if(ops, [&](const WeightedOp &op) { return op.name == name; });
  return found == std::end(ops) ? nullptr : found;
}

bool mpc::onnx_frontend::isView(llvm::StringRef op) {
  static const llvm::StringSet<> views = {
      "Cast",     "CastLike", "Concat",         "DequantizeLinear",
      "Dropout",  "Expand",   "Flatten",        "Identity",
      "Pad",      "Reshape",  "QuantizeLinear", "Slice",
      "Split",    "Squeeze",  "Tile",           "Transpose",
      "Unsqueeze"};
  return views.contains(op);
}

bool mpc::onnx_frontend::isSum(llvm::StringRef op) {
  return op == "Add" || op == "Sub" || op == "Sum";
}
