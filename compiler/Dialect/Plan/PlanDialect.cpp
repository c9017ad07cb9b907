// Registers the plan dialect; defines the verifiers of its ops. An epilogue is
// a kernel that a library calls for each tile of a product's result.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Dialect/Plan/Plan.h"

#include "compiler/Dialect/MPC/Facts/IndexBoxes.h"
#include "compiler/Dialect/Plan/ProductBounds.h"
#include "compiler/Dialect/Plan/StepAttributes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::plan;

#include "compiler/Dialect/Plan/PlanDialect.cpp.inc"

#include "compiler/Dialect/Plan/StepOpInterface.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "compiler/Dialect/Plan/PlanAttrs.cpp.inc"

#define GET_OP_CLASSES
#include "compiler/Dialect/Plan/PlanOps.cpp.inc"

void PlanDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "compiler/Dialect/Plan/PlanOps.cpp.inc"
      >();
  addAttributes<
#define GET_ATTRDEF_LIST
#include "compiler/Dialect/Plan/PlanAttrs.cpp.inc"
      >();
}

LogicalResult PlanDialect::verifyOperationAttribute(Operation *op,
                                                    NamedAttribute attr) {
  if (attr.getName() == kOwnerAttr) {
    if (isa<FlatSymbolRefAttr>(attr.getValue()))
      return success();
    return op->emitOpError("expected the name of a parameter, such as "
                           "@fc1.weight, found ")
           << attr.getValue();
  }
  if (attr.getName() != kComputeAttr)
    return op->emitOpError("no op has an attribute '")
           << attr.getName().getValue() << "'";
  if (isa<ComputeAttr>(attr.getValue()))
    return success();
  return op->emitOpError("expected the compute type of a library, such as "
                         "#plan.compute<tf32>, found ")
         << attr.getValue();
}

//===----------------------------------------------------------------------===//
// Queries
//===----------------------------------------------------------------------===//

FlatSymbolRefAttr mpc::plan::getOwner(Operation *op) {
  return op->getAttrOfType<FlatSymbolRefAttr>(kOwnerAttr);
}

int64_t mpc::plan::getElementBytes(Type type) {
  return std::max<int64_t>(1, type.getIntOrFloatBitWidth() / 8);
}

int64_t mpc::plan::getBufferBytes(MemRefType type) {
  return type.getNumElements() * getElementBytes(type.getElementType());
}

SmallVector<int64_t> mpc::plan::getDenseStrides(ArrayRef<int64_t> shape) {
  SmallVector<int64_t> strides(shape.size(), 1);
  for (size_t axis = shape.size(); axis-- > 1;)
    strides[axis - 1] = strides[axis] * shape[axis];
  return strides;
}

int64_t mpc::plan::getAuxRowBytes(int64_t n) {
  return runtime::auxRowBits(n) / 8;
}

bool mpc::plan::isView(Operation *op) {
  return isa<AccessOp, ShareOp>(op) || hasRole(op, RegionRole::View);
}

Value mpc::plan::getStorage(Value buffer) {
  while (auto view = buffer.getDefiningOp<ViewOp>())
    buffer = view.getSource();
  return buffer;
}

