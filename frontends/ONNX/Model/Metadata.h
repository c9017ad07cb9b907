// What exporters write beside nodes and values.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_MODEL_METADATA_H
#define MPC_FRONTENDS_ONNX_MODEL_METADATA_H

#include "frontends/ONNX/Model/ONNXProto.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringRef.h"

#include <optional>

namespace mpc::onnx_frontend {

/// Of a value, what it was in PyTorch's program: PARAMETER, BUFFER, ...
inline constexpr llvm::StringLiteral kInputKindKey =
    "pkg.torch.export.graph_signature.InputSpec.kind";

/// Metadata of a model that mpc trained: the flags that prepared its samples,
/// such as "--normalize 0.5:0.2".
inline constexpr llvm::StringLiteral kPreparation = "mpc.preparation";

/// Of a value, the names of what PyTorch's exporter computed it from.
inline constexpr llvm::StringLiteral kFoldedFrom =
    "pkg.onnxscript.optimizer.folded_from";
/// Of a node, the modules it comes from, from the outside in, and itself.
inline constexpr llvm::StringLiteral kNameScopes = "pkg.torch.onnx.name_scopes";

/// True for names that PyTorch's exporter makes up, such as "val_12";
/// parameters have the names of the program, such as "fc1.weight".
inline bool isExportersName(llvm::StringRef name) {
  return name.starts_with("val_");
}

/// Of a node, the classes of these modules, and what it computes.
inline constexpr llvm::StringLiteral kModuleClasses =
    "pkg.torch.onnx.class_hierarchy";

/// The entry `key` in the metadata of a node or a value; empty without one.
template <typename T>
llvm::StringRef findMetadata(const T &owner, llvm::StringRef key) {
  for (const proto::StringStringEntryProto &entry : owner.metadata_props())
    if (entry.key() == key)
      return entry.value();
  return {};
}

/// The items of the entry `key`, a list such as "['', 'layers', 'layers.1']".
template <typename T>
llvm::SmallVector<llvm::StringRef> readMetadataList(const T &owner,
                                                    llvm::StringRef key) {
  llvm::SmallVector<llvm::StringRef> items;
  llvm::StringRef list = findMetadata(owner, key);
  if (list.empty())
    return items;
  list.split(items, ',');
  for (llvm::StringRef &item : items)
    item = item.trim("[]'\" ");
  return items;
}

/// The module that the node belongs to, such as "layers.1.norm"; nothing where
/// the exporter does not say it.
inline std::optional<llvm::StringRef> findModule(const proto::NodeProto &node) {
  auto scopes = readMetadataList(node, kNameScopes);
  if (scopes.size() < 2)
    return std::nullopt;
  return scopes[scopes.size() - 2];
}

/// The layer of PyTorch's that a BatchNormalization is a call of, such as
/// "features.1"; empty where the exporter does not say it, and for calls of
/// functional.batch_norm, of which a module may make several.
inline llvm::StringRef findLayer(const proto::NodeProto &node) {
  auto classes = readMetadataList(node, kModuleClasses);
  bool isLayer = classes.size() >= 2 && classes[classes.size() - 2].starts_with(
                                            "torch.nn.modules.batchnorm.");
  return isLayer ? findModule(node).value_or("") : "";
}

/// Parameters of the program that the exporter computed a value from.
inline llvm::SmallVector<llvm::StringRef>
readFoldedParameters(const proto::ValueInfoProto &value) {
  llvm::SmallVector<llvm::StringRef> names =
      readMetadataList(value, kFoldedFrom);
  llvm::erase_if(names, isExportersName);
  return names;
}

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_MODEL_METADATA_H
