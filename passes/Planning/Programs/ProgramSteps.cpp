// Adds kernels, copies and contractions as steps of a program.
//
// SPDX-License-Identifier: Apache-2.0
#include "passes/Planning/Contractions/ProductLayout.h"
#include "passes/Planning/Programs/ProgramBuilder.h"

#include "compiler/Kernels/Access.h"
#include "compiler/Kernels/KernelHero.h"
#include "compiler/Kernels/KernelSegments.h"
#include "compiler/Kernels/KernelSpace.h"
#include "compiler/Kernels/TensorCoreTiling.h"

using namespace mlir;
using namespace mpc;

//===----------------------------------------------------------------------===//
// Reads of kernels
//===----------------------------------------------------------------------===//

// Returns the operands that a call's kernel reads at other indices than it
// writes: lookup tables, pairs, sliced operands, and factors of a contraction.
// Includes factors that the kernel reads through movement ops, such as packed
// filters and transposed heads.
static SmallVector<Value> findReadElsewhere(func::CallOp call,
                                            func::FuncOp kernel) {
  // Movement ops inside a kernel read an argument by strides.
  SmallVector<Value> found;
  auto add = [&](Value read) {
    while (Access::canFollow(read.getDefiningOp()))
      read = read.getDefiningOp()->getOperand(0);
    if (auto argument = dyn_cast<BlockArgument>(read))
      found.push_back(call.getOperand(argument.getArgNumber()));
  };
  // Operands read at computed indices, sliced operands, and factors of
  // products.
  for (Operation &op : kernel.getBody().front()) {
    for (OpOperand &operand : op.getOpOperands())
      if (readsMemory(operand))
        add(operand.get());
    bool isReadElsewhere =
        isLoadedPart(&op) && !isStoredWhereLoaded(cast<SliceOp>(op));
    if (hasRole(&op, RegionRole::Contraction) || isReadElsewhere)
      llvm::for_each(op.getOperands(), add);
  }
  return found;
}

// Returns the properties of the kernel's kind.
static const KernelHero &getHero(func::FuncOp kernel) {
  assert(kernel && getKernelKind(kernel) && "a kernel with a kind");
  return KernelHero::get(*getKernelKind(kernel));
}

// Returns the operand that the kernel overwrites in part; the result's memory
// must hold the operand beforehand. Returns null for other kernels.
static Value findOverwritten(func::CallOp call, func::FuncOp kernel) {
  ScatterOpInterface scatter = findScatter(kernel.getBody().front());
  if (!scatter || !scatter.hasUniqueIndices())
    return {};
  auto data = cast<BlockArgument>(scatter.getDataOperand().get());
  return call.getOperand(data.getArgNumber());
}

// True if all results of a kernel are empty.
static bool givesNothing(func::CallOp call) {
  return llvm::all_of(call.getResults(), [](Value result) {
    return typeOf(result).getNumElements() == 0;
  });
}

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

void ProgramBuilder::addLaunch(func::CallOp call, func::FuncOp kernel) {
  // Kernels run on at least one element.
  if (givesNothing(call)) {
    placeResults(call, Reads());
    return;
  }
  // Elementwise kernels may overwrite an operand on the last use, unless the
  // kernel reads the operand at other indices.
  KernelPartition partition = getKernelPartition(kernel, target);
  bool elementwise = getHero(kernel).writesWhereItReads(kernel, target);
  Value overwritten = findOverwritten(call, kernel);
  SmallVector<Value> outputs =
      placeResults(call, {elementwise, findReadElsewhere(call, kernel),
                          elementwise && isSegmented(kernel), overwritten});
  // A scatter updates some elements of its data. If the result has other memory
  // than the data, copy the data there first.
  if (Value data = overwritten ? buffers.lookup(overwritten) : Value();
      data && plan::getStorage(data) != plan::getStorage(outputs.front()))
    plan::CopyOp::create(builder, call.getLoc(), data, outputs.front());
  assert(partition.extent > 0 && partition.grain > 0 && "a kernel has work");
  // Leave out default attributes: one thread, no scratch memory.
  auto ifAbove = [&](int64_t least, int64_t value) {
    return value > least ? builder.getI64IntegerAttr(value) : IntegerAttr();
  };
  plan::LaunchOp::create(
      builder, call.getLoc(), call.getCalleeAttr(),
      buffersOf(call.getOperands()), outputs,
      builder.getI64IntegerAttr(partition.extent),
      builder.getI64IntegerAttr(partition.grain), ifAbove(1, partition.threads),
      ifAbove(0, partition.shared), ifAbove(0, partition.scratch));
}