Value mpc::plan::getMemory(Value buffer) {
  buffer = getStorage(buffer);
  while (auto part = buffer.getDefiningOp<PartOp>())
    buffer = getStorage(part.getSource());
  return buffer;
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

void ProgramOp::build(OpBuilder &builder, OperationState &state,
                      StringRef name) {
  state.addAttribute(getSymNameAttrName(state.name),
                     builder.getStringAttr(name));
  state.addRegion()->emplaceBlock();
}

LogicalResult InputOp::verify() {
  int64_t axis = getBatchAxis();
  if (axis < -1 || (axis > 0 && axis >= getBuffer().getType().getRank()))
    return emitOpError("has no axis ")
           << axis << ", found " << getBuffer().getType();
  if (getIndices() && !isIndices(*getIndices(), getBuffer().getType()))
    return emitOpError(
               "expected boxes of indices within an integer buffer, found ")
           << *getIndices() << " of " << getBuffer().getType();
  if (!isInputRole(getRole()))
    return emitOpError("expected a role of inputs, found ")
           << stringify(getRole());
  return success();
}

LogicalResult OutputOp::verify() {
  if (!isOutputRole(getRole()))
    return emitOpError("expected a role of outputs, found ")
           << stringify(getRole());
  return success();
}

// Returns the memref type with the shape and the element type of the tensor
// type `type`.
static MemRefType bufferOf(Type type) {
  auto tensor = cast<RankedTensorType>(type);
  return MemRefType::get(tensor.getShape(), tensor.getElementType());
}

LogicalResult StateOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto variable =
      symbols.lookupNearestSymbolFrom<VariableOp>(*this, getVariableAttr());
  if (!variable)
    return emitOpError("no mpc.variable ") << getVariableAttr();
  if (bufferOf(variable.getType()) != getBuffer().getType())
    return emitOpError("expected a buffer for ")
           << variable.getType() << ", found " << getBuffer().getType();
  return success();
}

LogicalResult plan::ConstantOp::verify() {
  if (bufferOf(getValue().getType()) != getBuffer().getType())
    return emitOpError("expected a buffer for ")
           << getValue().getType() << ", found " << getBuffer().getType();
  return verifyHasData(*this, getValue());
}

LogicalResult ArenaOp::verify() {
  if (!getOffset())
    return success();
  int64_t offset = static_cast<int64_t>(*getOffset());
  if (offset < 0 || offset % 64 != 0)
    return emitOpError("expected an offset that is a multiple of 64, found ")
           << offset;
  std::optional<uint64_t> arena =
      (*this)->getParentOfType<ProgramOp>().getArenaBytes();
  int64_t end =
      offset + getBufferBytes(cast<MemRefType>(getBuffer().getType()));
  if (arena && end > static_cast<int64_t>(*arena))
    return emitOpError("reaches to byte ")
           << end << " of an arena of " << *arena;
  return success();
}

LogicalResult ViewOp::verify() {
  auto source = cast<MemRefType>(getSource().getType());
  auto buffer = cast<MemRefType>(getBuffer().getType());
  if (source.getElementType() != buffer.getElementType() ||
      (!getOffset() && source.getNumElements() != buffer.getNumElements()))
    return emitOpError("expected ")
           << source.getNumElements() << " elements of "
           << source.getElementType() << ", found " << buffer;
  // A view with an offset must start at a whole element and end within the
  // source.
  auto offset = static_cast<int64_t>(getOffset().value_or(0));
  if (offset < 0 || offset % getElementBytes(buffer.getElementType()) != 0 ||
      offset > getBufferBytes(source) - getBufferBytes(buffer))
    return emitOpError("expected whole elements within ")
           << source << ", found " << buffer << " at byte " << offset;
  return success();
}

// Verifies that the part lies within the source in the first and in the last
// iteration of the loop. The offset is linear in the iteration, so the part
// then lies within the source in all iterations.
LogicalResult PartOp::verify() {
  auto source = cast<MemRefType>(getSource().getType());
  auto part = cast<MemRefType>(getBuffer().getType());
  // The checks below compare bytes, which requires equal element types.
  if (source.getElementType() != part.getElementType())
    return emitOpError("expected elements of ")
           << source.getElementType() << ", found " << part;
  // Compute the start of the last iteration with overflow checks: an untrusted
  // plan may contain any numbers.
  auto count =
      static_cast<int64_t>(cast<ForOp>((*this)->getParentOp()).getCount());
  auto first = static_cast<int64_t>(getFrom()),
       by = static_cast<int64_t>(getBy());
  int64_t last, limit = getBufferBytes(source) - getBufferBytes(part);
  bool overflows = __builtin_mul_overflow(count - 1, by, &last) ||
                   __builtin_add_overflow(last, first, &last);
  if (overflows || std::min(first, last) < 0 || std::max(first, last) > limit)
    return emitOpError("expected parts within ")
           << source << " in " << count << " iterations, found " << part
           << " from byte " << first << " on, " << by << " bytes apart";
  // Offsets must be multiples of the element size: an offset of 2 bytes would
  // point into the middle of an f32.
  if (int64_t element = getElementBytes(part.getElementType());
      first % element != 0 || by % element != 0)
    return emitOpError("expected parts at multiples of ")
           << element << " bytes, found byte " << first << " and steps of "
           << by;
  return success();
}

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

