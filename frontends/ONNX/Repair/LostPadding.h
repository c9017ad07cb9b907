// Finds the padding row of an embedding in files without the padding index.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_REPAIR_LOSTPADDING_H
#define MPC_FRONTENDS_ONNX_REPAIR_LOSTPADDING_H

#include "frontends/ONNX/Model/Graph.h"

#include <optional>

namespace mpc::onnx_frontend {

/// Finds the padding row of an embedding, which is never trained, in files of
/// PyTorch's older exporter. nn.Embedding(padding_idx=...) starts with zeros in
/// the padding row, but the file omits padding_idx. Returns the only row of
/// zeros in the table that the Gather `node` reads, an initializer of rank 2;
/// nullopt if there are none or several.
std::optional<int64_t> findLostPadding(const Graph &graph,
                                       const proto::NodeProto &node);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_REPAIR_LOSTPADDING_H
