// Declares the table of op builders: one entry per op and range of opsets.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_IMPORTER_OPTABLE_H
#define MPC_FRONTENDS_ONNX_IMPORTER_OPTABLE_H

#include "frontends/ONNX/Importer/NodeImporter.h"

namespace mpc::onnx_frontend {

/// Describes how an op is imported in a range of opsets. The importer checks
/// the numbers of inputs and outputs before it calls `build`, so inputs 0 to
/// `minInputs` - 1 are present.
struct OpEntry {
  llvm::StringRef domain;
  llvm::StringRef name;
  int64_t since; ///< first opset of the domain with these semantics
  int64_t until; ///< last opset of the domain with these semantics
  unsigned minInputs, maxInputs, maxOutputs;
  /// Builds the IR of a node. Null if the IR has no op for it: such a node can
  /// only fold, from inputs known at import.
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
llvm::ArrayRef<OpEntry> getIntegerProductOps();
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
llvm::ArrayRef<OpEntry> getWindowGradOps();
llvm::ArrayRef<OpEntry> getTrainingOps();
llvm::ArrayRef<OpEntry> getOptimizerOps();
llvm::ArrayRef<OpEntry> getLossScalingOps();
llvm::ArrayRef<OpEntry> getFusedOps();
llvm::ArrayRef<OpEntry> getFusedAttentionOps();
llvm::ArrayRef<OpEntry> getGroupQueryOps();
llvm::ArrayRef<OpEntry> getFlexAttentionOps();

/// All entries, family by family.
std::vector<OpEntry> getAllOps();

/// The entry for an op at opset `opset` of its domain, or null.
const OpEntry *findOp(llvm::StringRef domain, llvm::StringRef name,
                      int64_t opset);

/// The entry for a node's op at its opset, or null. An op that ONNX's own
/// domain lacks is read as the com.microsoft op of the same name, because
/// compilers for small devices omit domains.
const OpEntry *findEntry(const proto::NodeProto &node, const Model &model);

/// If the file puts an op into ONNX's own domain that ONNX does not define,
/// names the op that the importer takes it for: "com.microsoft.GeluGrad", or
/// "PyTorch's" for MSELoss. Empty for other ops.
std::string describeMisplaced(const proto::NodeProto &node,
                              const OpEntry &entry);

/// True if any opset has an entry for the op.
bool isKnownOp(llvm::StringRef domain, llvm::StringRef name);

/// Suggests an opset for a known op: " (not in opset 5; export with
/// opset_version=7)".
std::string describeOpsets(llvm::StringRef domain, llvm::StringRef name,
                           int64_t opset);

/// The remedy for an op that no graph compiler can support, such as " (it runs
/// Python; export the model with ...)". Empty for other ops.
std::string describeRemedy(const proto::NodeProto &node);

/// Checks the node's numbers of inputs and outputs against the entry. Reports
/// an error if the entry does not allow them.
mlir::LogicalResult checkArity(NodeImporter &node, const OpEntry &entry);

/// Computes the outputs of a node whose inputs are known at import, or whose
/// outputs depend on shapes alone. Returns false if the node must be imported
/// as an op.
mlir::FailureOr<bool> foldNode(NodeImporter &node);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_IMPORTER_OPTABLE_H