SmallVector<Value> LaunchOp::getWrittenBuffers() { return getOutputs(); }

// A product writes its result and up to two fused outputs: the bit mask of a
// relu, for the relu's gradient, and the gradient of a bias. An epilogue adds
// its own outputs.
SmallVector<Value> plan::MatMulOp::getWrittenBuffers() {
  SmallVector<Value> written(getEpilogueOutputs());
  if (getC())
    written.push_back(getC());
  if (getAux() && runtime::getFusedBuffers(*getFused()).writesAux())
    written.push_back(getAux());
  if (getBiasGrad())
    written.push_back(getBiasGrad());
  return written;
}

// Without an epilogue, a convolution writes one buffer. With an epilogue, the
// library passes tiles of the result to the epilogue, which writes the buffers.
SmallVector<Value> plan::ConvOp::getWrittenBuffers() {
  return getWritten() ? SmallVector<Value>{getWritten()}
                      : SmallVector<Value>(getEpilogueOutputs());
}

SmallVector<Value> CopyOp::getWrittenBuffers() { return {getDestination()}; }

SmallVector<Value> plan::CheckIndicesOp::getWrittenBuffers() { return {}; }

SmallVector<Value> plan::IfOp::getWrittenBuffers() { return {}; }

SmallVector<Value> plan::ForOp::getWrittenBuffers() { return {}; }

LogicalResult mpc::plan::verifyWrites(Operation *step) {
  for (Value buffer : cast<StepOpInterface>(step).getWrittenBuffers())
    if (isa_and_present<InputOp, plan::ConstantOp>(
            getMemory(buffer).getDefiningOp()))
      return step->emitOpError("writes to an input or a constant, found ")
             << getMemory(buffer).getDefiningOp()->getName();
  return success();
}

// Verifies that the kernel called `name` is an epilogue if and only if
// `isEpilogue`, and that `inputs` and `outputs` match the kernel's arguments
// and results.
static LogicalResult verifyKernel(Operation *step, FlatSymbolRefAttr name,
                                  bool isEpilogue, ValueRange inputs,
                                  ValueRange outputs,
                                  SymbolTableCollection &symbols) {
  auto kernel = symbols.lookupNearestSymbolFrom<func::FuncOp>(step, name);
  // Skip a kernel that Codegen has lowered: its arguments are no longer
  // tensors, or the function is gone, so nothing is left to compare.
  if (!kernel ||
      !llvm::all_of(kernel.getArgumentTypes(), llvm::IsaPred<RankedTensorType>))
    return success();
  // A launch must not call an epilogue, and a product must not call another
  // kernel as its epilogue, since the arguments differ.
  std::optional<KernelKind> kind = getKernelKind(kernel);
  if (!kind || (*kind == KernelKind::Epilogue) != isEpilogue)
    return step->emitOpError("expected ")
           << name << " to be "
           << (isEpilogue ? "an epilogue" : "a kernel that is no epilogue")
           << ", found " << (kind ? stringify(*kind) : "no kernel");
  // The first argument of an epilogue is a tile of the product's sums. The
  // library passes the tile, so the step has no buffer for it.
  TypeRange arguments = kernel.getArgumentTypes();
  if (isEpilogue)
    arguments = arguments.drop_front();
  // Compare types in the order inputs and outputs, arguments and results.
  SmallVector<Type> expected, found(inputs.getTypes());
  llvm::append_range(found, outputs.getTypes());
  for (Type type : llvm::concat<const Type>(arguments, kernel.getResultTypes()))
    expected.push_back(bufferOf(type));
  if (expected != found)
    return step->emitOpError("buffers do not fit the arguments and results of ")
           << name << ", expected " << expected << ", found " << found;
  return success();
}

