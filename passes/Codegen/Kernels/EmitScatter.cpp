// Loop nest of kernels that write updates where indices name elements.
//
// A slice owns some parts of the result, such as the rows [begin, end) of a
// table. It first fills them with what the scatter starts from, then looks at
// all indices in order and takes the updates that meet its parts. So updates of
// one element are combined in their order, by one slice, whichever thread does
// it. The threads of a block share the elements of a part, each always the same
// ones.
//
// Where no two updates meet, a slice owns updates instead, and writes them over
// the data, which is in the result's memory.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Dialect/MPC/MPC.h"
#include "compiler/Kernels/KernelSpace.h"
#include "passes/Codegen/Kernels/FragmentEmitter.h"
#include "passes/Codegen/Kernels/Indices.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"

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

  void fillElements(Value from, Value to, int64_t size, const Team &team);
  Value loadData(Value offset, int64_t width);
  void emitOuter(Value outer);
  void emitUpdate(const Scope &scope, const Owned &owned);
  void emitPart(const Scope &scope, const Owned &owned);
  void emitElements(const Scope &outer, unsigned dimension, const Owned &owned,
                    Value part);
  void combineAt(const Scope &scope, Value part);
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
                          elementOf(data), offset, width, 1);
  return createSplat(b, data.getDefiningOp());
}

/// The data's elements [from, to), at most `size`, to the result.
void ScatterEmitter::fillElements(Value from, Value to, int64_t size,
                                  const Team &team) {
  emitDynamicChunks(
      b, from, to, size, {{context.getVectorWidth(), 1}, {1, 1}},
      [&](Chunk chunk) {
        fragments.store(toResult(loadData(chunk.index, chunk.width)), buffer,
                        chunk.index, chunk.width, 1);
      },
      team);
}

/// Parts are adjacent: on a CPU they are filled as one run.
void ScatterEmitter::emitFill() {
  Value begin = context.bounds[0], end = context.bounds[1];
  if (!context.target.isGPU()) {
    fillElements(mulIndex(b, begin, space.inner), mulIndex(b, end, space.inner),
                 space.outer * space.size * space.inner, {});
    return;
  }
  emitLoop(b, begin, end, 1, {}, [&](Value row, ValueRange) {
    Value from = mulIndex(b, row, space.inner);
    fillElements(from, addIndex(b, from, space.inner), space.inner,
                 context.columns);
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

/// Writes the elements that one index names, if this slice owns them. Nothing
/// for an index out of range.
void ScatterEmitter::emitPart(const Scope &outer, const Owned &owned) {
  Scope scope = outer;
  fragments.evaluate(scope, {index.node});
  Value name = scope.values[index.node][index.result];
  NamedElement part = resolveIndex(b, name, space.size);
  auto compare = [&](arith::CmpIPredicate predicate, Value bound) {
    return arith::CmpIOp::create(b, predicate, part.index, bound);
  };
  Value isOwned = arith::AndIOp::create(
      b, part.exists,
      arith::AndIOp::create(b, compare(arith::CmpIPredicate::uge, owned.lower),
                            compare(arith::CmpIPredicate::ult, owned.upper)));
  emitWhere(b, isOwned, [&] {
    if (!isNamedPerElement())
      return emitElements(scope, body.getGroup(2).first, owned, part.index);
    fragments.evaluate(scope, {update.node});
    combineAt(scope, part.index);
  });
}

/// All updates of one index of the outer axes, in their order.
void ScatterEmitter::emitOuter(Value outer) {
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
