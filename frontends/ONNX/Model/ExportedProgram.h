// Reads the notes of PyTorch's exporter about the program that it exported: the
// names of its parameters, and the call, such as a module's, that each node
// comes from.
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

/// Of a value, what the calls of the program have for it, such as "p_fc_bias".
inline constexpr llvm::StringLiteral kOriginalName =
    "pkg.torch.onnx.original_node_name";

/// Of a node, the call of the program that it comes from.
inline constexpr llvm::StringLiteral kProgramCall = "pkg.torch.onnx.fx_node";

/// What starts the target of x.detach(), of an embedding.
inline constexpr llvm::StringLiteral kDetachTarget = "torch.ops.aten.detach.",
                                     kEmbeddingTarget =
                                         "torch.ops.aten.embedding.";

/// The program's inputs by what the calls have for them: "p_layers_1_weight"
/// with "layers.1.weight" for a parameter or buffer, and "" for data.
llvm::MapVector<llvm::StringRef, llvm::StringRef>
readSignature(const proto::GraphProto &graph);

/// Whether the program has `source`, such as "p_layers_1_weight", as parameter.
inline bool isParameter(llvm::StringRef source) {
  return source.starts_with("p_");
}

/// The call that a node comes from, as in
/// "%conv = call_function[target=torch.ops.aten.conv1d.default](args = (%x,
/// %p_weight, None, [1]), kwargs = {})".
struct ProgramCall {
  /// What other calls have for the result, such as "conv".
  llvm::StringRef name;
  llvm::StringRef target;
  llvm::SmallVector<llvm::StringRef> arguments;
  /// The parameters and buffers among all arguments, also within lists, and
  /// what else is not constant.
  llvm::SmallVector<llvm::StringRef, 2> sources, results;
  bool hasKeywords = false;

  /// What an argument is: a parameter or a buffer such as "p_weight"; empty for
  /// a constant; nothing where it is computed or is not there.
  std::optional<llvm::StringRef> findSource(int argument) const;
};

/// Nothing of the call is known where the file does not say it.
ProgramCall readCall(const proto::NodeProto &node);

/// Which argument of `call` operand `index` of a node of type `op` is, of which
/// the exporter may make several nodes: kConstantOperand where it is none, and
/// nothing where that is not known.
inline constexpr int kConstantOperand = -1;
std::optional<int> findArgument(const ProgramCall &call, llvm::StringRef op,
                                int index);

/// The names of the program's parameters, and of its buffers; and of what calls
/// of addcmul without a factor multiply.
struct ProgramNames {
  llvm::StringSet<> parameters, buffers, unitMultiples;
};
ProgramNames readNames(const proto::GraphProto &graph);

/// Whether the exporter computed the value from parameters by calls that give
/// elements of their first operand and nothing else, as a slice of a table
/// does, or its rows at the places of a buffer.
bool isMoved(const proto::ValueInfoProto &value, const ProgramNames &names);

/// Whether one of the calls that the exporter computed the value by may give an
/// element of its operand several times, as an index does and a slice does not.
bool mayRepeat(const proto::ValueInfoProto &value);

/// The row of its table that an embedding never trains, the program's
/// padding_idx: "aten.embedding.default(%p_weight, %ids, 0)".
std::optional<int64_t> findPaddingRow(const ProgramCall &call);

/// Gives the added initializer `name` the metadata that PyTorch's exporter
/// writes of initializers: it is the parameter or buffer `source` of the
/// program, or a constant where `source` is empty.
void describeInitializer(proto::GraphProto &graph, llvm::StringRef name,
                         llvm::StringRef source);

/// The same for an initializer that is computed from the initializer `source`
/// of the file.
void describeFolded(proto::GraphProto &graph, llvm::StringRef name,
                    llvm::StringRef source);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_MODEL_EXPORTEDPROGRAM_H