// Verifies that each field of `record` lies in the range that the runtime
// accepts on this kind of device.
template <typename Record>
static LogicalResult verifyRanges(Operation *op, const Record &record,
                                  bool isGPU) {
  if (const char *message = runtime::findOutOfRange(record, isGPU))
    return op->emitOpError(message);
  return success();
}

LogicalResult LaunchOp::verify() {
  runtime::KernelWork work;
  readAttributes(*this, work);
  const bool isGPU = getThreads().has_value();
  if (failed(verifyRanges(*this, work, isGPU)))
    return failure();
  return verifyWrites(*this);
}

LogicalResult LaunchOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyKernel(*this, getKernelAttr(), /*isEpilogue=*/false, getInputs(),
                      getOutputs(), symbols);
}

// Verifies that a contraction either writes its result to the buffer `written`
// or passes the result to an epilogue, not both.
template <typename OpTy>
static LogicalResult verifyContraction(OpTy op, Value written) {
  if (static_cast<bool>(op.getEpilogue()) == static_cast<bool>(written))
    return op.emitOpError(
               "expected either a result buffer or an epilogue, found ")
           << (written ? "both" : "neither");
  if (!op.getEpilogue() &&
      !(op.getEpilogueInputs().empty() && op.getEpilogueOutputs().empty()))
    return op.emitOpError("expected ins and outs only for an epilogue, found ")
           << op.getEpilogueInputs().size() << " ins and "
           << op.getEpilogueOutputs().size() << " outs";
  return verifyWrites(op);
}

template <typename OpTy>
static LogicalResult verifyEpilogue(OpTy op, SymbolTableCollection &symbols) {
  if (!op.getEpilogue())
    return success();
  if (failed(verifyKernel(op, op.getEpilogueAttr(), /*isEpilogue=*/true,
                          op.getEpilogueInputs(), op.getEpilogueOutputs(),
                          symbols)))
    return failure();
  return verifyTiles(op, op.getEpilogueAttr(), symbols);
}

LogicalResult ProductOp::verify() {
  const runtime::FusedBuffers takes = runtime::getFusedBuffers(getFused());
  const std::tuple<StringRef, Value, bool> values[] = {
      {"bias", getBias(), takes.bias},
      {"aux", getAux(), takes.aux && !takes.writesAux()},
      {"new_aux", getNewAux(), takes.writesAux()},
      {"bias_grad", getBiasGrad(), takes.biasGrad}};
  for (auto [name, value, isTaken] : values)
    if (static_cast<bool>(value) != isTaken)
      return emitOpError("fused kind \"")
             << stringify(getFused())
             << (isTaken ? "\" needs " : "\" does not take ") << name;
  if (getUnfused().empty())
    return success();
  // The kernels in `unfused` take the bare product in the type that plan.place
  // stores. They yield the output in this type, or the gradient of the bias.
  Type product = getWrittenType();
  Type result = getBiasGrad() ? getBiasGrad().getType() : product;
  Block &body = getUnfused().front();
  auto yield = dyn_cast<plan::YieldOp>(body.empty() ? nullptr : &body.back());
  if (body.getArgumentTypes() != TypeRange(product) || !yield ||
      yield.getValue().getType() != result)
    return emitOpError("expected unfused to take ")
           << product << " and to yield " << result << ", found arguments "
           << body.getArgumentTypes();
  return success();
}

Type ProductOp::getWrittenType() {
  for (Operation *user : getOutput().getUsers())
    if (auto place = dyn_cast<PlaceOp>(user))
      return place.getOutput().getType();
  return getOutput().getType();
}

