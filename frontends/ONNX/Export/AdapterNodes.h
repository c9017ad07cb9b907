// Adds low-rank adapters to a model file as nodes of their own.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_EXPORT_ADAPTERNODES_H
#define MPC_FRONTENDS_ONNX_EXPORT_ADAPTERNODES_H

#include "frontends/ONNX/Model/Error.h"
#include "frontends/ONNX/Model/Model.h"

#include "llvm/ADT/SmallVector.h"

#include <string>

namespace mpc::onnx_frontend {

/// An adapter that a file receives: each product with `weight` gets `scale` * B
/// A added to the weight.
struct AdapterNodes {
  /// The initializer that the adapter changes; empty for a quantized weight.
  /// The node `module`, DequantizeLinear or MatMulNBits, dequantizes the
  /// weight.
  std::string weight;
  std::string module;
  std::string a, b; ///< new initializers, [rank, in, ...] and [out, rank, ...]
  llvm::SmallVector<int64_t> shapeA, shapeB;
  double scale = 1;
};

/// Adds the nodes of `adapters` after the products that read their weights.
///
/// ```
/// Before: y = Gemm <transB = 1> (x, w, bias)
/// After:
///   y.base = Gemm <transB = 1> (x, w, bias)
///   y.lora_A = MatMul (x, y.lora_A.transposed)
///   y.lora_B = MatMul (y.lora_A, y.lora_B.transposed)
///   y.lora = Mul (y.lora_B, y.lora.scale)
///   y = Add (y.base, y.lora)
/// ```
///
/// A and B become initializers without values, and graph inputs, so that ONNX
/// Runtime can replace them by an adapter file. Quantized weights stay
/// unchanged. Error (kind Unsupported) if a weight has no product, or is the
/// left factor of a product.
llvm::Error addAdapterNodes(Model &model,
                            llvm::ArrayRef<AdapterNodes> adapters);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_EXPORT_ADAPTERNODES_H
