// The padding of an embedding, where an exporter has not written it.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_REPAIR_LOSTPADDING_H
#define MPC_FRONTENDS_ONNX_REPAIR_LOSTPADDING_H

#include "frontends/ONNX/Model/Graph.h"

#include <optional>

namespace mpc::onnx_frontend {

/// The row of its table that a Gather of PyTorch's older exporter never trains,
/// where the table, an initializer of rank 2, has one row of zeros among
/// others: nn.Embedding(padding_idx=...) starts with that, and the file does
/// not say it.
std::optional<int64_t> findLostPadding(const Graph &graph,
                                       const proto::NodeProto &node);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_REPAIR_LOSTPADDING_H
