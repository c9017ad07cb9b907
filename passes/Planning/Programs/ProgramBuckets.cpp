// Gives each reduction over ranks a contiguous buffer, the bucket. Ops that
// compute the operands write directly into the bucket. Marks the steps of
// owners, and adds the exchanges with owners.
//
// SPDX-License-Identifier: Apache-2.0
#include "passes/Planning/Programs/ProgramBuilder.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mpc;

/// Operands start at cache lines, and where a GPU's kernels can load vectors.
static constexpr int64_t kBucketAlignment =
    std::max<int64_t>(64, TargetInfo::kGPUAlignment);

// Returns the value whose memory `input` shows through reshapes. Null if the
// value cannot lie in a bucket, where the reduction overwrites the value: an
// argument, a constant, or a value with other readers.
Value ProgramBuilder::findPlaceable(Value input) const {
  while (input.hasOneUse()) {
    auto reshape = input.getDefiningOp<ReshapeOp>();
    if (!reshape)
      break;
    input = reshape.getInput();
  }
  Operation *op = input.getDefiningOp();
  if (!op || op->getBlock() != &block || !input.hasOneUse() ||
      places.contains(input) || replaces.contains(input) || joins.contains(op))
    return {};
  // Ops of other kinds choose memory by rules of their own.
  return isa<func::CallOp, plan::ProductOp, plan::ArrangeOp>(op) ||
                 hasRole(op, RegionRole::Contraction)
             ? input
             : Value();
}

// Adds the buffer of each reduction, with a view per operand.
void ProgramBuilder::findBuckets() {
  for (auto reduction : block.getOps<AllReduceOp>()) {
    SmallVector<int64_t> offsets;
    int64_t bytes = 0;
    for (Value input : reduction.getInputs()) {
      offsets.push_back(llvm::alignTo(bytes, kBucketAlignment));
      bytes =
          offsets.back() + plan::getBufferBytes(getBufferType(input.getType()));
    }
    Location location = reduction.getLoc();
    Type element = elementOf(reduction.getInputs().front());
    auto type =
        MemRefType::get({bytes / plan::getElementBytes(element)}, element);
    auto bucket = plan::ArenaOp::create(builder, location, type, IntegerAttr());
    buckets[reduction] = bucket;
    for (auto [input, output, offset] : llvm::zip_equal(
             reduction.getInputs(), reduction.getOutputs(), offsets)) {
      buffers[output] = plan::ViewOp::create(
          builder, location, getBufferType(input.getType()), bucket,
          builder.getI64IntegerAttr(offset));
      Value placed = findPlaceable(input);
      if (!placed)
        continue;
      places[placed] =
          placed == input
              ? buffers[output]
              : plan::ViewOp::create(builder, location,
                                     getBufferType(placed.getType()), bucket,
                                     builder.getI64IntegerAttr(offset));
    }
  }
}

// Adds the reduction, behind copies of the operands that do not lie in the
// bucket.
void ProgramBuilder::addReduction(AllReduceOp reduction) {
  Value bucket = buckets.lookup(reduction);
  for (auto [input, output] :
       llvm::zip_equal(reduction.getInputs(), reduction.getOutputs())) {
    Value source = buffers.lookup(input);
    assert(source && "operands have memory before they are used");
    if (plan::getStorage(source) != plan::getStorage(bucket) &&
        typeOf(input).getNumElements() > 0)
      plan::CopyOp::create(builder, reduction.getLoc(), source,
                           buffers.lookup(output));
  }
  if (cast<MemRefType>(bucket.getType()).getNumElements() == 0)
    return;
  if (reduction.getOwners()) {
    plan::ReduceScatterOp::create(
        builder, reduction.getLoc(), reduction.getKindAttr(),
        buffersOf(reduction.getOutputs()), *reduction.getOwners());
    return;
  }
  auto step = plan::AllReduceOp::create(builder, reduction.getLoc(),
                                        reduction.getKind(), bucket);
  if (reduction.getRows()) {
    RankedTensorType table = typeOf(reduction.getInputs().front());
    step.setRowElements(
        static_cast<uint64_t>(table.getNumElements() / table.getDimSize(0)));
  }
}

// Adds the exchange of `first` and of the shares that follow directly.
void ProgramBuilder::addShares(plan::ShareOp first) {
  SmallVector<Value> parts;
  SmallVector<Attribute> owners;
  SmallVector<Location> locations;
  for (Operation *next = first; auto share = dyn_cast<plan::ShareOp>(next);
       next = next->getNextNode()) {
    Value buffer = buffers.lookup(share.getInput());
    assert(buffer && "operands have memory before they are used");
    buffers[share.getOutput()] = buffer;
    if (typeOf(share.getInput()).getNumElements() == 0)
      continue;
    parts.push_back(buffer);
    owners.push_back(share.getOwnerAttr());
    locations.push_back(share.getLoc());
  }
  if (!parts.empty())
    plan::AllGatherOp::create(builder, builder.getFusedLoc(locations), parts,
                              builder.getArrayAttr(owners));
}

// Returns the owner of a variable among the memory of the step's operands; null
// if all ranks hold all operands.
static FlatSymbolRefAttr findOwner(Operation *step,
                                   const SymbolTable &symbols) {
  for (Value operand : step->getOperands())
    if (auto state = plan::getMemory(operand).getDefiningOp<plan::StateOp>())
      if (Operation *variable = symbols.lookup(state.getVariable()))
        if (FlatSymbolRefAttr owner = plan::getOwner(variable))
          return owner;
  return {};
}

// Marks the steps after `before`, the last step before `op`, with the owner of
// `op`. Copies to a variable belong to the owner of the variable: `op` is null.
void ProgramBuilder::markSteps(Operation *before, Operation *op) {
  Block &program = *builder.getInsertionBlock();
  if (program.empty())
    return;
  for (Operation *step = before ? before->getNextNode() : &program.front();
       step; step = step->getNextNode())
    if (isa<plan::StepOpInterface>(step))
      if (FlatSymbolRefAttr owner =
              op ? plan::getOwner(op) : findOwner(step, symbols))
        step->setAttr(plan::kOwnerAttr, owner);
}
