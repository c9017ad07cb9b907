// Emits kernels that apply updates to the elements of a tensor that indices
// name.
//
// A part is the elements at one index of the scattered axis, such as a row of a
// table. A slice owns the parts [begin, end) of the result. The slice first
// fills its parts with the scatter's initial data, then reads all indices in
// order and applies the updates of its parts. Updates of one element are thus
// combined in order, by one slice, whatever the number of threads.
//
// On a GPU, the threads of a block share the elements of a part, and each
// thread always has the same elements. If an index names a whole part, the
// threads also share the search for updates. They list the updates of the
// block's parts in shared memory (BlockSearch.h), and keep the elements of the
// current part in registers.
//
// If indices are unique, a slice owns updates instead of parts. It writes them
// over the initial data, which is already in the result's memory.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Dialect/MPC/MPC.h"
#include "compiler/Kernels/KernelSpace.h"
#include "passes/Codegen/Kernels/FragmentEmitter.h"
#include "passes/Codegen/Kernels/Loops/BlockSearch.h"
#include "passes/Codegen/Kernels/Loops/Indices.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

#include <numeric>

using namespace mlir;
using namespace mpc;
using namespace mpc::codegen;

namespace {
class ScatterEmitter {
public:
  ScatterEmitter(KernelContext &context, const KernelBody &body,
                 ScatterOpInterface op)
      : context(context), body(body), op(op), fragments(context, body),
        b(context.b), output(body.getOutputs().front()),
        space(getScatterSpace(op)), buffer(context.buffers[output.argument]) {
    const Node &node = body.getNodes()[output.value.node];
    index = node.operands[0];
    update = node.operands[1];
  }

  void emitFill();
  void emitUpdates();
  void emitUniqueUpdates();

private:
  /// The parts (such as rows of a table) [lower, upper) that the slice owns, at
  /// one index of the axes before the scattered axis.
  struct Owned {
    Value lower, upper;
  };

  void fillElements(Value from, Value to, int64_t size);
  Value loadData(Value offset, int64_t width);
  void emitOuter(Value outer);
  void emitUpdate(const Scope &scope, const Owned &owned);
  void emitPart(const Scope &scope, const Owned &owned);
  void emitElements(const Scope &outer, unsigned dimension, const Owned &owned,
                    Value part);
  void combineAt(const Scope &scope, Value part);
  Value isOwned(const NamedElement &part, const Owned &owned);

  /// The updates that one round of `search` has found for the slice's parts:
  /// `count` updates, in the round that starts at update `first`. The mark of
  /// an entry is the number of the updated part minus `lower`.
  struct Listed {
    BlockSearch &search;
    Value first, count, lower;
  };
  /// The part that a thread updates, and the thread's elements of this part, in
  /// registers.
  struct Held {
    Value part, elements;
  };

  void searchUpdates(const Scope &scope, const Owned &owned);
  void emitColumns(const Scope &outer, unsigned dimension,
                   llvm::function_ref<void(const Scope &)> emit);
  void combineListed(const Scope &outer, const Listed &listed);
  Held takeListed(const Scope &scope, const Listed &listed, Value place,
                  int64_t count, Held held);
  Held changePart(const Scope &scope, Held held, Value part);
  Held load(const Scope &scope, Value part);
  void store(const Scope &scope, const Held &held);
  Value offsetOf(const Scope &scope, Value part);
  int64_t widthOf(const Scope &scope) const {
    return fragments.isVector(scope, output.strides) ? scope.width : 1;
  }
  Value combine(Value old, Value update);
  Value toResult(Value value) {
    auto type = dyn_cast<FloatType>(elementOf(op->getResult(0)));
    return type ? Lanes(b, type).convert(value, type) : value;
  }
  bool isNamedPerElement() const {
    return body.getNodes()[index.node].dimensions & body.getGroupMask(2);
  }

  KernelContext &context;
  const KernelBody &body;
  ScatterOpInterface op;
  FragmentEmitter fragments;
  ImplicitLocOpBuilder &b;
  const Output &output;
  ScatterSpace space;
  Value buffer;
  NodeResult index, update;
};
} // namespace

