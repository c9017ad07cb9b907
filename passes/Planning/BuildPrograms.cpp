// Turns functions on tensors into programs on buffers.
//
// Every value gets memory: state and inputs their own, a reshape that of its
// source, everything else a slice of the arena whose offset is assigned later.
// A new value of a state variable is written over the old one where everything
// that reads the old one is done by then; otherwise it is copied at the end. An
// elementwise kernel may write over an operand that nothing needs any more.
// A scan's carried values lie where its results do, and are treated in its body
// as state is in a function. Both branches of a condition write its results.
//
// SPDX-License-Identifier: Apache-2.0
#include "passes/Planning/Passes.h"

#include "compiler/Dialect/Plan/Plan.h"
#include "compiler/Kernels/KernelSegments.h"
#include "compiler/Kernels/KernelSpace.h"
#include "compiler/Kernels/TensorCoreTiling.h"
#include "passes/Planning/Contractions.h"
#include "passes/Planning/Liveness.h"
#include "passes/Planning/RowCopies.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/SmallPtrSet.h"

namespace mpc {
#define GEN_PASS_DEF_BUILDPROGRAMSPASS
#include "passes/Planning/Passes.h.inc"
} // namespace mpc

using namespace mlir;
using namespace mpc;

namespace {
/// What an op reads, as far as writing over it is concerned.
struct Reads {
  /// Every operand of a result's type is read at the element that is written.
  bool elementwise = false;
  /// Operands that are read elsewhere all the same: those of a contraction, and
  /// tables.
  SmallVector<Value> contracted;
  /// Each segment reads operands of its own, and no other segment's result may
  /// be written over them.
  bool segmented = false;
  /// The operand that the result is, but for some elements; null where there is
  /// none.
  Value overwritten = Value();
  /// The memory of every operand, with its type or, where operands of several
  /// types are views of it, none.
  DenseMap<Value, Type> typeOf = DenseMap<Value, Type>();
};

/// What is copied instead of launching `kernel`: on a GPU nothing, whose copies
/// are of whole buffers.
SmallVector<RowCopy> findCopies(func::FuncOp kernel, const TargetInfo &target) {
  return target.isGPU() ? SmallVector<RowCopy>() : findRowCopies(kernel);
}

class ProgramBuilder {
public:
  ProgramBuilder(func::FuncOp function, const SymbolTable &symbols,
                 const TargetInfo &target, bool allowTF32);
  LogicalResult run();

private:
  void addArguments();
  void findUpdates();
  LogicalResult addOps();
  LogicalResult addOp(Operation *op);
  LogicalResult addScan(ScanCallOp scan);
  LogicalResult addBody(ScanCallOp scan, ArrayRef<Value> operands,
                        ArrayRef<Value> results);
  LogicalResult addIf(IfCallOp op);
  LogicalResult addBranch(ArrayRef<Value> operands, ArrayRef<Value> results);
  void placeYielded(Value value, Value place);
  void placeStacked(ScanCallOp scan, ArrayRef<Value> results);
  void addLaunch(func::CallOp call, func::FuncOp kernel);
  void addCopies(func::CallOp call, ArrayRef<RowCopy> copies);
  LogicalResult addContraction(Operation *op, func::CallOp epilogue);
  LogicalResult addProduct(plan::ProductOp op);
  LogicalResult addUnfused(plan::ProductOp op,
                           SmallVectorImpl<plan::LaunchOp> &launches);
  IntegerAttr getSharedBytes(func::FuncOp kernel);
  void addUpdates();
  void addOutputs();

  bool mayOverwrite(Operation *op, Value old, const Reads &reads) const;
  Value chooseBuffer(Operation *op, Value result, const Reads &reads,
                     llvm::SmallPtrSetImpl<Operation *> &taken);
  SmallVector<Value> placeResults(Operation *op, Reads reads);