// Verifies that the lists of strides of a, b and c have one entry per outer
// batch axis.
static LogicalResult verifyOuter(plan::MatMulOp op) {
  const runtime::OuterAxes &outer = op.getAxes().outer;
  const size_t count = outer.extents.size();
  for (const auto *strides : {&outer.a, &outer.b, &outer.c})
    if (strides->size() != count)
      return op.emitOpError("expected a stride of each operand for each of ")
             << count << " outer axes, found " << strides->size();
  if (count > 0 && op.getFused())
    return op.emitOpError("expected no outer axes of a fused product, found ")
           << count;
  return success();
}

static LogicalResult verifyFused(plan::MatMulOp op) {
  runtime::FusedBuffers takes;
  // The fused kind determines which buffers the product has: a bias, a bit
  // mask, the gradient of a bias.
  if (op.getFused()) {
    takes = runtime::getFusedBuffers(*op.getFused());
    // A product with an epilogue may also sum an operand, but only in a library
    // for CPUs. There a product has tiles; on a GPU, tileM is 0.
    const bool needsResult =
        !runtime::isSumOfOperand(*op.getFused()) || op.getShape().tileM == 0;
    if ((!op.getC() && needsResult) || op.getAxes().batch != 1)
      return op.emitOpError("expected a fused product with a result buffer and "
                            "a batch of 1, found ")
             << (op.getC() ? "a" : "no") << " result buffer and a batch of "
             << op.getAxes().batch;
  }
  const std::tuple<StringRef, Value, bool> buffers[] = {
      {"bias", op.getBias(), takes.bias},
      {"aux", op.getAux(), takes.aux},
      {"bias_grad", op.getBiasGrad(), takes.biasGrad}};
  for (auto [name, buffer, isTaken] : buffers)
    if (static_cast<bool>(buffer) != isTaken)
      return op.emitOpError("fused kind \"")
             << (op.getFused() ? stringify(*op.getFused()) : "none")
             << (isTaken ? "\" needs " : "\" does not take ") << name;
  // Verifies that a fused buffer has the size that follows from the product's
  // shape.
  auto expect = [&](StringRef name, Value buffer, Type element,
                    int64_t count) -> LogicalResult {
    if (!buffer)
      return success();
    auto type = cast<MemRefType>(buffer.getType());
    if (type.getElementType() == element && type.getNumElements() == count)
      return success();
    return op.emitOpError("expected ")
           << name << " to have " << count << " elements of " << element
           << ", found " << type;
  };
  // `unfused` replaces the fused algorithm if a library lacks it. It may
  // contain only kernel launches.
  if (!op.getUnfused().empty() &&
      (!op.getFused() ||
       !llvm::all_of(op.getUnfused().front(), llvm::IsaPred<LaunchOp>)))
    return op.emitOpError("expected only launches in unfused, and unfused only "
                          "of a fused product");
  if (!op.getFused())
    return success();
  // A bias has one element per column. The gradient of a bias has one element
  // per column, or per row for the fused kind `bgrad_a`; it is f32 on a CPU,
  // where products have tiles. A mask has a bit per element of the result, in
  // rows of whole bytes.
  Type element = Float32Type::get(op.getContext());
  if (op.getShape().tileM == 0)
    element = cast<MemRefType>(op.getC().getType()).getElementType();
  const int64_t m = op.getShape().m, n = op.getShape().n;
  bool alongRows = op.getFused() == FusedKind::BGradA;
  return success(succeeded(expect("bias", op.getBias(), element, n)) &&
                 succeeded(expect("bias_grad", op.getBiasGrad(), element,
                                  alongRows ? m : n)) &&
                 succeeded(expect("aux", op.getAux(),
                                  IntegerType::get(op.getContext(), 8,
                                                   IntegerType::Unsigned),
                                  m * plan::getAuxRowBytes(n))));
}

