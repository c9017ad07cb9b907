// Emits the formulas of IntegerFormulas.def.
//
// SPDX-License-Identifier: Apache-2.0
#include "passes/Codegen/Kernels/Elementwise/EmitIntegers.h"
#include "compiler/Dialect/MPC/Fold/ConstantElements.h"
#include "compiler/Dialect/MPC/Fold/IntegerFormulas.h"
#include "passes/Codegen/Kernels/Elementwise/ElementwiseTable.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::codegen;

namespace mpc::codegen {
namespace {

/// The integer type with which the formulas of IntegerFormulas.def are
/// instantiated. Arithmetic on an Integer emits ops. MLIR values are signless,
/// so `hasNoSign` says if the tensor's element type is unsigned.
struct Integer {
  Lanes *l;
  Value value;
  bool hasNoSign;
};
struct Truth {
  Lanes *l;
  Value value;
};

//===----------------------------------------------------------------------===//
// Operations of formulas
//===----------------------------------------------------------------------===//

unsigned getWidth(Integer x) {
  return getElementTypeOrSelf(x.value.getType()).getIntOrFloatBitWidth();
}
bool isUnsigned(Integer x) { return x.hasNoSign; }

Integer number(int64_t value, Integer like) {
  Type type = getElementTypeOrSelf(like.value.getType());
  return {like.l, like.l->integer(type, value), like.hasNoSign};
}

template <typename OpTy>
Value combine(Lanes &l, Value x, Value y) {
  return OpTy::create(l.getBuilder(), l.broadcast(x, y), l.broadcast(y, x));
}

#define MPC_OPERATOR(SIGN, SIGNED, UNSIGNED)                                   \
  Integer operator SIGN(Integer x, Integer y) {                                \
    Value value = x.hasNoSign                                                  \
                      ? combine<arith::UNSIGNED>(*x.l, x.value, y.value)       \
                      : combine<arith::SIGNED>(*x.l, x.value, y.value);        \
    return {x.l, value, x.hasNoSign};                                          \
  }
MPC_OPERATOR(+, AddIOp, AddIOp)
MPC_OPERATOR(-, SubIOp, SubIOp)
MPC_OPERATOR(*, MulIOp, MulIOp)
MPC_OPERATOR(/, DivSIOp, DivUIOp)
MPC_OPERATOR(%, RemSIOp, RemUIOp)
MPC_OPERATOR(&, AndIOp, AndIOp)
MPC_OPERATOR(|, OrIOp, OrIOp)
MPC_OPERATOR(^, XOrIOp, XOrIOp)
#undef MPC_OPERATOR

Integer operator~(Integer x) { return x ^ number(-1, x); }
Integer shiftBitsLeft(Integer x, Integer amount) {
  return {x.l, combine<arith::ShLIOp>(*x.l, x.value, amount.value),
          x.hasNoSign};
}
Integer shiftBitsRight(Integer x, Integer amount) {
  Value value = x.hasNoSign
                    ? combine<arith::ShRUIOp>(*x.l, x.value, amount.value)
                    : combine<arith::ShRSIOp>(*x.l, x.value, amount.value);
  return {x.l, value, x.hasNoSign};
}

using Predicate = arith::CmpIPredicate;
Truth compare(Predicate predicate, Integer x, Integer y) {
  return {x.l, x.l->compare(predicate, x.value, y.value)};
}
Truth operator==(Integer x, Integer y) { return compare(Predicate::eq, x, y); }
Truth operator!=(Integer x, Integer y) { return compare(Predicate::ne, x, y); }
Truth operator<(Integer x, Integer y) {
  return compare(x.hasNoSign ? Predicate::ult : Predicate::slt, x, y);
}
Truth operator<=(Integer x, Integer y) {
  return compare(x.hasNoSign ? Predicate::ule : Predicate::sle, x, y);
}

Truth either(Truth x, Truth y) {
  return {x.l, combine<arith::OrIOp>(*x.l, x.value, y.value)};
}
Truth both(Truth x, Truth y) {
  return {x.l, combine<arith::AndIOp>(*x.l, x.value, y.value)};
}
Truth differ(Truth x, Truth y) {
  return {x.l, combine<arith::XOrIOp>(*x.l, x.value, y.value)};
}
Integer where(Truth condition, Integer x, Integer y) {
  return {x.l, x.l->select(condition.value, x.value, y.value), x.hasNoSign};
}

//===----------------------------------------------------------------------===//
// The table
//===----------------------------------------------------------------------===//

Integer makeInteger(Lanes &l, Value value, Value operand) {
  return {&l, value, isUnsignedElement(elementOf(operand))};
}

template <typename OpTy>
void addUnaryInteger(ElementwiseTable &table) {
  table.addInteger<OpTy>([](Lanes &l, OpTy op, typename OpTy::Adaptor in) {
    return integers::evaluate(op, makeInteger(l, in.getInput(), op.getInput()))
        .value;
  });
}

template <typename OpTy>
void addBinaryInteger(ElementwiseTable &table) {
  table.addInteger<OpTy>([](Lanes &l, OpTy op, typename OpTy::Adaptor in) {
    return integers::evaluate(op, makeInteger(l, in.getLhs(), op.getLhs()),
                              makeInteger(l, in.getRhs(), op.getRhs()))
        .value;
  });
}

} // namespace
} // namespace mpc::codegen

void codegen::addIntegerFormulas(ElementwiseTable &table) {
#define MPC_INTEGER_UNARY(OP, FORMULA) addUnaryInteger<OP##Op>(table);
#define MPC_INTEGER_BINARY(OP, FORMULA) addBinaryInteger<OP##Op>(table);
#define MPC_INTEGER_COMPARE(OP, FORMULA) addBinaryInteger<OP##Op>(table);
#include "compiler/Dialect/MPC/Fold/IntegerFormulas.def"
}

//===----------------------------------------------------------------------===//
// Reductions
//===----------------------------------------------------------------------===//

Value codegen::emitIntegerFirst(Lanes &l, Operation *op, Type type) {
  Integer x = makeInteger(l, l.integer(type, 0), op->getOperand(0));
#define MPC_INTEGER_REDUCE(OP, FIRST, STEP)                                    \
  if (auto reduction = dyn_cast<OP##Op>(op))                                   \
    return integers::getFirst(reduction, x).value;
#include "compiler/Dialect/MPC/Fold/IntegerFormulas.def"
  llvm_unreachable("no reduction of integers");
}

Value codegen::emitIntegerStep(Lanes &l, Operation *op, Value a, Value b) {
  Integer x = makeInteger(l, a, op->getOperand(0));
  Integer y = makeInteger(l, b, op->getOperand(0));
#define MPC_INTEGER_REDUCE(OP, FIRST, STEP)                                    \
  if (auto reduction = dyn_cast<OP##Op>(op))                                   \
    return integers::evaluate(reduction, x, y).value;
#include "compiler/Dialect/MPC/Fold/IntegerFormulas.def"
  llvm_unreachable("no reduction of integers");
}
