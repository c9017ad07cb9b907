// Kernels, copies and contractions as steps of a program.
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
// What kernels read
//===----------------------------------------------------------------------===//

// The operands of a call that its kernel does not read at the element it
// writes: tables, pairs, tensors of which it loads a part, and what a
// contraction multiplies, packed filters and heads too, which it reads through
// ops that move.
static SmallVector<Value> findReadElsewhere(func::CallOp call,
                                            func::FuncOp kernel) {
  // What ops of the kernel move is read where it was: in the argument.
  SmallVector<Value> found;
  auto add = [&](Value read) {
    while (Access::canFollow(read.getDefiningOp()))
      read = read.getDefiningOp()->getOperand(0);
    if (auto argument = dyn_cast<BlockArgument>(read))
      found.push_back(call.getOperand(argument.getArgNumber()));
  };
  // Operands that ops read by an index, and slices and factors of products.
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

// What is known of kernels of its kind.
static const KernelHero &getHero(func::FuncOp kernel) {
  return KernelHero::get(*getKernelKind(kernel));
}

// The operand of a call whose kernel writes some elements of it, and has to
// find all others in the result's memory.
static Value findOverwritten(func::CallOp call, func::FuncOp kernel) {
  ScatterOpInterface scatter = findScatter(kernel.getBody().front());
  if (!scatter || !scatter.hasUniqueIndices())
    return {};
  auto data = cast<BlockArgument>(scatter.getDataOperand().get());
  return call.getOperand(data.getArgNumber());
}

// Whether a kernel has nothing to write.
static bool givesNothing(func::CallOp call) {
  return llvm::all_of(call.getResults(), [](Value result) {
    return typeOf(result).getNumElements() == 0;
  });
}

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

void ProgramBuilder::addLaunch(func::CallOp call, func::FuncOp kernel) {
  // Kernels have at least one element.
  if (givesNothing(call)) {
    placeResults(call, Reads());
    return;
  }
  // Elementwise kernels may write over an operand that nobody needs any more,
  // unless they read it elsewhere.
  KernelPartition partition = getKernelPartition(kernel, target);
  bool elementwise = getHero(kernel).writesWhereItReads(kernel, target);
  Value overwritten = findOverwritten(call, kernel);
  SmallVector<Value> outputs =
      placeResults(call, {elementwise, findReadElsewhere(call, kernel),
                          elementwise && isSegmented(kernel), overwritten});
  // A scatter begins with a copy of its data, where it is not written over it.
  if (Value data = overwritten ? buffers.lookup(overwritten) : Value();
      data && plan::getStorage(data) != plan::getStorage(outputs.front()))
    plan::CopyOp::create(builder, call.getLoc(), data, outputs.front());
  // Attributes that say nothing are left out: one thread, no scratch memory.
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
    // The result lies where plan.arrange or plan.place, which is the only
    // reader then, has it.
    Operation *writer = op;
    if (plan::ArrangeOp arrange = findArrange(op->getResult(0)))
      writer = arrange;
    plan::PlaceOp place = findPlace(op->getResult(0));
    if (place)
      writer = place;
    result.buffer = placeResults(writer, Reads()).front();
    if (place && place.getFirstElement() > 0)
      result.buffer = newTail(result.buffer, place.getFirstElement());
  }
  Value lhs = buffers.lookup(op->getOperand(0));
  Value rhs = buffers.lookup(op->getOperand(1));
  auto product = dyn_cast<plan::ProductOp>(op);
  if (!product)
    return contractions.emit(op, lhs, rhs, result);
  // The sum of an operand, which the library gives besides.
  llvm::SmallPtrSet<Operation *, 4> taken;
  Value sum = product.getBiasGrad();
  buffers[sum] = chooseBuffer(op, sum, Reads(), taken);
  contractions.emit(product, {lhs, rhs, result.buffer, {}, {}, buffers[sum]},
                    result);
  return success();
}

// The launches of what `op` keeps for libraries that cannot do all of it, with
// the memory between them. The product alone lies where the result goes.
LogicalResult
ProgramBuilder::addUnfused(plan::ProductOp op,
                           SmallVectorImpl<plan::LaunchOp> &launches) {
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
  // What plan.place makes of the result, longer rows, is what lies in memory.
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

// The elements of `buffer` from number `first` on.
Value ProgramBuilder::newTail(Value buffer, int64_t first) {
  auto whole = cast<MemRefType>(buffer.getType());
  auto type =
      MemRefType::get({whole.getNumElements() - first}, whole.getElementType());
  int64_t bytes = first * plan::getElementBytes(whole.getElementType());
  return plan::ViewOp::create(builder, buffer.getLoc(), type, buffer,
                              builder.getI64IntegerAttr(bytes));
}

// The view of `source` that a dense access is.
Value ProgramBuilder::newSection(Value source, plan::AccessOp access) {
  MemRefType type = getBufferType(access.getOutput().getType());
  int64_t bytes = static_cast<int64_t>(access.getOffset()) *
                  plan::getElementBytes(type.getElementType());
  return plan::ViewOp::create(builder, access.getLoc(), type, source,
                              builder.getI64IntegerAttr(bytes));
}

// A call of a kernel: a launch, unless all that the kernel does is copy rows,
// or a contraction calls it for its tiles.
LogicalResult ProgramBuilder::addCall(func::CallOp call) {
  auto kernel = symbols.lookup<func::FuncOp>(call.getCallee());
  if (!kernel || !getKernelKind(kernel))
    return call.emitOpError("expected a kernel, found @") << call.getCallee();
  // An epilogue comes with the contraction that its first operand is.
  if (getHero(kernel).isCalledPerTile())
    return addContraction(call.getOperand(0).getDefiningOp(), call);
  // What is joined along its outermost axis is written where the join has it.
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
  // plan.access, plan.arrange and plan.place have no step: what lies side by
  // side is a view, of anything else the product next to it reads and writes
  // with the strides. Nor has plan.assemble, whose parts are in its memory.
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
  if (auto scan = dyn_cast<ScanCallOp>(op))
    return addScan(scan);
  if (auto condition = dyn_cast<IfCallOp>(op))
    return addIf(condition);
  // A contraction with an epilogue is added where the epilogue is called.
  if (hasRole(op, RegionRole::Contraction) || isa<plan::ProductOp>(op))
    return epilogueOf.count(op) ? success()
                                : addContraction(op, func::CallOp());
  if (auto call = dyn_cast<func::CallOp>(op))
    return addCall(call);
  return op->emitOpError("expected a kernel call, a contraction, a scan, a "
                         "check of indices, a reshape or a constant");
}