  Value newArena(Type type, Location location);
  bool isAligned(Value part) const;
  Value newPart(Value whole, Type part, bool reversed, Location location);
  Value stateBuffer(FlatSymbolRefAttr state, Type type);
  void noteUpdate(OpOperand &result, Attribute variable);
  bool isOverwritten(Value source) const;
  Value save(Value source);
  SmallVector<Value> buffersOf(ValueRange values) const {
    return llvm::map_to_vector(values, [&](Value value) {
      Value buffer = buffers.lookup(value);
      assert(buffer && "values have memory before they are used");
      return buffer;
    });
  }

  func::FuncOp function;
  Block &block;
  const SymbolTable &symbols;
  const TargetInfo &target;
  bool allowTF32;
  EpilogueCalls epilogueOf;
  std::optional<Liveness> liveness;
  OpBuilder builder;
  ContractionEmitter contractions;
  DenseMap<Value, Value> buffers;
  /// Memory of values whose place is known before the op that makes them.
  DenseMap<Value, Value> places;
  /// Memory and old value (if it is read at all) of state variables, by their
  /// names, and of carried values, by their numbers.
  llvm::MapVector<Attribute, Value> states;
  DenseMap<Attribute, Value> oldValues;
  /// The variable a value is the new value of.
  DenseMap<Value, Attribute> replaces;
  /// The new values of all variables, as the terminator has them.
  SmallVector<std::pair<Value, Attribute>> updates;
  /// What is copied to where at the end, and memory that this overwrites.
  SmallVector<std::pair<Value, Value>> copies;
  llvm::SmallPtrSet<Operation *, 8> overwritten;
  /// Memory of results, or parts of it, that the terminator's values go to.
  SmallVector<std::pair<Value, Value>> yielded;
};

struct BuildProgramsPass
    : public mpc::impl::BuildProgramsPassBase<BuildProgramsPass> {
  using BuildProgramsPassBase::BuildProgramsPassBase;
  void runOnOperation() override {
    FailureOr<TargetInfo> info = TargetInfo::get(target, getOperation());
    if (failed(info))
      return signalPassFailure();
    SymbolTable symbols(getOperation());
    llvm::SetVector<StringRef> bodies;
    getOperation().walk([&](Operation *op) {
      if (auto scan = dyn_cast<ScanCallOp>(op))
        bodies.insert(scan.getFunction());
      if (auto condition = dyn_cast<IfCallOp>(op)) {
        bodies.insert(condition.getThenFunction());
        bodies.insert(condition.getElseFunction());
      }
    });
    for (auto function :
         llvm::make_early_inc_range(getOperation().getOps<func::FuncOp>())) {
      if (getKernelKind(function) || bodies.contains(function.getName()))
        continue;
      if (failed(ProgramBuilder(function, symbols, *info, tf32).run()))
        return signalPassFailure();
      function.erase();
    }
    for (StringRef body : bodies)
      symbols.lookup(body)->erase();
    for (auto kernel :
         llvm::make_early_inc_range(getOperation().getOps<func::FuncOp>()))
      if (!findCopies(kernel, *info).empty())
        kernel.erase();
  }
};
} // namespace

static MemRefType bufferType(Type type) {
  auto tensor = cast<RankedTensorType>(type);
  return MemRefType::get(tensor.getShape(), tensor.getElementType());
}

//===----------------------------------------------------------------------===//
// Where results go
//===----------------------------------------------------------------------===//

Value ProgramBuilder::newArena(Type type, Location location) {
  return plan::ArenaOp::create(builder, location, bufferType(type),
                               IntegerAttr());
}

