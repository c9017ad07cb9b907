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

/// Metadata key of a value: the value's name in the exported program, like
/// "p_fc_bias".
inline constexpr llvm::StringLiteral kOriginalName =
    "pkg.torch.onnx.original_node_name";

/// Metadata key of a node: the call in the exported program that the node comes
/// from.
inline constexpr llvm::StringLiteral kProgramCall = "pkg.torch.onnx.fx_node";

/// Prefixes of the targets of calls: x.detach() and nn.functional.embedding.
inline constexpr llvm::StringLiteral kDetachTarget = "torch.ops.aten.detach.",
                                     kEmbeddingTarget =
                                         "torch.ops.aten.embedding.";

/// The PyTorch program behind a file, as described by the exporter's metadata
/// in the main graph. All fields are empty if the file has no metadata. The
/// strings live as long as the graph.
struct ExportedProgram {
  /// The inputs of the program by name: "p_layers_1_weight" with
  /// "layers.1.weight" for a parameter or buffer, "x" with "" for data.
  llvm::MapVector<llvm::StringRef, llvm::StringRef> signature;
  /// The targets in the signature, like "layers.1.weight": the names that
  /// parameters and buffers have in PyTorch.
  llvm::StringSet<> parameters, buffers;

  static ExportedProgram read(const proto::GraphProto &graph);
};

/// True if the program's input `source`, like "p_layers_1_weight", is a
/// parameter.
inline bool isParameter(llvm::StringRef source) {
  return source.starts_with("p_");
}

/// The call in the exported program behind a node, parsed. The text in the file
/// is "%conv : call_function[target=torch.ops.aten.conv1d.default](args = (%x,
/// %p_weight, None, [1]), kwargs = {})".
struct ProgramCall {
  /// The name of the call's result, like "conv".
  llvm::StringRef name;
  llvm::StringRef target;
  llvm::SmallVector<llvm::StringRef> arguments;
  /// All names among the call's arguments, also within lists. `sources` are
  /// parameters, buffers and constants of the program, like "p_weight";
  /// `results` are all other values, like "x".
  llvm::SmallVector<llvm::StringRef, 2> sources, results;
  bool hasKeywords = false;

  /// Returns the parameter or buffer that argument number `argument` of the
  /// call names, like "p_weight". Empty if the argument is a constant; nullopt
  /// if the argument is computed or missing.
  std::optional<llvm::StringRef> findSource(int argument) const;
};

/// Reads the call that `node` comes from. All fields are empty if the node has
/// no metadata.
ProgramCall readCall(const proto::NodeProto &node);

/// Returns the index of the call's argument that input `index` of a node of
/// type `op` reads; `call` is the call that the node comes from. One call may
/// become several nodes. Returns kConstantOperand if the input is a constant
/// that the exporter made; nullopt if the call is unknown.
inline constexpr int kConstantOperand = -1;
std::optional<int> findArgument(const ProgramCall &call, llvm::StringRef op,
                                int index);

/// Finds initializers that may be a parameter times 1: the inputs of each Mul
/// that comes from a call addcmul(b, w, x) without `value`. The exporter folds
/// value * w, which here is w.
llvm::StringSet<> findUnitMultiples(const proto::GraphProto &graph);

/// True if the exporter folded `value` from parameters by calls that only move
/// elements: a slice of a table, or rows of a table at constant indices.
/// `unitMultiples` is the result of findUnitMultiples for the main graph.
bool isMoved(const proto::ValueInfoProto &value, const ExportedProgram &program,
             const llvm::StringSet<> &unitMultiples);

/// True if `value`, folded from a parameter, may contain an element of the
/// parameter twice. Indexing may repeat elements; slicing does not.
bool mayRepeat(const proto::ValueInfoProto &value);

/// Finds the row that an embedding never trains (padding_idx), such as 0 in
/// "aten.embedding.default(%p_weight, %ids, 0)"; nullopt if there is none.
std::optional<int64_t> findPaddingRow(const ProgramCall &call);

/// Writes metadata for the new initializer `name`, as the exporter would:
/// `name` is the program's parameter or buffer `source`, like "p_fc_bias", or a
/// constant if `source` is empty.
void describeInitializer(proto::GraphProto &graph, llvm::StringRef name,
                         llvm::StringRef source);

/// Writes metadata for the new initializer `name`, as the exporter would:
/// `name` was folded from the file's initializer `source`.
void describeFolded(proto::GraphProto &graph, llvm::StringRef name,
                    llvm::StringRef source);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_MODEL_EXPORTEDPROGRAM_H