void ProgramBuilder::addCopies(func::CallOp call, ArrayRef<RowCopy> copies) {
  assert(call.getNumResults() == 1 && "row copies fill one result");
  Value destination = placeResults(call, Reads()).front();
  auto bytes = [&](int64_t count) { return builder.getI64IntegerAttr(count); };
  for (const RowCopy &copy : copies)
    plan::CopyOp::create(
        builder, call.getLoc(), buffers.lookup(call.getOperand(copy.argument)),
        destination, bytes(copy.rows), bytes(copy.from.offset),
        bytes(copy.from.stride), copy.to ? bytes(copy.rowBytes) : IntegerAttr(),
        bytes(copy.to ? copy.to->offset : 0),
        bytes(copy.to ? copy.to->stride : 0));
}

LogicalResult ProgramBuilder::addContraction(Operation *op,
                                             func::CallOp epilogue) {
  ContractionResult result;
  if (epilogue) {
    result.epilogue = epilogue.getCalleeAttr();
    result.inputs = buffersOf(epilogue.getOperands().drop_front());
    auto kernel = symbols.lookup<func::FuncOp>(epilogue.getCallee());
    SmallVector<Value> readElsewhere = findReadElsewhere(epilogue, kernel);
    llvm::append_range(readElsewhere, op->getOperands());
    bool elementwise = getHero(kernel).writesWhereItReads(kernel, target);
    result.outputs = placeResults(epilogue, {elementwise, readElsewhere});
  } else {
    // A plan.arrange or plan.place behind the contraction determines the
    // memory.
    Operation *writer = op;
    if (plan::ArrangeOp arrange = findArrange(op->getResult(0)))
      writer = arrange;
    plan::PlaceOp place = findPlace(op->getResult(0));
    if (place)
      writer = place;
    result.buffer = placeResults(writer, Reads()).front();
    if (place && place.getFirstElement() > 0)
      result.buffer = newRest(result.buffer, place.getFirstElement());
  }
  Value lhs = buffers.lookup(op->getOperand(0));
  Value rhs = buffers.lookup(op->getOperand(1));
  assert(lhs && rhs && "operands have memory before they are used");
  auto product = dyn_cast<plan::ProductOp>(op);
  if (!product)
    return contractions.emit(op, lhs, rhs, result);
  // The second result of the product is the sum of an operand's rows.
  llvm::SmallPtrSet<Operation *, 4> taken;
  Value sum = product.getBiasGrad();
  buffers[sum] = chooseBuffer(op, sum, Reads(), taken);
  contractions.emit(product, {lhs, rhs, result.buffer, {}, {}, buffers[sum]},
                    result);
  return success();
}

// Adds launches that compute the epilogue of `op` if the library cannot fuse
// the epilogue. The launches read the product without its epilogue, which the
// library writes to the result's memory.
LogicalResult
ProgramBuilder::addUnfused(plan::ProductOp op,
                           SmallVectorImpl<plan::LaunchOp> &launches) {
  assert(buffers.lookup(op.getOutput()) && "placeResults comes first");
  Block &body = op.getUnfused().front();
  buffers[body.getArgument(0)] = buffers.lookup(op.getOutput());
  places[body.getTerminator()->getOperand(0)] =
      buffers.lookup(op.getUnfusedResult());
  Block *program = builder.getInsertionBlock();
  for (Operation &nested : body.without_terminator()) {
    if (failed(addOp(&nested)))
      return failure();
    if (auto launch = dyn_cast<plan::LaunchOp>(program->back()))
      launches.push_back(launch);
  }
  return success();
}

LogicalResult ProgramBuilder::addProduct(plan::ProductOp op) {
  // If a plan.place pads the rows, the memory has the padded shape.
  if (plan::PlaceOp place = findPlace(op.getOutput())) {
    assert(place.getFirstElement() == 0 && "plan-pad-rows makes no other");
    places[op.getOutput()] = placeResults(place, Reads()).front();
  }
  placeResults(op, Reads());
  auto find = [&](Value value) {
    return value ? buffers.lookup(value) : Value();
  };
  SmallVector<plan::LaunchOp> launches;
  if (!op.getUnfused().empty() && failed(addUnfused(op, launches)))
    return failure();
  plan::MatMulOp product = contractions.emit(
      op,
      {find(op.getLhs()), find(op.getRhs()), find(op.getOutput()),
       find(op.getBias()), find(op.getAux() ? op.getAux() : op.getNewAux()),
       find(op.getBiasGrad())},
      {});
  if (launches.empty())
    return success();
  Block &unfused = product.getUnfused().emplaceBlock();
  for (plan::LaunchOp launch : launches)
    launch->moveBefore(&unfused, unfused.end());
  return success();
}

