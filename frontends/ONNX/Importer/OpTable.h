// Which builder imports a node: one entry an op and range of opsets.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_IMPORTER_OPTABLE_H
#define MPC_FRONTENDS_ONNX_IMPORTER_OPTABLE_H

#include "frontends/ONNX/Importer/NodeImporter.h"

namespace mpc::onnx_frontend {

/// How an op of a range of opsets is imported. The counts are checked before
/// the builder runs: inputs below `minInputs` are present.
struct OpEntry {
  llvm::StringRef domain;
  llvm::StringRef name;
  int64_t since; ///< first opset of the domain with these semantics
  int64_t until; ///< last one
  unsigned minInputs, maxInputs, maxOutputs;
  /// Null: the op is folded where its inputs are known, and has none in the IR.
  mlir::LogicalResult (*build)(NodeImporter &);
};

inline constexpr int64_t kNoEnd = INT64_MAX;
inline constexpr unsigned kAnyNumber = UINT_MAX;
inline constexpr llvm::StringLiteral kMicrosoft = "com.microsoft";
inline constexpr llvm::StringLiteral kPreview = "ai.onnx.preview";
inline constexpr llvm::StringLiteral kTraining = "ai.onnx.preview.training";

llvm::ArrayRef<OpEntry> getAssembledOps();
llvm::ArrayRef<OpEntry> getAtenOps();
llvm::ArrayRef<OpEntry> getDenseLossOps();
llvm::ArrayRef<OpEntry> getElementwiseOps();
llvm::ArrayRef<OpEntry> getMovementOps();
llvm::ArrayRef<OpEntry> getIndexedOps();
llvm::ArrayRef<OpEntry> getOverlayOps();
llvm::ArrayRef<OpEntry> getPoolingOps();
llvm::ArrayRef<OpEntry> getPositionOps();
llvm::ArrayRef<OpEntry> getPowerOps();
llvm::ArrayRef<OpEntry> getGridOps();
llvm::ArrayRef<OpEntry> getRoiPoolingOps();
llvm::ArrayRef<OpEntry> getSampledOps();
llvm::ArrayRef<OpEntry> getTopKOps();
llvm::ArrayRef<OpEntry> getFourierOps();
llvm::ArrayRef<OpEntry> getRandomOps();
llvm::ArrayRef<OpEntry> getSelectedOps();
llvm::ArrayRef<OpEntry> getQuantizedOps();
llvm::ArrayRef<OpEntry> getReductionOps();
llvm::ArrayRef<OpEntry> getResizeOps();
llvm::ArrayRef<OpEntry> getEinsumOps();
llvm::ArrayRef<OpEntry> getSequenceOps();
llvm::ArrayRef<OpEntry> getShapeOps();
llvm::ArrayRef<OpEntry> getContractionOps();
llvm::ArrayRef<OpEntry> getNormalizationOps();
llvm::ArrayRef<OpEntry> getLayerNormOps();
llvm::ArrayRef<OpEntry> getLinearAttentionOps();
llvm::ArrayRef<OpEntry> getAttentionOps();
llvm::ArrayRef<OpEntry> getLoopOps();
llvm::ArrayRef<OpEntry> getScanOps();
llvm::ArrayRef<OpEntry> getConditionalOps();
llvm::ArrayRef<OpEntry> getRecurrentOps();
llvm::ArrayRef<OpEntry> getRecurrentGradOps();
llvm::ArrayRef<OpEntry> getLossOps();
llvm::ArrayRef<OpEntry> getGradientOps();
llvm::ArrayRef<OpEntry> getTrainingOps();
llvm::ArrayRef<OpEntry> getOptimizerOps();
llvm::ArrayRef<OpEntry> getLossScalingOps();
llvm::ArrayRef<OpEntry> getFusedOps();
llvm::ArrayRef<OpEntry> getFusedAttentionOps();
llvm::ArrayRef<OpEntry> getGroupQueryOps();
llvm::ArrayRef<OpEntry> getFlexAttentionOps();

/// All entries, family by family.
std::vector<OpEntry> getAllOps();

/// The entry for an op at that opset of its domain, or null.
const OpEntry *findOp(llvm::StringRef domain, llvm::StringRef name,
                      int64_t opset);

/// The entry for a node's op at its opset; null where there is none. An op that
/// ONNX's own domain does not have, and com.microsoft does, is taken for that,
/// as tools that compile for small devices leave domains out.
const OpEntry *findEntry(const proto::NodeProto &node, const Model &model);

/// What an op in ONNX's own domain is taken for where that does not have it:
/// "com.microsoft.GeluGrad", "MSELoss as in PyTorch"; empty for others.
std::string describeMisplaced(const proto::NodeProto &node,
                              const OpEntry &entry);

/// Whether some opset has an entry for the op.
bool isKnownOp(llvm::StringRef domain, llvm::StringRef name);

/// " (not in opset 5; export with opset_version=7)", of a known op.
std::string describeOpsets(llvm::StringRef domain, llvm::StringRef name,
                           int64_t opset);

/// " (runs Python; export the model with ...)": what to do about an op that no
/// compiler of graphs can have; empty for others.
std::string describeRemedy(const proto::NodeProto &node);

/// Whether the node has as many inputs and outputs as the entry allows; reports
/// it where it has not.
mlir::LogicalResult checkArity(NodeImporter &node, const OpEntry &entry);

/// Computes the outputs of a node whose inputs are known at import, or whose
/// outputs depend on shapes alone. False: the node is to be imported as an op.
mlir::FailureOr<bool> foldNode(NodeImporter &node);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_IMPORTER_OPTABLE_H
