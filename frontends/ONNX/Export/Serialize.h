// Models as bytes, one weight in memory at a time.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_EXPORT_SERIALIZE_H
#define MPC_FRONTENDS_ONNX_EXPORT_SERIALIZE_H

#include "frontends/ONNX/Model/HostTensor.h"
#include "frontends/ONNX/Model/ONNXProto.h"

#include "llvm/ADT/STLFunctionalExtras.h"

#include <google/protobuf/io/zero_copy_stream.h>
#include <optional>

namespace mpc::onnx_frontend {

/// Elements that are written as `raw_data` of an initializer that has none.
struct RawElements {
  /// How many bytes they are; none where the tensor has its own elements.
  llvm::function_ref<std::optional<uint64_t>(const proto::TensorProto &)>
      countBytes;
  /// The elements, asked for once, when it is the tensor's turn.
  llvm::function_ref<HostTensor(const proto::TensorProto &)> get;
};

/// Writes the bytes that protobuf writes for `model` with `elements` in the
/// initializers of its graph. protobuf itself wants them all in memory at once:
/// of a model of 1 GiB, 1 GiB. `model` is as it was afterwards. False where
/// `stream` fails.
bool serialize(proto::ModelProto &model, const RawElements &elements,
               google::protobuf::io::ZeroCopyOutputStream &stream);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_EXPORT_SERIALIZE_H
