// Includes ONNX's messages, which protobuf generates from onnx.proto. No other
// file includes the generated header.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_MODEL_ONNXPROTO_H
#define MPC_FRONTENDS_ONNX_MODEL_ONNXPROTO_H

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wall"
#pragma GCC diagnostic ignored "-Wextra"
#include "frontends/ONNX/Model/onnx.pb.h"
#pragma GCC diagnostic pop

namespace mpc::onnx_frontend {
namespace proto = ::mpc::onnx_proto;
} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_MODEL_ONNXPROTO_H
