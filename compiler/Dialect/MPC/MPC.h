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

/// True if the `actual` result types of an op fit the `inferred` types: equal
/// shapes, and element types that are equal or both float. Any float type fits,
/// since the Precision stage decides in which one a result is stored.
bool areCompatibleTypes(mlir::TypeRange inferred, mlir::TypeRange actual);

/// Each returns the tensor type, the shape or the element type of a value.
/// Every value of the dialect is a ranked tensor.
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

/// Each prints a part of a type for messages: "[2,3]", "f32" or "f32[2,3]".
std::string printShape(llvm::ArrayRef<int64_t> shape);
std::string printElementType(mlir::Type type);
std::string printTensorType(mlir::RankedTensorType type);

/// Returns the strides of a slice or pad, one per axis: `strides`, or ones if
/// it is empty.
llvm::SmallVector<int64_t> fillStrides(llvm::ArrayRef<int64_t> strides,
                                       size_t rank);

/// True if all strides of a slice or pad are 1, or if `strides` is empty, which
/// means the same.
inline bool isDense(llvm::ArrayRef<int64_t> strides) {
  return llvm::all_of(strides, [](int64_t stride) { return stride == 1; });
}

/// Names of attributes of function arguments and results, and of ops; the
/// description of the mpc dialect explains each.
inline constexpr llvm::StringLiteral kStateAttr = "mpc.state";
inline constexpr llvm::StringLiteral kInputAttr = "mpc.input";
inline constexpr llvm::StringLiteral kBatchAxisAttr = "mpc.batch_axis";
inline constexpr llvm::StringLiteral kUpdatesAttr = "mpc.updates";
inline constexpr llvm::StringLiteral kOutputAttr = "mpc.output";
inline constexpr llvm::StringLiteral kRoleAttr = "mpc.role";
inline constexpr llvm::StringLiteral kPhaseAttr = "mpc.phase";
/// Attribute of a module: the machine to compile for. getTarget reads it.
inline constexpr llvm::StringLiteral kTargetAttr = "mpc.target";
/// Attribute of a function that is a kernel: the kind of the kernel,
/// #mpc.kernel<...>.
inline constexpr llvm::StringLiteral kKernelAttr = "mpc.kernel";
/// Attribute of a GPU kernel after code generation: the number of threads per
/// block, an i32.
inline constexpr llvm::StringLiteral kThreadsAttr = "mpc.threads";
/// Attribute of an argument whose variable --train selects. Present only while
/// mpc recognizes rotary embeddings, which must not take the elements of a
/// trained variable as known.
inline constexpr llvm::StringLiteral kTrainedAttr = "mpc.trained";

/// The largest number of classes that mpc.accuracy can handle: it holds class
/// numbers in f32, which is exact up to 2^24.
inline constexpr int64_t kMaxAccuracyClasses = int64_t(1) << 24;

/// Fails if the elements of a constant were elided when the IR was printed as
/// text. mpc must not guess them.
llvm::LogicalResult verifyHasData(mlir::Operation *op,
                                  mlir::ElementsAttr value);

/// Returns the name of the ONNX node that `op` comes from ("conv1",
/// "conv1#dx"), read from its location; empty if the location has no name.
llvm::StringRef getNodeName(mlir::Operation *op);

/// Marker traits of normalisation ops, whose operands are the input, the scale
/// and the bias, and of their gradients.
template <typename ConcreteOp>
class NormalizationTrait
    : public mlir::OpTrait::TraitBase<ConcreteOp, NormalizationTrait> {};
template <typename ConcreteOp>
class NormalizationGradTrait
    : public mlir::OpTrait::TraitBase<ConcreteOp, NormalizationGradTrait> {};

namespace formulas {
/// Returns the default precision policy of the op with mnemonic `op`, which
/// must have a row in Formulas.def.
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
/// True for the phases of the forward pass: forward and loss.
inline bool isForward(Phase phase) {
  return phase == Phase::Forward || phase == Phase::Loss;
}
inline void setPhase(mlir::Operation *op, Phase phase) {
  op->setAttr(kPhaseAttr, PhaseAttr::get(op->getContext(), phase));
}
/// Copies the training phase of `from` to `to`, a new op that replaces or
/// serves `from`.
inline void copyPhase(mlir::Operation *from, mlir::Operation *to) {
  if (mlir::Attribute phase = from->getAttr(kPhaseAttr))
    to->setAttr(kPhaseAttr, phase);
}

/// Returns the channel axis of an activation with `rank` axes: the last in
/// NHWC, else axis 1.
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

/// Returns the value that `value` is a reshape of, through any number of
/// reshapes; `value` itself if no reshape defines it.
inline mlir::Value skipReshapes(mlir::Value value) {
  while (auto reshape = value.getDefiningOp<ReshapeOp>())
    value = reshape.getInput();
  return value;
}

/// Returns the axis along which `slice` does not keep the full extent; nullopt
/// if there is none, or more than one.
std::optional<int64_t> findSlicedAxis(SliceOp slice);

} // namespace mpc

#endif // MPC_COMPILER_DIALECT_MPC_MPC_H
