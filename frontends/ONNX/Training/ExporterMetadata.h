// What exporters write beside the nodes and values of a model.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_TRAINING_EXPORTERMETADATA_H
#define MPC_FRONTENDS_ONNX_TRAINING_EXPORTERMETADATA_H

#include "frontends/ONNX/Model/Graph.h"

namespace mpc::onnx_frontend {

/// A node or a value, of which the file has a list of keys and texts.
using MetadataEntries =
    google::protobuf::RepeatedPtrField<proto::StringStringEntryProto>;

/// The text of `key`; empty where there is none.
llvm::StringRef findMetadata(const MetadataEntries &entries,
                             llvm::StringRef key);

/// What a message says of a first one of `count`.
std::string countOthers(size_t count);

/// The items of a list such as "['', 'layers', 'layers.1']".
llvm::SmallVector<llvm::StringRef>
readMetadataList(const MetadataEntries &entries, llvm::StringRef key);

/// Of a value, the names of what PyTorch's exporter computed it from.
inline constexpr llvm::StringLiteral kFoldedFrom =
    "pkg.onnxscript.optimizer.folded_from";
/// Of a node, the modules it comes from, from the outside in, and itself.
inline constexpr llvm::StringLiteral kNameScopes = "pkg.torch.onnx.name_scopes";

/// Whether the exporter made up the name, as it numbers its own values; those
/// of a program's parameters are the program's.
inline bool isExportersName(llvm::StringRef name) {
  return name.starts_with("val_");
}

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_TRAINING_EXPORTERMETADATA_H
