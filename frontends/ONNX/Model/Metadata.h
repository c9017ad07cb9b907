// What exporters write beside nodes and values.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_MODEL_METADATA_H
#define MPC_FRONTENDS_ONNX_MODEL_METADATA_H

#include "frontends/ONNX/Model/ONNXProto.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

namespace mpc::onnx_frontend {

/// Of a value, what it was in PyTorch's program: PARAMETER, BUFFER, ...
inline constexpr llvm::StringLiteral kInputKindKey =
    "pkg.torch.export.graph_signature.InputSpec.kind";

/// The entry `key` in the metadata of a node or a value; empty without one.
template <typename T>
llvm::StringRef findMetadata(const T &owner, llvm::StringRef key) {
  for (const proto::StringStringEntryProto &entry : owner.metadata_props())
    if (entry.key() == key)
      return entry.value();
  return {};
}

/// The items of a list such as "['', 'layers', 'layers.1']".
inline llvm::SmallVector<llvm::StringRef> splitList(llvm::StringRef list) {
  llvm::SmallVector<llvm::StringRef> items;
  list.split(items, ',');
  for (llvm::StringRef &item : items)
    item = item.trim("[]'\" ");
  return items;
}

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_MODEL_METADATA_H
