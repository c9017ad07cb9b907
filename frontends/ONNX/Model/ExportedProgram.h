// Reads the metadata of PyTorch's exporter about the exported program: the
// names of its parameters, and the call that each node comes from.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_MODEL_EXPORTEDPROGRAM_H
#define MPC_FRONTENDS_ONNX_MODEL_EXPORTEDPROGRAM_H

#include "frontends/ONNX/Model/ONNXProto.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/StringSet.h"

#include <optional>

namespace mpc::onnx_frontend {

/// Metadata key of a value: the value's name in the program, like "p_fc_bias".
inline constexpr llvm::StringLiteral kOriginalName =
    "pkg.torch.onnx.original_node_name";

/// Metadata key of a node: the program's call that the node comes from.
inline constexpr llvm::StringLiteral kProgramCall = "pkg.torch.onnx.fx_node";

/// Prefixes of call targets: x.detach() and embedding.
inline constexpr llvm::StringLiteral kDetachTarget = "torch.ops.aten.detach.",
                                     kEmbeddingTarget =
                                         "torch.ops.aten.embedding.";

/// The program that a file was exported from, as far as the exporter's metadata
/// of the main graph tell. Everything is empty without metadata. The strings
/// live as long as the graph.
struct ExportedProgram {
  /// The inputs of the program by name: "p_layers_1_weight" with
  /// "layers.1.weight" for a parameter or buffer, "x" with "" for data.
  llvm::MapVector<llvm::StringRef, llvm::StringRef> signature;
  /// The targets of the signature, like "layers.1.weight".
  llvm::StringSet<> parameters, buffers;

  static ExportedProgram read(const proto::GraphProto &graph);
};

/// True if the program's input `source`, like "p_layers_1_weight", is a
/// parameter.
inline bool isParameter(llvm::StringRef source) {
  return source.starts_with("p_");
}

/// The program's call that a node comes from, as in "%conv =
/// call_function[target=torch.ops.aten.conv1d.default](args = (%x, %p_weight,
/// None, [1]), kwargs = {})".
struct ProgramCall {
  /// The name of the call's result, like "conv".
  llvm::StringRef name;
  llvm::StringRef target;
  llvm::SmallVector<llvm::StringRef> arguments;
  /// All names among the arguments, also within lists. `sources` are
  /// parameters, buffers and lifted constants; `results` are all other values.
  llvm::SmallVector<llvm::StringRef, 2> sources, results;
  bool hasKeywords = false;

  /// Returns the parameter or buffer that an argument names, like "p_weight";
  /// empty for a constant; nullopt if the argument is computed or missing.
  std::optional<llvm::StringRef> findSource(int argument) const;
};

/// Reads the call of `node`; every field is empty if the file has no metadata.
ProgramCall readCall(const proto::NodeProto &node);

/// Finds the argument of `call` that is operand `index` of a node of type `op`.
/// The exporter may make several nodes of one call. kConstantOperand if the
/// operand is the exporter's constant; nullopt if the call is unknown.
inline constexpr int kConstantOperand = -1;
std::optional<int> findArgument(const ProgramCall &call, llvm::StringRef op,
                                int index);

/// Finds the operands of products that come from addcmul calls without `value`.
llvm::StringSet<> findUnitMultiples(const proto::GraphProto &graph);

/// True if the exporter folded `value` from parameters only by calls that move
/// elements: a slice of a table, or rows of a table at constant indices.
/// `unitMultiples` are those of the file's main graph.
bool isMoved(const proto::ValueInfoProto &value, const ExportedProgram &program,
             const llvm::StringSet<> &unitMultiples);

/// True if the folded value may repeat an element of the parameter, as an index
/// does and a slice does not.
bool mayRepeat(const proto::ValueInfoProto &value);

/// Finds the row that an embedding never trains (padding_idx), such as 0 in
/// "aten.embedding.default(%p_weight, %ids, 0)"; nullopt if there is none.
std::optional<int64_t> findPaddingRow(const ProgramCall &call);

/// Adds the exporter's metadata to the new initializer `name`: it is the
/// parameter or buffer `source` of the program, or a constant if `source` is
/// empty.
void describeInitializer(proto::GraphProto &graph, llvm::StringRef name,
                         llvm::StringRef source);

/// Adds the exporter's metadata to the new initializer `name`: it is folded
/// from the file's initializer `source`.
void describeFolded(proto::GraphProto &graph, llvm::StringRef name,
                    llvm::StringRef source);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_MODEL_EXPORTEDPROGRAM_H