//===----------------------------------------------------------------------===//
// Initial data
//===----------------------------------------------------------------------===//

/// Loads elements of the scatter's initial data, which is an argument or a
/// splat constant.
Value ScatterEmitter::loadData(Value offset, int64_t width) {
  Value data = op.getDataOperand().get();
  if (auto argument = dyn_cast<BlockArgument>(data))
    return fragments.load(context.buffers[argument.getArgNumber()],
                          elementOf(data), offset, width,
                          std::gcd(width, space.inner));
  return createSplat(b, data.getDefiningOp());
}

/// Copies elements [from, to) of the initial data to the result. There are at
/// most `size`.
void ScatterEmitter::fillElements(Value from, Value to, int64_t size) {
  emitDynamicChunks(b, from, to, size, {{context.getVectorWidth(), 1}, {1, 1}},
                    [&](Chunk chunk) {
                      fragments.store(
                          toResult(loadData(chunk.index, chunk.width)), buffer,
                          chunk.index, chunk.width, 1);
                    });
}

/// Fills the slice's parts of the result with the initial data. On a CPU,
/// adjacent parts are filled as one run. On a GPU, each thread fills the
/// elements that the same thread updates later.
void ScatterEmitter::emitFill() {
  Value begin = context.bounds[0], end = context.bounds[1];
  if (!context.target.isGPU()) {
    fillElements(mulIndex(b, begin, space.inner), mulIndex(b, end, space.inner),
                 space.outer * space.size * space.inner);
    return;
  }
  Scope scope = fragments.createScope();
  fragments.enterGroup(scope, 0, createIndex(b, 0));
  emitLoop(b, begin, end, 1, {}, [&](Value row, ValueRange) {
    emitColumns(scope, body.getGroup(2).first, [&](const Scope &at) {
      store(at, {row, toResult(loadData(offsetOf(at, row), widthOf(at)))});
    });
    return Carried();
  });
}

//===----------------------------------------------------------------------===//
// Updates
//===----------------------------------------------------------------------===//

Value ScatterEmitter::combine(Value old, Value update) {
  // Floats are combined in the op's compute type: fp32 for f16.
  ScatterReduction reduction =
      op->getAttrOfType<ScatterReductionAttr>("reduction").getValue();
  Type element = elementOf(op->getResult(0));
  FloatType compute = KernelContext::getComputeType(op);
  Lanes l(b, compute);
  // Integers are combined in their own type.
  if (!isa<FloatType>(element)) {
    bool isUnsigned = element.isUnsignedInteger();
    switch (reduction) {
    case ScatterReduction::None:
      return update;
    case ScatterReduction::Add:
      return l.addInt(old, update);
    case ScatterReduction::Mul:
      return l.mulInt(old, update);
    case ScatterReduction::Max:
      return l.select(l.compare(isUnsigned ? arith::CmpIPredicate::ugt
                                           : arith::CmpIPredicate::sgt,
                                update, old),
                      update, old);
    case ScatterReduction::Min:
      return l.select(l.compare(isUnsigned ? arith::CmpIPredicate::ult
                                           : arith::CmpIPredicate::slt,
                                update, old),
                      update, old);
    }
  }
  old = l.convert(old, compute);
  update = l.convert(update, compute);
  switch (reduction) {
  case ScatterReduction::None:
    return update;
  case ScatterReduction::Add:
    return l.add(old, update);
  case ScatterReduction::Mul:
    return l.mul(old, update);
  case ScatterReduction::Max:
    return l.maximum(old, update);
  case ScatterReduction::Min:
    return l.minimum(old, update);
  }
  llvm_unreachable("an unknown reduction");
}

