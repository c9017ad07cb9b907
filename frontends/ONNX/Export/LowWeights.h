// Stores weights of a model in float16 or bfloat16, with Casts back to float32
// in front of their readers.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_EXPORT_LOWWEIGHTS_H
#define MPC_FRONTENDS_ONNX_EXPORT_LOWWEIGHTS_H

#include "frontends/ONNX/Model/ONNXProto.h"

#include "llvm/ADT/ArrayRef.h"

#include <vector>

namespace mpc::onnx_frontend {

/// True if a weight of this shape is worth a low type: two of its axes have
/// more than one element. False for biases and the scales of normalizations,
/// which are small and need their precision.
bool isWorthLowType(llvm::ArrayRef<int64_t> shape);

/// Returns the float32 initializers of the model's graph that can change their
/// type: those worth a low type that are no output of the graph or of a body,
/// and whose name no body defines again.
std::vector<proto::TensorProto *> findLowWeights(proto::ModelProto &model);

/// Makes all readers of `weights`, initializers of the graph, read the results
/// of new Cast nodes to float32. An initializer that is also listed as an input
/// of the graph keeps both entries equal in type.
///
/// Before: Gemm(x, W)        W: float[10, 64]
/// After:  Gemm(x, W_float32), W_float32 = Cast(W)   W: float16[10, 64]
void castReaders(proto::GraphProto &graph,
                 llvm::ArrayRef<proto::TensorProto *> weights);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_EXPORT_LOWWEIGHTS_H
