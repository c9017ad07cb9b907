// Adds the arguments of a program, chooses the memory of results, and adds the
// outputs and the copies at the end of the program.
//
// SPDX-License-Identifier: Apache-2.0
#include "passes/Planning/Programs/ProgramBuilder.h"

#include "compiler/Dialect/MPC/Facts/IndexBoxes.h"
#include "compiler/Dialect/MPC/FunctionPorts.h"

using namespace mlir;
using namespace mpc;

MemRefType mpc::getBufferType(Type tensor) {
  auto type = cast<RankedTensorType>(tensor);
  return MemRefType::get(type.getShape(), type.getElementType());
}

//===----------------------------------------------------------------------===//
// Places of results
//===----------------------------------------------------------------------===//

Value ProgramBuilder::newArena(Type type, Location location) {
  return plan::ArenaOp::create(builder, location, getBufferType(type),
                               IntegerAttr());
}

// True if `op` may write over `old`: nothing uses `old` later, and `op` reads
// an element of `old` only to write the element at the same index.
bool ProgramBuilder::mayOverwrite(Operation *op, Value old,
                                  const Reads &reads) const {
  assert(liveness && "liveness is computed before the first step");
  unsigned last = liveness->lastUse(old), now = liveness->position(op);
  if (last != now)
    return last < now;
  auto sharesMemory = [&](Value value) {
    return Liveness::root(value) == Liveness::root(old);
  };
  if (reads.overwritten && sharesMemory(reads.overwritten))
    return llvm::count_if(op->getOperands(), sharesMemory) == 1;
  auto read = reads.typeOf.find(Liveness::root(old));
  return reads.elementwise && llvm::none_of(reads.contracted, sharesMemory) &&
         (read == reads.typeOf.end() || read->second == old.getType());
}

// Returns the memory for a result: the state variable that the result updates,
// an operand without later uses, or new memory.
Value ProgramBuilder::chooseBuffer(Operation *op, Value result,
                                   const Reads &reads,
                                   llvm::SmallPtrSetImpl<Operation *> &taken) {
  if (Value place = places.lookup(result))
    return place;
  if (Attribute state = replaces.lookup(result)) {
    Value old = oldValues.lookup(state);
    if (!old || mayOverwrite(op, old, reads))
      return states.lookup(state);
  }
  // Liveness knows only the ops of the function's block, not those of nested
  // bodies.
  bool mayReuse = reads.elementwise || reads.overwritten;
  if (!mayReuse || reads.segmented || op->getBlock() != &block)
    return newArena(result.getType(), op->getLoc());
  for (Value operand : op->getOperands()) {
    Value candidate = buffers.lookup(operand);
    // The next iteration may read an argument of a loop's body.
    if (!candidate || isa<BlockArgument>(operand) ||
        operand.getType() != result.getType() ||
        !candidate.getDefiningOp<plan::ArenaOp>() ||
        !mayOverwrite(op, operand, reads))
      continue;
    if (taken.insert(candidate.getDefiningOp()).second)
      return candidate;
  }
  return newArena(result.getType(), op->getLoc());
}

SmallVector<Value> ProgramBuilder::placeResults(Operation *op, Reads reads) {
  for (Value operand : op->getOperands()) {
    auto [entry, isNew] =
        reads.typeOf.try_emplace(Liveness::root(operand), operand.getType());
    if (entry->second != operand.getType())
      entry->second = Type();
  }
  llvm::SmallPtrSet<Operation *, 4> taken;
  for (Value result : op->getResults()) {
    buffers[result] = chooseBuffer(op, result, reads, taken);
    assert(cast<MemRefType>(buffers[result].getType()).getElementType() ==
               elementOf(result) &&
           "a result's memory has elements of its type");
  }
  return buffersOf(op->getResults());
}

//===----------------------------------------------------------------------===//
// Arguments, updates and outputs
//===----------------------------------------------------------------------===//

Value ProgramBuilder::stateBuffer(FlatSymbolRefAttr state, Type type) {
  assert(state && "a variable has a name");
  Value &buffer = states[state];
  if (!buffer)
    buffer = plan::StateOp::create(builder, function.getLoc(),
                                   getBufferType(type), state);
  return buffer;
}

void ProgramBuilder::addArguments() {
  assert(buffers.empty() && "arguments come first");
  for (BlockArgument argument : block.getArguments()) {
    // State variables have memory of their own, outside the arena.
    const PortAttrs port = getArgumentPort(argument);
    if (FlatSymbolRefAttr state = port.getState()) {
      buffers[argument] = stateBuffer(state, argument.getType());
      oldValues[state] = argument;
      continue;
    }
    // All other arguments are inputs. An input without a name is named after
    // its position.
    StringAttr name = port.getInput();
    if (!name)
      name = builder.getStringAttr("arg" + Twine(argument.getArgNumber()));
    Role role = port.getRole().value_or(Role::Data);
    buffers[argument] = plan::InputOp::create(
        builder, function.getLoc(), getBufferType(argument.getType()), name,
        RoleAttr::get(builder.getContext(), role),
        port.get<ArrayAttr>(kIndicesAttr),
        builder.getI64IntegerAttr(port.getBatchAxis()));
  }
}