/// Loads the elements of `part` at the position of `scope`, combines them with
/// the update there, and stores them.
void ScatterEmitter::combineAt(const Scope &scope, Value part) {
  Value offset = addIndex(b, fragments.getOffset(scope, output.strides),
                          mulIndex(b, part, space.inner));
  int64_t width = fragments.isVector(scope, output.strides) ? scope.width : 1;
  Value value = scope.values[update.node][update.result];
  Value old =
      fragments.load(buffer, elementOf(op->getResult(0)), offset, width, 1);
  fragments.store(toResult(combine(old, value)), buffer, offset, width, 1);
}

/// Emits the updates of a part: the loops along `dimension` and all later
/// dimensions, which follow the scattered axis. `part` is null if every element
/// has its own index.
void ScatterEmitter::emitElements(const Scope &outer, unsigned dimension,
                                  const Owned &owned, Value part) {
  // Neighbouring elements that share an index are updated as a vector. Elements
  // with an index each are updated one by one.
  unsigned last = body.getDimensions().size() - 1;
  int64_t size = body.getDimensions()[dimension].size;
  Team team = dimension == body.getLargest(2) ? context.columns : Team();
  int64_t width = part ? context.getVectorWidth() : 1;
  emitChunks(
      b, size, dimension == last ? width : 1, 1, {},
      [&](Chunk chunk, ValueRange) {
        Scope scope = outer;
        scope.width = chunk.width;
        scope.enter(dimension, chunk.index);
        if (dimension < last) {
          emitElements(scope, dimension + 1, owned, part);
        } else if (part) {
          fragments.evaluate(scope, {update.node});
          combineAt(scope, part);
        } else {
          emitPart(scope, owned);
        }
        return Carried();
      },
      team);
}

/// Emits a test that is true if an index names an existing part that this slice
/// owns.
Value ScatterEmitter::isOwned(const NamedElement &part, const Owned &owned) {
  auto compare = [&](arith::CmpIPredicate predicate, Value bound) {
    return arith::CmpIOp::create(b, predicate, part.index, bound);
  };
  return arith::AndIOp::create(
      b, part.exists,
      arith::AndIOp::create(b, compare(arith::CmpIPredicate::uge, owned.lower),
                            compare(arith::CmpIPredicate::ult, owned.upper)));
}

/// Emits the update for one index, if this slice owns the part that the index
/// names. Ignores an index out of range.
void ScatterEmitter::emitPart(const Scope &outer, const Owned &owned) {
  Scope scope = outer;
  fragments.evaluate(scope, {index.node});
  Value name = scope.values[index.node][index.result];
  NamedElement part = resolveIndex(b, name, space.size);
  emitWhere(b, isOwned(part, owned), [&] {
    if (!isNamedPerElement())
      return emitElements(scope, body.getGroup(2).first, owned, part.index);
    fragments.evaluate(scope, {update.node});
    combineAt(scope, part.index);
  });
}

/// Emits the updates of the slice's parts, in order, at one index of the axes
/// before the scattered axis.
void ScatterEmitter::emitOuter(Value outer) {
  // With no updates, BlockSearch would test update -1.
  if (space.updates == 0)
    return;
  // Find the parts that the slice owns at this index of the outer axes.
  Value start = mulIndex(b, outer, space.size);
  Value stop = addIndex(b, start, space.size);
  Value lower = arith::MaxUIOp::create(b, context.bounds[0], start);
  Value upper = arith::MinUIOp::create(b, context.bounds[1], stop);
  Owned owned{arith::SubIOp::create(b, lower, start),
              arith::SubIOp::create(b, upper, start)};
  Scope scope = fragments.createScope();
  fragments.enterGroup(scope, 0, outer);
  fragments.evaluate(scope, {index.node, update.node});
  if (context.target.isGPU() && !isNamedPerElement())
    return searchUpdates(scope, owned);
  // Updates run in order. Updates of elements outside the slice are skipped.
  emitLoop(b, space.updates, 1, {}, [&](Value number, ValueRange) {
    Scope at = scope;
    fragments.enterGroup(at, 1, number);
    if (isNamedPerElement())
      emitElements(at, body.getGroup(2).first, owned, nullptr);
    else
      emitPart(at, owned);
    return Carried();
  });
}