// Whether `op` may write over `old`: nothing uses it later, and `op` itself
// reads it, if at all, at the very element it writes.
bool ProgramBuilder::mayOverwrite(Operation *op, Value old,
                                  const Reads &reads) const {
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

// Memory for a result: the state variable it replaces, an operand that ends
// here, or new memory.
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
  // Liveness is known of the function's own ops.
  bool mayReuse = reads.elementwise || reads.overwritten;
  if (!mayReuse || reads.segmented || op->getBlock() != &block)
    return newArena(result.getType(), op->getLoc());
  for (Value operand : op->getOperands()) {
    Value candidate = buffers.lookup(operand);
    // The next iteration may read what a body is given.
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
  for (Value result : op->getResults())
    buffers[result] = chooseBuffer(op, result, reads, taken);
  return buffersOf(op->getResults());
}

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

// The dynamic shared memory of a kernel's blocks: that of the tiles of products
// on Tensor Cores.
IntegerAttr ProgramBuilder::getSharedBytes(func::FuncOp kernel) {
  if (getKernelKind(kernel) != KernelKind::Contraction)
    return IntegerAttr();
  for (Operation &op : kernel.getBody().front())
    if (auto tiling = getTensorCoreTiling(&op, target))
      return builder.getI64IntegerAttr(tiling->getSharedBytes());
  return IntegerAttr();
}

// The operands of a call that its kernel does not read at the element it
// writes: tables, and what a contraction multiplies.
static SmallVector<Value> findReadElsewhere(func::CallOp call,
                                            func::FuncOp kernel) {
  SmallVector<Value> found;
  auto add = [&](Value read) {
    if (auto argument = dyn_cast<BlockArgument>(read))
      found.push_back(call.getOperand(argument.getArgNumber()));
  };
  for (Operation &op : kernel.getBody().front()) {
    if (OpOperand *table = findTable(&op))
      add(table->get());
    if (hasRole(&op, RegionRole::Contraction))
      llvm::for_each(op.getOperands(), add);
  }
  return found;
}

// Whether a kernel reads every other operand at the element it writes. On a
// CPU what follows a contraction does: one worker computes an element. What is
// stored in another order is not where operands of its type were.
static bool isElementwise(func::FuncOp kernel, const TargetInfo &target) {
  KernelKind kind = *getKernelKind(kernel);
  return (kind == KernelKind::Pointwise || kind == KernelKind::Epilogue ||
          (kind == KernelKind::Contraction && !target.isGPU())) &&
         llvm::none_of(kernel.getBody().front(),
                       [](Operation &op) { return isArrangement(&op); });
}

// The operand of a call whose kernel writes some elements of it, and has to
// find all others in the result's memory.
static Value findOverwritten(func::CallOp call, func::FuncOp kernel) {
  if (getKernelKind(kernel) != KernelKind::Scatter)
    return {};
  ScatterOpInterface scatter = findScatter(kernel.getBody().front());
  if (!scatter.hasUniqueIndices())
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

void ProgramBuilder::addLaunch(func::CallOp call, func::FuncOp kernel) {
  // Kernels have at least one element.
  if (givesNothing(call)) {
    placeResults(call, Reads());
    return;
  }
  KernelPartition partition = getKernelPartition(kernel, target);
  bool elementwise = isElementwise(kernel, target);
  Value overwritten = findOverwritten(call, kernel);
  SmallVector<Value> outputs =
      placeResults(call, {elementwise, findReadElsewhere(call, kernel),
                          elementwise && isSegmented(kernel), overwritten});
  if (Value data = overwritten ? buffers.lookup(overwritten) : Value();
      data && plan::getStorage(data) != plan::getStorage(outputs.front()))
    plan::CopyOp::create(builder, call.getLoc(), data, outputs.front());
  auto ifAbove = [&](int64_t least, int64_t value) {
    return value > least ? builder.getI64IntegerAttr(value) : IntegerAttr();
  };
  plan::LaunchOp::create(builder, call.getLoc(), call.getCalleeAttr(),
                         buffersOf(call.getOperands()), outputs,
                         builder.getI64IntegerAttr(partition.extent),
                         builder.getI64IntegerAttr(partition.grain),
                         ifAbove(1, partition.threads), getSharedBytes(kernel),
                         ifAbove(0, partition.scratch));
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
    result.outputs =
        placeResults(epilogue, {isElementwise(kernel, target),
                                SmallVector<Value>(op->getOperands())});
  } else {
    plan::ArrangeOp arrange = findArrange(op->getResult(0));
    result.buffer = placeResults(arrange ? arrange : op, Reads()).front();
  }
  return contractions.emit(op, buffers.lookup(op->getOperand(0)),
                           buffers.lookup(op->getOperand(1)), result);
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
  placeResults(op, Reads());
  auto find = [&](Value value) {
    return value ? buffers.lookup(value) : Value();
  };
  SmallVector<plan::LaunchOp> launches;
  if (!op.getUnfused().empty() && failed(addUnfused(op, launches)))
    return failure();
  plan::MatMulOp product = contractions.emit(
      op, {find(op.getLhs()), find(op.getRhs()), find(op.getOutput()),
           find(op.getBias()), find(op.getAux() ? op.getAux() : op.getNewAux()),
           find(op.getBiasGrad())});
  if (launches.empty())
    return success();
  Block &unfused = product.getUnfused().emplaceBlock();
  for (plan::LaunchOp launch : launches)
    launch->moveBefore(&unfused, unfused.end());
  return success();
}

LogicalResult ProgramBuilder::addOp(Operation *op) {
  if (auto constant = dyn_cast<ConstantOp>(op)) {
    buffers[constant] = plan::ConstantOp::create(builder, op->getLoc(),
                                                 bufferType(constant.getType()),
                                                 constant.getValue());
    return success();
  }
  if (auto view = dyn_cast<ReshapeOp>(op)) {
    buffers[view] =
        plan::ViewOp::create(builder, op->getLoc(), bufferType(view.getType()),
                             buffers.lookup(view.getInput()));
    return success();
  }
  // Products ask where their operands are, and write arranged what they do.
  if (auto access = dyn_cast<plan::AccessOp>(op)) {
    buffers[access.getOutput()] = buffers.lookup(access.getSource());
    return success();
  }
  if (isa<plan::ArrangeOp>(op))
    return success();
  if (auto product = dyn_cast<plan::ProductOp>(op))
    return addProduct(product);
  if (auto scan = dyn_cast<ScanCallOp>(op))
    return addScan(scan);
  if (auto condition = dyn_cast<IfCallOp>(op))
    return addIf(condition);
  // One with an epilogue is added where that is called.
  if (hasRole(op, RegionRole::Contraction))
    return epilogueOf.count(op) ? success()
                                : addContraction(op, func::CallOp());
  if (auto call = dyn_cast<func::CallOp>(op)) {
    auto kernel = symbols.lookup<func::FuncOp>(call.getCallee());
    std::optional<KernelKind> kind =
        kernel ? getKernelKind(kernel) : std::nullopt;
    if (!kind)
      return call.emitOpError("expected a kernel, found @") << call.getCallee();
    if (*kind == KernelKind::Epilogue)
      return addContraction(call.getOperand(0).getDefiningOp(), call);
    SmallVector<RowCopy> copies = findCopies(kernel, target);
    if (copies.empty())
      addLaunch(call, kernel);
    else
      addCopies(call, copies);
    return success();
  }
  return op->emitOpError("expected a kernel call, a contraction, a scan, a "
                         "reshape or a constant");
}

//===----------------------------------------------------------------------===//
// Arguments, updates and outputs
//===----------------------------------------------------------------------===//

Value ProgramBuilder::stateBuffer(FlatSymbolRefAttr state, Type type) {
  Value &buffer = states[state];
  if (!buffer)
    buffer = plan::StateOp::create(builder, function.getLoc(), bufferType(type),
                                   state);
  return buffer;
}

void ProgramBuilder::addArguments() {
  for (BlockArgument argument : block.getArguments()) {
    unsigned number = argument.getArgNumber();
    if (auto state =
            function.getArgAttrOfType<FlatSymbolRefAttr>(number, kStateAttr)) {
      buffers[argument] = stateBuffer(state, argument.getType());
      oldValues[state] = argument;
      continue;
    }
    auto name = function.getArgAttrOfType<StringAttr>(number, kInputAttr);
    auto role = function.getArgAttrOfType<StringAttr>(number, kRoleAttr);
    buffers[argument] = plan::InputOp::create(
        builder, function.getLoc(), bufferType(argument.getType()),
        name ? name : builder.getStringAttr("arg" + Twine(number)),
        role ? role : builder.getStringAttr("data"),
        function.getArgAttrOfType<IntegerAttr>(number, kIndexSizeAttr));
  }
}

// One value can replace several variables: it is written to the first and
// copied to the others.
void ProgramBuilder::noteUpdate(OpOperand &result, Attribute variable) {
  updates.emplace_back(result.get(), variable);
  replaces.try_emplace(result.get(), variable);
}

// Notes which value replaces which variable's.
void ProgramBuilder::findUpdates() {
  for (OpOperand &result : block.getTerminator()->getOpOperands())
    if (auto state = function.getResultAttrOfType<FlatSymbolRefAttr>(
            result.getOperandNumber(), kUpdatesAttr)) {
      stateBuffer(state, result.get().getType());
      noteUpdate(result, state);
    }
}

// Whether a copy at the end writes over the memory of `source`.
bool ProgramBuilder::isOverwritten(Value source) const {
  return overwritten.contains(plan::getStorage(source).getDefiningOp());
}

// What `source` holds, out of the way of the copies at the end.
Value ProgramBuilder::save(Value source) {
  if (!isOverwritten(source))
    return source;
  Location location = function.getLoc();
  Value saved = plan::ArenaOp::create(
      builder, location, cast<MemRefType>(source.getType()), IntegerAttr());
  plan::CopyOp::create(builder, location, source, saved);
  return saved;
}

// Finds the new values that are not in place, and moves old values that are
// still wanted when their variable is written out of the way.
void ProgramBuilder::addUpdates() {
  for (auto [value, variable] : updates) {
    Value source = buffers.lookup(value), destination = states.lookup(variable);
    if (plan::getStorage(source) == destination)
      continue;
    copies.emplace_back(source, destination);
    overwritten.insert(destination.getDefiningOp());
  }
  for (auto &[source, destination] : copies)
    source = save(source);
}

// Names the outputs and does the copies.
void ProgramBuilder::addOutputs() {
  Location location = function.getLoc();
  SmallVector<plan::OutputOp> outputs;
  for (OpOperand &result : block.getTerminator()->getOpOperands()) {
    unsigned number = result.getOperandNumber();
    auto name = function.getResultAttrOfType<StringAttr>(number, kOutputAttr);
    auto role = function.getResultAttrOfType<StringAttr>(number, kRoleAttr);
    if (!name)
      continue;
    outputs.push_back(plan::OutputOp::create(
        builder, location, name, role ? role : builder.getStringAttr("output"),
        save(buffers.lookup(result.get()))));
  }
  // What is yielded is read before what it may be is written over.
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
// Loops
//===----------------------------------------------------------------------===//

// The part of `whole` that an iteration is at, which goes from the last to the
// first where `reversed`.
Value ProgramBuilder::newPart(Value whole, Type part, bool reversed,
                              Location location) {
  MemRefType type = bufferType(part);
  int64_t bytes = plan::getBufferBytes(type);
  int64_t count = cast<MemRefType>(whole.getType()).getDimSize(0);
  return plan::PartOp::create(builder, location, type, whole,
                              reversed ? (count - 1) * bytes : 0,
                              reversed ? -bytes : bytes);
}

// Whether kernels take the parts of a tensor where they lie.
bool ProgramBuilder::isAligned(Value part) const {
  int64_t bytes = plan::getBufferBytes(cast<MemRefType>(part.getType()));
  return !target.isGPU() || bytes % TargetInfo::kGPUAlignment == 0;
}

// Lets a value of the terminator be written to `place`, where a result lies; a
// view of a value, as the value itself.
void ProgramBuilder::placeYielded(Value value, Value place) {
  yielded.emplace_back(value, place);
  Value made = Liveness::root(value);
  if (isa<BlockArgument>(made) || !isAligned(place))
    return;
  if (bufferType(made.getType()) != place.getType())
    place = plan::ViewOp::create(builder, place.getLoc(),
                                 bufferType(made.getType()), place);
  places.try_emplace(made, place);
}

void ProgramBuilder::placeStacked(ScanCallOp scan, ArrayRef<Value> results) {
  unsigned carried = scan.getCarried().size();
  ValueRange values = block.getTerminator()->getOperands();
  for (auto [index, value] : llvm::enumerate(values.drop_front(carried)))
    placeYielded(value,
                 newPart(results[carried + index], value.getType(),
                         scan.getReversedOutputs()[index], scan.getLoc()));
}

// The steps of one iteration. `operands` and `results` are the memory of those
// of `scan`.
LogicalResult ProgramBuilder::addBody(ScanCallOp scan, ArrayRef<Value> operands,
                                      ArrayRef<Value> results) {
  unsigned carried = scan.getCarried().size();
  unsigned scanned = scan.getScanned().size();
  for (auto [index, argument] : llvm::enumerate(block.getArguments())) {
    if (index < carried) {
      Attribute number = builder.getI64IntegerAttr(index);
      buffers[argument] = states[number] = results[index];
      oldValues[number] = argument;
      noteUpdate(block.getTerminator()->getOpOperand(index), number);
    } else if (index < carried + scanned) {
      bool reversed = scan.getReversedInputs()[index - carried];
      Value part =
          newPart(operands[index], argument.getType(), reversed, scan.getLoc());
      buffers[argument] = part;
      if (!isAligned(part)) {
        buffers[argument] = newArena(argument.getType(), scan.getLoc());
        plan::CopyOp::create(builder, scan.getLoc(), part, buffers[argument]);
      }
    } else {
      buffers[argument] = operands[index];
    }
  }
  placeStacked(scan, results);
  return addOps();
}

LogicalResult ProgramBuilder::addScan(ScanCallOp scan) {
  SmallVector<Value> operands = buffersOf(scan.getOperands());
  SmallVector<Value> results = placeResults(scan, Reads());
  for (unsigned i = 0; i < scan.getCarried().size(); ++i)
    plan::CopyOp::create(builder, scan.getLoc(), operands[i], results[i]);
  auto loop = plan::ForOp::create(builder, scan.getLoc(), scan.getLength());
  ProgramBuilder body(symbols.lookup<func::FuncOp>(scan.getFunction()), symbols,
                      target, allowTF32);
  body.builder.setInsertionPointToStart(&loop.getBody().emplaceBlock());
  return body.addBody(scan, operands, results);
}

//===----------------------------------------------------------------------===//
// Conditions
//===----------------------------------------------------------------------===//

// The steps of one branch, with the memory of operands and results.
LogicalResult ProgramBuilder::addBranch(ArrayRef<Value> operands,
                                        ArrayRef<Value> results) {
  for (auto [argument, operand] : llvm::zip(block.getArguments(), operands))
    buffers[argument] = operand;
  for (auto [value, result] :
       llvm::zip(block.getTerminator()->getOperands(), results))
    placeYielded(value, result);
  return addOps();
}

LogicalResult ProgramBuilder::addIf(IfCallOp op) {
  Value condition = buffers.lookup(op.getCondition());
  SmallVector<Value> operands = buffersOf(op.getCaptured());
  SmallVector<Value> results = placeResults(op, Reads());
  auto step = plan::IfOp::create(builder, op.getLoc(), condition);
  StringRef functions[] = {op.getThenFunction(), op.getElseFunction()};
  for (auto [body, name] : llvm::zip(step->getRegions(), functions)) {
    ProgramBuilder branch(symbols.lookup<func::FuncOp>(name), symbols, target,
                          allowTF32);
    branch.builder.setInsertionPointToStart(&body.emplaceBlock());
    if (failed(branch.addBranch(operands, results)))
      return failure();
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

ProgramBuilder::ProgramBuilder(func::FuncOp function,
                               const SymbolTable &symbols,
                               const TargetInfo &target, bool allowTF32)
    : function(function), block(function.getBody().front()), symbols(symbols),
      target(target), allowTF32(allowTF32),
      epilogueOf(findEpilogues(block, symbols)), builder(function),
      contractions(builder, target, allowTF32) {}

LogicalResult ProgramBuilder::addOps() {
  liveness.emplace(block, epilogueOf);
  for (Operation &op : block.without_terminator())
    if (failed(addOp(&op)))
      return failure();
  addUpdates();
  addOutputs();
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