// Returns a view of the elements of `buffer` from index `first` on.
Value ProgramBuilder::newRest(Value buffer, int64_t first) {
  auto whole = cast<MemRefType>(buffer.getType());
  assert(first >= 0 && first <= whole.getNumElements() &&
         "a view lies in its buffer");
  auto type =
      MemRefType::get({whole.getNumElements() - first}, whole.getElementType());
  int64_t bytes = first * plan::getElementBytes(whole.getElementType());
  return plan::ViewOp::create(builder, buffer.getLoc(), type, buffer,
                              builder.getI64IntegerAttr(bytes));
}

// Returns the view of `source` that begins at the offset of the dense `access`.
Value ProgramBuilder::newSection(Value source, plan::AccessOp access) {
  assert(source && access.isDense() && "only a dense access is a view");
  MemRefType type = getBufferType(access.getOutput().getType());
  int64_t bytes = static_cast<int64_t>(access.getOffset()) *
                  plan::getElementBytes(type.getElementType());
  return plan::ViewOp::create(builder, access.getLoc(), type, source,
                              builder.getI64IntegerAttr(bytes));
}

// Adds a call of a kernel: as a launch, as row copies, or with a contraction,
// which calls the kernel per tile.
LogicalResult ProgramBuilder::addCall(func::CallOp call) {
  auto kernel = symbols.lookup<func::FuncOp>(call.getCallee());
  if (!kernel || !getKernelKind(kernel))
    return call.emitOpError("expected a kernel, found @") << call.getCallee();
  // An epilogue is added with the contraction of operand 0.
  if (getHero(kernel).isCalledPerTile())
    return addContraction(call.getOperand(0).getDefiningOp(), call);
  // Parts of a join along the outermost axis are written in place.
  if (Value joined = joins.lookup(call)) {
    addJoin(call, joined);
    return success();
  }
  SmallVector<RowCopy> copies = findRowCopies(kernel, target);
  if (copies.empty())
    addLaunch(call, kernel);
  else
    addCopies(call, copies);
  return success();
}

LogicalResult ProgramBuilder::addOp(Operation *op) {
  if (auto constant = dyn_cast<ConstantOp>(op)) {
    buffers[constant] = plan::ConstantOp::create(
        builder, op->getLoc(), getBufferType(constant.getType()),
        constant.getValue());
    return success();
  }
  if (auto view = dyn_cast<ReshapeOp>(op)) {
    buffers[view] = plan::ViewOp::create(builder, op->getLoc(),
                                         getBufferType(view.getType()),
                                         buffers.lookup(view.getInput()));
    return success();
  }
  // plan.access, plan.arrange, plan.place and plan.assemble take no step. A
  // dense access is a view; for other accesses, the product that reads the
  // access uses the strides. The parts of plan.assemble are already in its
  // memory.
  if (auto access = dyn_cast<plan::AccessOp>(op)) {
    Value source = buffers.lookup(access.getSource());
    buffers[access.getOutput()] =
        access.isDense() ? newSection(source, access) : source;
    return success();
  }
  if (isa<plan::ArrangeOp, plan::PlaceOp>(op))
    return success();
  if (auto assembled = dyn_cast<plan::AssembleOp>(op)) {
    buffers[assembled.getOutput()] = joins.lookup(op);
    return success();
  }
  if (auto product = dyn_cast<plan::ProductOp>(op);
      product && !epilogueOf.count(op))
    return addProduct(product);
  if (auto check = dyn_cast<CheckIndicesOp>(op)) {
    plan::CheckIndicesOp::create(builder, op->getLoc(),
                                 buffers.lookup(check.getInput()),
                                 check.getIndices());
    return success();
  }
  if (auto reduction = dyn_cast<AllReduceOp>(op)) {
    addReduction(reduction);
    return success();
  }
  if (auto share = dyn_cast<plan::ShareOp>(op)) {
    if (!buffers.contains(share.getOutput()))
      addShares(share);
    return success();
  }
  if (auto scan = dyn_cast<ScanCallOp>(op))
    return addScan(scan);
  if (auto condition = dyn_cast<IfCallOp>(op))
    return addIf(condition);
  if (auto attention = dyn_cast<LibraryAttentionOp>(op)) {
    addAttention(attention);
    return success();
  }
  if (auto gradient = dyn_cast<LibraryAttentionGradOp>(op)) {
    addAttention(gradient);
    return success();
  }
  // A contraction with an epilogue is added at the call of the epilogue.
  if (hasRole(op, RegionRole::Contraction) || isa<plan::ProductOp>(op))
    return epilogueOf.count(op) ? success()
                                : addContraction(op, func::CallOp());
  if (auto call = dyn_cast<func::CallOp>(op))
    return addCall(call);
  return op->emitOpError("expected a kernel call, a contraction, attention of "
                         "a library, a scan, a check of indices, a reduction "
                         "over ranks, a reshape or a constant");
}