LogicalResult plan::MatMulOp::verify() {
  // tileM is 0 in products for a GPU, since they have no tiles.
  const bool isGPU = getShape().tileM == 0;
  if (failed(verifyRanges(*this, getShape(), isGPU)) ||
      failed(verifyRanges(*this, getAxes(), isGPU)) ||
      failed(verifyFused(*this)) || failed(verifyOuter(*this)) ||
      failed(verifyBounds(*this)))
    return failure();
  return verifyContraction(*this, getC());
}

LogicalResult plan::MatMulOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyEpilogue(*this, symbols);
}

LogicalResult plan::ConvOp::verify() {
  int buffers = bool(getX()) + bool(getW()) + bool(getY());
  if (buffers != (getWritten() ? 3 : 2))
    return emitOpError("expected ")
           << (getWritten() ? 3 : 2) << " of the buffers x, w and y, found "
           << buffers;
  if (getKind() == ConvKind::WeightGrad && getEpilogue())
    return emitOpError("expected no epilogue of a weight gradient, found ")
           << *getEpilogue();
  if (failed(verifyBounds(*this)))
    return failure();
  // Check the ranges for a GPU, which are the wider ones: a GPU accepts every
  // compute type and filter layout.
  runtime::ConvStep step;
  readAttributes(*this, step);
  if (failed(verifyRanges(*this, step, /*isGPU=*/true)))
    return failure();
  return verifyContraction(*this, getWritten());
}

LogicalResult plan::ConvOp::verifySymbolUses(SymbolTableCollection &symbols) {
  return verifyEpilogue(*this, symbols);
}

// True if `rows` rows of `row` bytes lie within the buffer and do not overlap.
// The first row starts at byte `offset`; rows start `stride` bytes apart.
static bool liesWithin(MemRefType buffer, int64_t rows, int64_t row,
                       int64_t offset, int64_t stride) {
  int64_t room = getBufferBytes(buffer) - row;
  return row >= 0 && offset >= 0 && stride >= row && offset <= room &&
         (rows == 1 || stride <= (room - offset) / (rows - 1));
}

LogicalResult CopyOp::verifyRows() {
  auto source = cast<MemRefType>(getSource().getType());
  auto destination = cast<MemRefType>(getDestination().getType());
  if (source.getElementType() != destination.getElementType())
    return emitOpError("expected buffers of one element type, found ")
           << source << " and " << destination;
  int64_t rows = *getRows(), bytes = getBufferBytes(destination);
  if (rows < 1 || (!getRowBytes() && bytes % rows != 0))
    return emitOpError("expected rows that fill ")
           << destination << ", found " << rows << " rows for " << bytes
           << " bytes";
  int64_t row = getRowBytes() ? *getRowBytes() : bytes / rows;
  if (!liesWithin(source, rows, row, getOffset(), getStride()))
    return emitOpError("expected rows within ")
           << source << ", found " << rows << " rows of " << row
           << " bytes from byte " << getOffset() << " on, " << getStride()
           << " bytes apart";
  if (getRowBytes() &&
      !liesWithin(destination, rows, row, getToOffset(), getToStride()))
    return emitOpError("expected rows within ")
           << destination << ", found " << rows << " rows of " << row
           << " bytes from byte " << getToOffset() << " on, " << getToStride()
           << " bytes apart";
  return success();
}

LogicalResult CopyOp::verify() {
  if (getRows()) {
    if (failed(verifyRows()))
      return failure();
  } else if (getSource().getType() != getDestination().getType()) {
    return emitOpError("expected buffers of one type, found ")
           << getSource().getType() << " and " << getDestination().getType();
  }
  return verifyWrites(*this);
}

LogicalResult plan::CheckIndicesOp::verify() {
  if (!isIndices(getIndices(), cast<ShapedType>(getBuffer().getType())))
    return emitOpError(
               "expected boxes of indices within an integer buffer, found ")
           << getIndices() << " of " << getBuffer().getType();
  return success();
}
