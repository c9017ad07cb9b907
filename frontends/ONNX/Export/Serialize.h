// Writes models with one weight in memory at a time.
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

/// Supplies elements that are written as `raw_data` of initializers without
/// data.
struct RawElements {
  /// Returns the number of bytes of a tensor's elements; nullopt if the tensor
  /// holds its elements.
  llvm::function_ref<std::optional<uint64_t>(const proto::TensorProto &)>
      countBytes;
  /// Returns the elements of a tensor. Called once per tensor, when the tensor
  /// is written.
  llvm::function_ref<HostTensor(const proto::TensorProto &)> get;
  /// If set, `serialize` leaves the elements out, and calls this function
  /// instead of `get` with the position in the stream where they belong.
  llvm::function_ref<void(const proto::TensorProto &, uint64_t)> leaveOut =
      nullptr;
};

/// Writes `model` as protobuf would, with `elements` in the initializers of its
/// graph. protobuf itself needs all elements in memory at once: 1 GiB for a
/// model of 1 GiB. `model` is unchanged afterwards. Returns false if `stream`
/// fails.
bool serialize(proto::ModelProto &model, const RawElements &elements,
               google::protobuf::io::ZeroCopyOutputStream &stream);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_EXPORT_SERIALIZE_H