//===----------------------------------------------------------------------===//
// Updates that a block has listed in shared memory
//===----------------------------------------------------------------------===//

/// Returns the offset in the result of the elements of `part` at the position
/// of `scope`.
Value ScatterEmitter::offsetOf(const Scope &scope, Value part) {
  return addIndex(b, fragments.getOffset(scope, output.strides),
                  mulIndex(b, part, space.inner));
}

ScatterEmitter::Held ScatterEmitter::load(const Scope &scope, Value part) {
  int64_t width = widthOf(scope);
  return {part, fragments.load(buffer, elementOf(op->getResult(0)),
                               offsetOf(scope, part), width,
                               std::gcd(width, space.inner))};
}

void ScatterEmitter::store(const Scope &scope, const Held &held) {
  int64_t width = widthOf(scope);
  fragments.store(held.elements, buffer, offsetOf(scope, held.part), width,
                  std::gcd(width, space.inner));
}

/// Makes `part` the part that is held in registers. If another part is held,
/// stores its elements and loads the elements of `part`.
ScatterEmitter::Held ScatterEmitter::changePart(const Scope &scope, Held held,
                                                Value part) {
  Value isSame =
      arith::CmpIOp::create(b, arith::CmpIPredicate::eq, part, held.part);
  auto choice = scf::IfOp::create(
      b, isSame,
      [&](OpBuilder &nested, Location loc) {
        scf::YieldOp::create(nested, loc, held.elements);
      },
      [&](OpBuilder &nested, Location) {
        OpBuilder::InsertionGuard guard(b);
        b.setInsertionPointToEnd(nested.getInsertionBlock());
        store(scope, held);
        scf::YieldOp::create(b, load(scope, part).elements);
      });
  return {part, choice.getResult(0)};
}

/// Emits `count` listed updates, from entry `place` of the list on. All are
/// loaded before the first is applied, so that the loads overlap.
ScatterEmitter::Held ScatterEmitter::takeListed(const Scope &scope,
                                                const Listed &listed,
                                                Value place, int64_t count,
                                                Held held) {
  SmallVector<Value> parts, updates;
  for (int64_t i = 0; i < count; ++i) {
    Value at = addIndex(b, place, i);
    Scope own = scope;
    fragments.enterGroup(own, 1, listed.search.getNumber(listed.first, at));
    fragments.evaluate(own, {update.node});
    updates.push_back(own.values[update.node][update.result]);
    parts.push_back(addIndex(b, listed.search.getMark(at), listed.lower));
  }
  for (auto [part, value] : llvm::zip_equal(parts, updates)) {
    held = changePart(scope, held, part);
    Value wide = Lanes(b, b.getF32Type()).broadcast(value, held.elements);
    held.elements = toResult(combine(held.elements, wide));
  }
  return held;
}

/// Emits all listed updates of the elements at the position of `outer`, in
/// order.
void ScatterEmitter::combineListed(const Scope &outer, const Listed &listed) {
  constexpr int64_t ahead = 4;
  // Values that are equal for all updates are computed once.
  Scope scope = outer;
  fragments.evaluate(scope, {update.node});
  Value none = createIndex(b, 0);
  Value isAny =
      arith::CmpIOp::create(b, arith::CmpIPredicate::ne, listed.count, none);
  emitWhere(b, isAny, [&] {
    Value rest = arith::RemUIOp::create(b, listed.count, createIndex(b, ahead));
    Value middle = arith::SubIOp::create(b, listed.count, rest);
    Held held =
        load(scope, addIndex(b, listed.search.getMark(none), listed.lower));
    auto take = [&](Value from, Value to, int64_t count) {
      Carried end = emitLoop(b, from, to, count, {held.part, held.elements},
                             [&](Value place, ValueRange carried) {
                               Held next =
                                   takeListed(scope, listed, place, count,
                                              {carried[0], carried[1]});
                               return Carried({next.part, next.elements});
                             });
      held = {end[0], end[1]};
    };
    take(none, middle, ahead);
    take(middle, listed.count, 1);
    store(scope, held);
  });
}

