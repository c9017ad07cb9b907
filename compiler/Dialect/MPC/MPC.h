// The mpc dialect, whose ops form the training graph. Declares its attributes
// and ops, and helpers on shapes, phases and locations.
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

/// True if the `actual` result types fit the `inferred` types. Shapes must be
/// equal. Element types must be equal or both float, since the Precision stage
/// decides in which float type a result is stored.
bool areCompatibleTypes(mlir::TypeRange inferred, mlir::TypeRange actual);

/// The type, the shape and the element type of a value of the dialect. Every
/// value is a ranked tensor.
inline mlir::RankedTensorType typeOf(mlir::Value value) {
  return llvm::cast<mlir::RankedTensorType>(value.getType());
}
inline llvm::ArrayRef<int64_t> shapeOf(mlir::Value value) {
  return typeOf(value).getShape();
}
inline mlir::Type elementOf(mlir::Value value) {
  return typeOf(value).getElementType();
}

/// Returns the shape to which two operands broadcast by NumPy's rules; failure
/// if they do not broadcast.
mlir::FailureOr<llvm::SmallVector<int64_t>>
broadcastShapes(llvm::ArrayRef<int64_t> lhs, llvm::ArrayRef<int64_t> rhs);

/// Returns the strides of a slice or pad, one per axis. If `strides` is empty,
/// all are 1.
llvm::SmallVector<int64_t> fillStrides(llvm::ArrayRef<int64_t> strides,
                                       size_t rank);

/// True if all strides of a slice or pad are 1.
inline bool isDense(llvm::ArrayRef<int64_t> strides) {
  return llvm::all_of(strides, [](int64_t stride) { return stride == 1; });
}

/// Attributes of function arguments and results; see the dialect's description.
inline constexpr llvm::StringLiteral kStateAttr = "mpc.state";
inline constexpr llvm::StringLiteral kInputAttr = "mpc.input";
inline constexpr llvm::StringLiteral kBatchAxisAttr = "mpc.batch_axis";
inline constexpr llvm::StringLiteral kUpdatesAttr = "mpc.updates";
inline constexpr llvm::StringLiteral kOutputAttr = "mpc.output";
inline constexpr llvm::StringLiteral kRoleAttr = "mpc.role";
inline constexpr llvm::StringLiteral kPhaseAttr = "mpc.phase";
/// On a module: the machine that the module is compiled for; see getTarget.
inline constexpr llvm::StringLiteral kTargetAttr = "mpc.target";
/// On a function that is a kernel: its kind, #mpc.kernel<...>.
inline constexpr llvm::StringLiteral kKernelAttr = "mpc.kernel";
/// On an emitted GPU kernel: the threads per block, an i32.
inline constexpr llvm::StringLiteral kThreadsAttr = "mpc.threads";
/// On an argument whose variable --train selects, while rotary embeddings are
/// recognized: the elements of a trained value are not known.
inline constexpr llvm::StringLiteral kTrainedAttr = "mpc.trained";

/// The most classes mpc.accuracy can tell apart: class positions must be exact
/// in f32.
inline constexpr int64_t kMaxAccuracyClasses = int64_t(1) << 24;

/// Fails if the values of a constant were elided in the text that it was parsed
/// from. Any substitute would be wrong.
llvm::LogicalResult verifyHasData(mlir::Operation *op,
                                  mlir::ElementsAttr value);

/// Returns the name of the ONNX node that `op` comes from ("conv1",
/// "conv1#dx"), read from its location; empty if the location has no name.
llvm::StringRef getNodeName(mlir::Operation *op);

/// Traits of normalisations, whose operands are the input, the scale and the
/// bias, and of their gradients.
template <typename ConcreteOp>
class NormalizationTrait
    : public mlir::OpTrait::TraitBase<ConcreteOp, NormalizationTrait> {};
template <typename ConcreteOp>
class NormalizationGradTrait
    : public mlir::OpTrait::TraitBase<ConcreteOp, NormalizationGradTrait> {};

namespace formulas {
/// Returns the precision policy in the row of Formulas.def for `op`.
OpPolicy getDefaultPolicy(llvm::StringRef op);
} // namespace formulas

} // namespace mpc

#include "compiler/Dialect/MPC/MPCDialect.h.inc"

#include "compiler/Dialect/MPC/MPCEnums.h.inc"

#define GET_ATTRDEF_CLASSES
#include "compiler/Dialect/MPC/MPCAttrs.h.inc"

namespace mpc {

/// Returns the training phase of `op`; forward if `op` has no phase.
inline Phase getPhase(mlir::Operation *op) {
  auto phase = op->getAttrOfType<PhaseAttr>(kPhaseAttr);
  return phase ? phase.getValue() : Phase::Forward;
}
/// True if `phase` belongs to the forward pass, which ends with the loss.
inline bool isForward(Phase phase) {
  return phase == Phase::Forward || phase == Phase::Loss;
}
inline void setPhase(mlir::Operation *op, Phase phase) {
  op->setAttr(kPhaseAttr, PhaseAttr::get(op->getContext(), phase));
}
/// Gives `to` the phase of `from`, the op that `to` is built for.
inline void copyPhase(mlir::Operation *from, mlir::Operation *to) {
  if (mlir::Attribute phase = from->getAttr(kPhaseAttr))
    to->setAttr(kPhaseAttr, phase);
}

/// Returns the channel axis of activations.
inline int64_t getChannelAxis(Layout layout, int64_t rank) {
  return layout == Layout::NHWC ? rank - 1 : 1;
}

/// Returns the kernel kind of `function`; nullopt if it is not a kernel.
inline std::optional<KernelKind> getKernelKind(mlir::Operation *function) {
  auto kind = function->getAttrOfType<KernelKindAttr>(kKernelAttr);
  return kind ? std::optional(kind.getValue()) : std::nullopt;
}

} // namespace mpc

#define GET_OP_CLASSES
#include "compiler/Dialect/MPC/MPCOps.h.inc"

namespace mpc {

/// Follows `value` through its defining reshapes, and returns the first value
/// that is no reshape.
inline mlir::Value skipReshapes(mlir::Value value) {
  while (auto reshape = value.getDefiningOp<ReshapeOp>())
    value = reshape.getInput();
  return value;
}

/// Returns the only axis that `slice` shortens; nullopt if there is none or
/// several.
std::optional<int64_t> findSlicedAxis(SliceOp slice);

} // namespace mpc

#endif // MPC_COMPILER_DIALECT_MPC_MPC_H
