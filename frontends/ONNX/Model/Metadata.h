// Keys and readers of the metadata that exporters attach to nodes and values.
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

/// Key of a graph: the signature, which lists inputs and outputs of PyTorch's
/// program.
inline constexpr llvm::StringLiteral kSignature =
    "pkg.torch.export.ExportedProgram.graph_signature";

/// Key of a value: what the value is in PyTorch's program, such as PARAMETER or
/// BUFFER.
inline constexpr llvm::StringLiteral kInputKindKey =
    "pkg.torch.export.graph_signature.InputSpec.kind";

/// Key of a model that mpc trained: the flags that prepared the samples, like
/// "--normalize 0.5:0.2".
inline constexpr llvm::StringLiteral kPreparation = "mpc.preparation";

/// Key of a value that PyTorch's exporter folded: the names of the values that
/// it was folded from.
inline constexpr llvm::StringLiteral kFoldedFrom =
    "pkg.onnxscript.optimizer.folded_from";
/// Key of a node: the names of the modules around the call, from the outside
/// in, then the node's own name.
inline constexpr llvm::StringLiteral kNameScopes = "pkg.torch.onnx.name_scopes";

/// True for names that PyTorch's exporter makes up, like "val_12". Parameters
/// keep the program's names, like "fc1.weight".
inline bool isExportersName(llvm::StringRef name) {
  return name.starts_with("val_");
}

/// Key of a node: the classes of the modules in `kNameScopes`, then the
/// operator, such as "aten.relu.default".
inline constexpr llvm::StringLiteral kModuleClasses =
    "pkg.torch.onnx.class_hierarchy";

/// Returns the metadata entry `key` of a node or a value; empty if there is
/// none.
template <typename T>
llvm::StringRef findMetadata(const T &owner, llvm::StringRef key) {
  for (const proto::StringStringEntryProto &entry : owner.metadata_props())
    if (entry.key() == key)
      return entry.value();
  return {};
}

/// Returns the items of a metadata entry that is a list: "['', 'layers',
/// 'layers.1']" has the items "", "layers" and "layers.1".
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

/// Returns the name of the module whose code made the node, like
/// "layers.1.norm"; nullopt if the file has no metadata.
inline std::optional<llvm::StringRef> findModule(const proto::NodeProto &node) {
  auto scopes = readMetadataList(node, kNameScopes);
  if (scopes.size() < 2)
    return std::nullopt;
  return scopes[scopes.size() - 2];
}

/// Returns the name of the torch.nn layer that a BatchNormalization comes from,
/// like "features.1"; empty if the file has no metadata. Also empty for a call
/// of functional.batch_norm, because one module may have several such calls.
inline llvm::StringRef findLayer(const proto::NodeProto &node) {
  auto classes = readMetadataList(node, kModuleClasses);
  bool isLayer = classes.size() >= 2 && classes[classes.size() - 2].starts_with(
                                            "torch.nn.modules.batchnorm.");
  return isLayer ? findModule(node).value_or("") : "";
}

/// Returns the parameters of the program that the exporter folded `value` from.
inline llvm::SmallVector<llvm::StringRef>
readFoldedParameters(const proto::ValueInfoProto &value) {
  llvm::SmallVector<llvm::StringRef> names =
      readMetadataList(value, kFoldedFrom);
  llvm::erase_if(names, isExportersName);
  return names;
}

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_MODEL_METADATA_H