/// Emits loops along `dimension` and all later dimensions, which follow the
/// scattered axis, and calls `emit` in the innermost loop. The same thread of
/// the block always visits an element.
void ScatterEmitter::emitColumns(const Scope &outer, unsigned dimension,
                                 llvm::function_ref<void(const Scope &)> emit) {
  unsigned last = body.getDimensions().size() - 1;
  Team team = dimension == body.getLargest(2) ? context.columns : Team();
  int64_t width =
      dimension == last && !isNamedPerElement() ? context.getVectorWidth() : 1;
  emitChunks(
      b, body.getDimensions()[dimension].size, width, 1, {},
      [&](Chunk chunk, ValueRange) {
        Scope scope = outer;
        scope.width = chunk.width;
        scope.enter(dimension, chunk.index);
        if (dimension < last)
          emitColumns(scope, dimension + 1, emit);
        else
          emit(scope);
        return Carried();
      },
      team);
}

/// Emits a search by all threads of the block for updates of the slice's parts,
/// at one index of the axes before the scattered axis. Applies the updates in
/// order.
void ScatterEmitter::searchUpdates(const Scope &scope, const Owned &owned) {
  BlockSearch search(context, space.updates);
  search.emit(
      [&](Value number) -> BlockSearch::Found {
        Scope at = scope;
        fragments.enterGroup(at, 1, number);
        fragments.evaluate(at, {index.node});
        Value name = at.values[index.node][index.result];
        NamedElement part = resolveIndex(b, name, space.size);
        return {isOwned(part, owned),
                arith::SubIOp::create(b, part.index, owned.lower)};
      },
      [&](Value first, Value count) {
        Listed listed{search, first, count, owned.lower};
        emitColumns(scope, body.getGroup(2).first,
                    [&](const Scope &at) { combineListed(at, listed); });
      });
}

void ScatterEmitter::emitUpdates() {
  Value size = createIndex(b, space.size);
  Value first = arith::DivUIOp::create(b, context.bounds[0], size);
  Value end = arith::CeilDivUIOp::create(b, context.bounds[1], size);
  emitLoop(b, first, end, 1, {}, [&](Value outer, ValueRange) {
    emitOuter(outer);
    return Carried();
  });
}

/// Emits a scatter with unique indices: applies the updates [begin, end), which
/// the slice owns.
void ScatterEmitter::emitUniqueUpdates() {
  Value none = createIndex(b, 0), updates = createIndex(b, space.updates);
  Owned all{none, createIndex(b, space.size)};
  emitLoop(b, context.bounds[0], context.bounds[1], 1, {},
           [&](Value number, ValueRange) {
             Scope scope = fragments.createScope();
             fragments.enterGroup(scope, 0,
                                  arith::DivUIOp::create(b, number, updates));
             fragments.enterGroup(scope, 1,
                                  arith::RemUIOp::create(b, number, updates));
             emitPart(scope, all);
             return Carried();
           });
}

LogicalResult codegen::emitScatter(KernelContext &context) {
  ScatterOpInterface op = findScatter(context.kernel.getBody().front());
  if (context.kernel.getNumResults() != 1)
    return op->emitOpError("must be the only result of its kernel, found ")
           << context.kernel.getNumResults() << " results";
  // Group the axes of the updates: axes before the scattered axis, axes of the
  // indices, axes after the scattered axis.
  ArrayRef<int64_t> shape = shapeOf(op.getUpdatesOperand().get());
  int64_t axis = op.getScatteredAxis(), rank = shape.size();
  int64_t behind = shapeOf(op->getResult(0)).size() - axis - 1;
  FailureOr<KernelBody> body = KernelBody::create(
      context.kernel, shape, {axis, rank - axis - behind, behind});
  if (failed(body))
    return failure();
  ScatterEmitter emitter(context, *body, op);
  if (op.hasUniqueIndices()) {
    emitter.emitUniqueUpdates();
    return success();
  }
  // Fill the result with the initial data first, then apply the updates.
  emitter.emitFill();
  emitter.emitUpdates();
  return success();
}
