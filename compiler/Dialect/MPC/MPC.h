// The mpc dialect: the training graph.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_DIALECT_MPC_MPC_H
#define MPC_COMPILER_DIALECT_MPC_MPC_H

#include "compiler/Dialect/MPC/KernelKind.h"
#include "compiler/Dialect/MPC/Words.h"
#include "compiler/Interfaces/BodyOpInterface.h"
#include "compiler/Interfaces/ContractionOpInterface.h"
#include "compiler/Interfaces/IndexedOpInterface.h"
#include "compiler/Interfaces/LayoutOpInterface.h"
#include "compiler/Interfaces/OptimizerOpInterface.h"
#include "compiler/Interfaces/PrecisionOpInterface.h"
#include "compiler/Interfaces/ReductionOpInterface.h"
#include "compiler/Interfaces/RegionOpInterface.h"
#include "compiler/Interfaces/ScatterOpInterface.h"

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/IR/RegionKindInterface.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace mpc {

/// Whether `actual` result types fit `inferred` ones: equal shapes; element
/// types equal, or both float, since the type a result is stored in is the
/// Precision stage's decision.
bool areCompatibleTypes(mlir::TypeRange inferred, mlir::TypeRange actual);

/// Of a value of the dialect, which is always a ranked tensor: its type, the
/// shape, the type of its elements.
inline mlir::RankedTensorType typeOf(mlir::Value value) {
  return llvm::cast<mlir::RankedTensorType>(value.getType());
}
inline llvm::ArrayRef<int64_t> shapeOf(mlir::Value value) {
  return typeOf(value).getShape();
}
inline mlir::Type elementOf(mlir::Value value) {
  return typeOf(value).getElementType();
}

/// The shape two operands broadcast to by NumPy's rules, or failure.
mlir::FailureOr<llvm::SmallVector<int64_t>>
broadcastShapes(llvm::ArrayRef<int64_t> lhs, llvm::ArrayRef<int64_t> rhs);

/// The strides of a slice or pad, one per axis: 1 where it has none.
llvm::SmallVector<int64_t> fillStrides(llvm::ArrayRef<int64_t> strides,
                                       size_t rank);

/// Whether a slice or pad with these strides has neighbours side by side.
inline bool isDense(llvm::ArrayRef<int64_t> strides) {
  return llvm::all_of(strides, [](int64_t stride) { return stride == 1; });
}

/// Names of the attributes functions carry on arguments and results; see the
/// dialect's description.
inline constexpr llvm::StringLiteral kStateAttr = "mpc.state";
inline constexpr llvm::StringLiteral kInputAttr = "mpc.input";
inline constexpr llvm::StringLiteral kBatchAxisAttr = "mpc.batch_axis";
inline constexpr llvm::StringLiteral kUpdatesAttr = "mpc.updates";
inline constexpr llvm::StringLiteral kOutputAttr = "mpc.output";
inline constexpr llvm::StringLiteral kRoleAttr = "mpc.role";
inline constexpr llvm::StringLiteral kPhaseAttr = "mpc.phase";
/// On a module: what it is compiled for; see getTarget.
inline constexpr llvm::StringLiteral kTargetAttr = "mpc.target";
/// On a function: it is a kernel, of the kind #mpc.kernel<...>.
inline constexpr llvm::StringLiteral kKernelAttr = "mpc.kernel";
/// On an emitted kernel for a GPU: the threads of its blocks, an i32.
inline constexpr llvm::StringLiteral kThreadsAttr = "mpc.threads";
/// On an argument that is trained whatever its variable is called, while
/// rotary embeddings are looked for: its elements are not known.
inline constexpr llvm::StringLiteral kTrainedAttr = "mpc.trained";

/// The most classes mpc.accuracy tells apart: positions that are exact in f32.
inline constexpr int64_t kMaxAccuracyClasses = int64_t(1) << 24;

/// Fails where the values of a constant were left out of the text that it was
/// read from: any other value for them would be a wrong one.
llvm::LogicalResult verifyHasData(mlir::Operation *op,
                                  mlir::ElementsAttr value);

/// The name of the ONNX node an op comes from ("conv1", "conv1#dx"), from its
/// location; empty where it has none.
llvm::StringRef getNodeName(mlir::Operation *op);

/// Of normalisations, whose operands are the input, the scale and the bias, and
/// of their gradients.
template <typename ConcreteOp>
class NormalizationTrait
    : public mlir::OpTrait::TraitBase<ConcreteOp, NormalizationTrait> {};
template <typename ConcreteOp>
class NormalizationGradTrait
    : public mlir::OpTrait::TraitBase<ConcreteOp, NormalizationGradTrait> {};

namespace formulas {
/// What the row of Formulas.def says of an op in 16 bits.
OpPolicy getDefaultPolicy(llvm::StringRef op);
} // namespace formulas

} // namespace mpc

#include "compiler/Dialect/MPC/MPCDialect.h.inc"

#include "compiler/Dialect/MPC/MPCEnums.h.inc"

#define GET_ATTRDEF_CLASSES
#include "compiler/Dialect/MPC/MPCAttrs.h.inc"

namespace mpc {

/// The phase of training that an op stands in; forward where it says nothing.
inline Phase getPhase(mlir::Operation *op) {
  auto phase = op->getAttrOfType<PhaseAttr>(kPhaseAttr);
  return phase ? phase.getValue() : Phase::Forward;
}
/// Whether `phase` belongs to the forward pass, which ends with the loss.
inline bool isForward(Phase phase) {
  return phase == Phase::Forward || phase == Phase::Loss;
}
inline void setPhase(mlir::Operation *op, Phase phase) {
  op->setAttr(kPhaseAttr, PhaseAttr::get(op->getContext(), phase));
}
/// Gives `to` the phase of the op that it is built for.
inline void copyPhase(mlir::Operation *from, mlir::Operation *to) {
  if (mlir::Attribute phase = from->getAttr(kPhaseAttr))
    to->setAttr(kPhaseAttr, phase);
}

/// The axis of activations that counts channels.
inline int64_t getChannelAxis(Layout layout, int64_t rank) {
  return layout == Layout::NHWC ? rank - 1 : 1;
}

/// The kind of a function that is a kernel; nothing where it is none.
inline std::optional<KernelKind> getKernelKind(mlir::Operation *function) {
  auto kind = function->getAttrOfType<KernelKindAttr>(kKernelAttr);
  return kind ? std::optional(kind.getValue()) : std::nullopt;
}

} // namespace mpc

#define GET_OP_CLASSES
#include "compiler/Dialect/MPC/MPCOps.h.inc"

namespace mpc {

/// What `value` is a reshape of, or a reshape of a reshape and so on; `value`
/// itself where it is none.
inline mlir::Value skipReshapes(mlir::Value value) {
  while (auto reshape = value.getDefiningOp<ReshapeOp>())
    value = reshape.getInput();
  return value;
}

/// The axis that a slice takes part of; nothing where that is none, or several.
std::optional<int64_t> findSlicedAxis(SliceOp slice);

} // namespace mpc

#endif // MPC_COMPILER_DIALECT_MPC_MPC_H