// Records that `result` is the new value of `variable`. If a value updates
// several variables, it is written to the first and copied to the others.
void ProgramBuilder::noteUpdate(OpOperand &result, Attribute variable) {
  assert(states.contains(variable) &&
         "a variable has memory before its update");
  // A shared value lies in the memory of the value that its owner computes.
  Value value = result.get();
  while (auto share = value.getDefiningOp<plan::ShareOp>())
    value = share.getInput();
  updates.emplace_back(value, variable);
  replaces.try_emplace(value, variable);
}

// Records the new value of each variable.
void ProgramBuilder::findUpdates() {
  for (OpOperand &result : block.getTerminator()->getOpOperands())
    if (FlatSymbolRefAttr state =
            getResultPort(function, result.getOperandNumber()).getUpdated()) {
      stateBuffer(state, result.get().getType());
      noteUpdate(result, state);
    }
}

// True if a copy at the end of the program writes over the memory of `source`.
bool ProgramBuilder::isOverwritten(Value source) const {
  return overwritten.contains(plan::getMemory(source).getDefiningOp());
}

// Returns memory with the contents of `source` that the copies at the end do
// not overwrite.
Value ProgramBuilder::save(Value source) {
  if (!isOverwritten(source))
    return source;
  Location location = function.getLoc();
  Value saved = plan::ArenaOp::create(
      builder, location, cast<MemRefType>(source.getType()), IntegerAttr());
  plan::CopyOp::create(builder, location, source, saved);
  return saved;
}

// If a new value does not lie in the memory of its state variable, adds a copy
// at the end of the program. Saves sources that an earlier copy would
// overwrite: to swap two variables, both new values are saved.
void ProgramBuilder::addUpdates() {
  for (auto [value, variable] : updates) {
    Value source = buffers.lookup(value), destination = states.lookup(variable);
    assert(source && destination && "new values and variables have memory");
    // Compare storage, not values: in nested loops, the destination may be a
    // view.
    if (plan::getStorage(source) == plan::getStorage(destination))
      continue;
    copies.emplace_back(source, destination);
    overwritten.insert(plan::getMemory(destination).getDefiningOp());
  }
  for (auto &[source, destination] : copies)
    source = save(source);
}

// Adds the outputs and the copies at the end.
void ProgramBuilder::addOutputs() {
  Location location = function.getLoc();
  SmallVector<plan::OutputOp> outputs;
  for (OpOperand &result : block.getTerminator()->getOpOperands()) {
    const PortAttrs port = getResultPort(function, result.getOperandNumber());
    if (!port.getOutput())
      continue;
    assert(buffers.lookup(result.get()) && "outputs are computed by now");
    Role role = port.getRole().value_or(Role::Output);
    outputs.push_back(
        plan::OutputOp::create(builder, location, port.getOutput(),
                               RoleAttr::get(builder.getContext(), role),
                               save(buffers.lookup(result.get()))));
  }
  // Copy yielded values first: the copies to state may overwrite them.
  for (auto [value, place] : yielded)
    if (Value source = buffers.lookup(value);
        plan::getStorage(source) != plan::getStorage(place))
      plan::CopyOp::create(builder, location, source, place);
  for (auto &[source, destination] : copies)
    plan::CopyOp::create(builder, location, source, destination);
  for (plan::OutputOp output : outputs)
    output->moveBefore(output->getBlock(), output->getBlock()->end());
}

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

ProgramBuilder::ProgramBuilder(func::FuncOp function,
                               const SymbolTable &symbols,
                               const TargetInfo &target)
    : function(function), block(function.getBody().front()), symbols(symbols),
      target(target), epilogueOf(findEpilogues(block, symbols)),
      builder(function), contractions(builder, target) {}

LogicalResult ProgramBuilder::addOps() {
  assert(!liveness && "a builder builds one program");
  liveness.emplace(block, epilogueOf);
  findAssembled();
  findJoins();
  findBuckets();
  Block &program = *builder.getInsertionBlock();
  auto last = [&] { return program.empty() ? nullptr : &program.back(); };
  for (Operation &op : block.without_terminator()) {
    Operation *before = last();
    if (failed(addOp(&op)))
      return failure();
    if (plan::getOwner(&op))
      markSteps(before, &op);
  }
  Operation *before = last();
  addUpdates();
  addOutputs();
  markSteps(before, nullptr);
  return success();
}

LogicalResult ProgramBuilder::run() {
  auto program =
      plan::ProgramOp::create(builder, function.getLoc(), function.getName());
  builder.setInsertionPointToStart(&program.getBody().front());
  addArguments();
  findUpdates();
  return addOps();
}
