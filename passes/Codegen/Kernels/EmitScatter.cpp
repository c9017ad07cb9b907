// Loop nest of kernels that write updates where indices name elements.
//
// A slice owns some parts of the result, such as the rows [begin, end) of a
// table. It first fills them with what the scatter starts from, then looks at
// all indices in order and takes the updates that meet its parts. So updates of
// one element are combined in their order, by one slice, whichever thread does
// it. The threads of a block share the elements of a part, each always the same
// ones. Where an index names a whole part, they also share the search: they
// list the updates that meet the block's parts in shared memory
// (BlockSearch.h), and each keeps the elements of the part at hand in
// registers.
//
// Where no two updates meet, a slice owns updates instead, and writes them over
// the data, which is in the result's memory.
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
  /// The parts [lower, upper) of an index of the outer axes that the slice
  /// owns.
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

  /// Updates of the slice's parts that a block has listed, `count` of them from
  /// the update `first` on. Marks are parts, counted from `lower`.
  struct Listed {
    BlockSearch &search;
    Value first, count, lower;
  };
  /// The part whose elements a thread has in registers, and these.
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
// What the result starts from
//===----------------------------------------------------------------------===//

/// Elements of the data, which is an argument or one value.
Value ScatterEmitter::loadData(Value offset, int64_t width) {
  Value data = op.getDataOperand().get();
  if (auto argument = dyn_cast<BlockArgument>(data))
    return fragments.load(context.buffers[argument.getArgNumber()],
                          elementOf(data), offset, width,
                          std::gcd(width, space.inner));
  return createSplat(b, data.getDefiningOp());
}

/// The data's elements [from, to), at most `size`, to the result.
void ScatterEmitter::fillElements(Value from, Value to, int64_t size) {
  emitDynamicChunks(b, from, to, size, {{context.getVectorWidth(), 1}, {1, 1}},
                    [&](Chunk chunk) {
                      fragments.store(
                          toResult(loadData(chunk.index, chunk.width)), buffer,
                          chunk.index, chunk.width, 1);
                    });
}

/// Parts are adjacent: on a CPU they are filled as one run. On a GPU a thread
/// fills the elements whose updates it will take.
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
  // The type that sums and products are computed in is the op's: fp32 for f16.
  ScatterReduction reduction =
      op->getAttrOfType<ScatterReductionAttr>("reduction").getValue();
  Type element = elementOf(op->getResult(0));
  FloatType compute = KernelContext::getComputeType(op);
  Lanes l(b, compute);
  // Integers are combined as they are.
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
  // Floats in the type that the op computes in.
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

/// The update of `scope` to its elements of a part.
void ScatterEmitter::combineAt(const Scope &scope, Value part) {
  Value offset = addIndex(b, fragments.getOffset(scope, output.strides),
                          mulIndex(b, part, space.inner));
  int64_t width = fragments.isVector(scope, output.strides) ? scope.width : 1;
  Value value = scope.values[update.node][update.result];
  Value old =
      fragments.load(buffer, elementOf(op->getResult(0)), offset, width, 1);
  fragments.store(toResult(combine(old, value)), buffer, offset, width, 1);
}

/// The elements of a part from an axis behind the scattered one on; `part` is
/// null where every element has an index of its own.
void ScatterEmitter::emitElements(const Scope &outer, unsigned dimension,
                                  const Owned &owned, Value part) {
  // Neighbours that share an index are combined as vectors, others one by one.
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

/// Whether this slice owns the part that an index names, if it names one.
Value ScatterEmitter::isOwned(const NamedElement &part, const Owned &owned) {
  auto compare = [&](arith::CmpIPredicate predicate, Value bound) {
    return arith::CmpIOp::create(b, predicate, part.index, bound);
  };
  return arith::AndIOp::create(
      b, part.exists,
      arith::AndIOp::create(b, compare(arith::CmpIPredicate::uge, owned.lower),
                            compare(arith::CmpIPredicate::ult, owned.upper)));
}

/// Writes the elements that one index names, if this slice owns them. Nothing
/// for an index out of range.
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

/// All updates of one index of the outer axes, in their order.
void ScatterEmitter::emitOuter(Value outer) {
  // A search among no updates would test the number before the first.
  if (space.updates == 0)
    return;
  // The part of this outer index's elements that the slice owns.
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
  // Updates run in order. An update of an element outside of the slice is
  // skipped.
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
// Updates that a block lists
//===----------------------------------------------------------------------===//

/// Elements of a part where `scope` stands behind it.
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

/// The elements of `part`. If other elements are held in registers they are
/// stored first, and those of `part` loaded.
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

/// Takes `count` updates from entry `place` on; their loads overlap.
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

/// All listed updates of the elements at which `scope` stands, in order.
void ScatterEmitter::combineListed(const Scope &outer, const Listed &listed) {
  constexpr int64_t ahead = 4;
  // What is the same in all updates is computed once.
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

/// The elements of parts from an axis behind the scattered one on, each by one
/// thread of the block, always the same.
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

/// All updates of an index of the outer axes that meet the slice's parts, in
/// their order.
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

/// The updates [begin, end) of all, in the order of indices.
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
    return op->emitOpError("is the only result its kernel can have");
  // Axes of the updates are (before, indices, behind).
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
  // First the old values, then the updates on top.
  emitter.emitFill();
  emitter.emitUpdates();
  return success();
}
