// SPDX-License-Identifier: Apache-2.0
#include "passes/Codegen/Kernels/FragmentEmitter.h"

#include "compiler/Dialect/MPC/MPC.h"
#include "passes/Codegen/Kernels/Elementwise/ElementwiseTable.h"
#include "passes/Codegen/Kernels/EmitRotaryEmbedding.h"
#include "passes/Codegen/Kernels/Loops/Indices.h"
#include "passes/Codegen/Kernels/Loops/Loops.h"
#include "passes/Codegen/Kernels/Reduction/Accumulators.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "llvm/ADT/BitVector.h"

#include <numeric>

using namespace mlir;
using namespace mpc;
using namespace mpc::codegen;

Scope FragmentEmitter::createScope() const {
  Scope scope;
  scope.indices.resize(body.getDimensions().size());
  scope.values.resize(body.getNodes().size());
  return scope;
}

void FragmentEmitter::enterGroup(Scope &scope, unsigned group, Value index) {
  auto [first, end] = body.getGroup(group);
  SmallVector<int64_t> sizes;
  for (unsigned d = first; d < end; ++d)
    sizes.push_back(body.getDimensions()[d].size);
  for (auto [offset, part] : llvm::enumerate(splitIndex(b, index, sizes)))
    scope.enter(first + offset, part);
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

bool FragmentEmitter::isVector(const Scope &scope,
                               ArrayRef<int64_t> strides) const {
  assert(strides.size() == body.getDimensions().size() &&
         "a stride per dimension");
  unsigned last = body.getDimensions().size() - 1;
  return scope.width > 1 && (scope.known >> last & 1) && strides[last] != 0;
}

Value FragmentEmitter::getOffset(const Scope &scope,
                                 ArrayRef<int64_t> strides) {
  Value offset;
  for (auto [index, stride] : llvm::zip_equal(scope.indices, strides)) {
    if (stride == 0)
      continue;
    assert(index && "the value depends on known dimensions alone");
    Value term = mulIndex(b, index, stride);
    offset = offset ? addIndex(b, offset, term) : term;
  }
  return offset ? offset : createIndex(b, 0);
}

Value FragmentEmitter::addOffset(Value offset, int64_t first) {
  return first == 0 ? offset : addIndex(b, offset, createIndex(b, first));
}

/// Returns a number of elements that divides the offset of a vector. The last
/// index is a multiple of the width, and every other index adds a multiple of
/// its stride.
int64_t FragmentEmitter::getMultiple(const Scope &scope,
                                     ArrayRef<int64_t> strides) const {
  int64_t multiple = scope.width;
  for (int64_t stride : strides.drop_back())
    multiple = std::gcd(multiple, stride);
  return multiple;
}

/// Loads elements. Booleans are bytes in memory.
Value FragmentEmitter::load(Value buffer, Type element, Value offset,
                            int64_t width, int64_t multiple) {
  Value value = context.load(buffer, offset, width, multiple);
  if (!element.isInteger(1))
    return value;
  Lanes lanes(b, b.getF32Type());
  Type storage = getElementTypeOrSelf(value.getType());
  return lanes.compare(arith::CmpIPredicate::ne, value,
                       lanes.integer(storage, 0));
}

void FragmentEmitter::store(Value value, Value buffer, Value offset,
                            int64_t width, int64_t multiple) {
  if (width > 1 && !isa<VectorType>(value.getType()))
    value = vector::BroadcastOp::create(
        b, VectorType::get(width, value.getType()), value);
  Type storage = cast<MemRefType>(buffer.getType()).getElementType();
  if (getElementTypeOrSelf(value.getType()).isInteger(1))
    value = arith::ExtUIOp::create(b, Lanes::typeLike(storage, value), value);
  context.store(value, buffer, offset, multiple);
}

/// On CPUs, prefetches the current columns in the next row of a tile. Rows of a
/// tile are short runs of rows in memory, too short for a CPU to predict the
/// next row (docs/measured/cpu.md).
void FragmentEmitter::prefetchNextRow(Value buffer, Value offset,
                                      ArrayRef<int64_t> strides, bool isWrite) {
  int64_t row = strides[body.getGroup(0).second - 1];
  if (!tileBase || context.target.isGPU() || row == 0)
    return;
  constexpr uint32_t kAllCaches = 3;
  memref::PrefetchOp::create(b, buffer, addIndex(b, offset, row), isWrite,
                             kAllCaches, /*isDataCache=*/true);
}

Value FragmentEmitter::loadArgument(const Scope &scope, const Node &node) {
  // In an epilogue, argument 0 is a tile of the product. All other arguments
  // are whole buffers.
  bool vector = isVector(scope, *node.strides);
  Value offset;
  if (node.argument == 0 && tileBase) {
    offset = addIndex(b, tileBase, scope.indices.back());
    vector = scope.width > 1;
  } else {
    offset = getOffset(scope, *node.strides);
    assert((!vector || node.strides->back() == 1) &&
           "adjacent elements lie side by side");
  }
  offset = addOffset(offset, node.offset);
  // Prefetch the next row along with the load.
  if (vector && node.argument != 0)
    prefetchNextRow(context.buffers[node.argument], offset, *node.strides,
                    /*isWrite=*/false);
  Value argument = context.kernel.getArgument(node.argument);
  return load(context.buffers[node.argument], elementOf(argument), offset,
              vector ? scope.width : 1,
              std::gcd(getMultiple(scope, *node.strides), node.offset));
}

Value FragmentEmitter::loadElements(const Node &argument, Value offset,
                                    int64_t width, int64_t multiple) {
  assert(!argument.op && "only arguments are loaded");
  Value value = context.kernel.getArgument(argument.argument);
  return load(context.buffers[argument.argument], elementOf(value), offset,
              width, multiple);
}

void FragmentEmitter::store(const Scope &scope, const Output &output) {
  assert(output.value.result < scope.values[output.value.node].size() &&
         "the output is computed before its store");
  assert(output.argument < context.buffers.size() && "a buffer of the kernel");
  Value value = scope.values[output.value.node][output.value.result];
  bool vector = isVector(scope, output.strides);
  assert((!vector || output.strides.back() == 1) &&
         "adjacent elements lie side by side");
  Value offset = addOffset(getOffset(scope, output.strides), output.offset);
  if (vector)
    prefetchNextRow(context.buffers[output.argument], offset, output.strides,
                    /*isWrite=*/true);
  store(value, context.buffers[output.argument], offset,
        vector ? scope.width : 1,
        std::gcd(getMultiple(scope, output.strides), output.offset));
}

//===----------------------------------------------------------------------===//
// Tables
//===----------------------------------------------------------------------===//

/// Loads `width` adjacent elements at one index of a table's indexed axis, such
/// as elements of a row. The result is zero if `index` is out of range.
/// `offset` is the offset of the elements at index 0 of the axis.
Value FragmentEmitter::loadTableAt(const Node &node, Value index, Value offset,
                                   int64_t width, int64_t multiple) {
  NamedElement part = resolveIndex(b, index, node.table->size);
  Value place =
      addIndex(b, offset, mulIndex(b, part.index, node.table->stride));
  Type element = elementOf(context.kernel.getArgument(node.table->argument));
  Value value = load(context.buffers[node.table->argument], element, place,
                     width, std::gcd(multiple, node.table->stride));
  Value zero = arith::ConstantOp::create(
      b, b.getZeroAttr(getElementTypeOrSelf(value.getType())));
  return Lanes(b, b.getF32Type()).select(part.exists, value, zero);
}

/// Emits the look-up of table elements at the position of `scope`. Each lane is
/// loaded separately if lanes have different indices into the table or are not
/// adjacent.
Value FragmentEmitter::loadTable(const Scope &scope, const Node &node) {
  assert(node.table && node.strides && "the op reads a table");
  NodeResult operand = node.operands.front();
  Value index = scope.values[operand.node][operand.result];
  Value offset = getOffset(scope, *node.strides);
  bool vector = isVector(scope, *node.strides);
  int64_t step = node.strides->back();
  // If all lanes have the same table index and adjacent elements, one load
  // suffices.
  if (!isa<VectorType>(index.getType()) && (!vector || step == 1))
    return loadTableAt(node, index, offset, vector ? scope.width : 1,
                       getMultiple(scope, *node.strides));
  // Lanes with different indices, or with gaps between them, are loaded one by
  // one.
  SmallVector<Value> lanes;
  for (int64_t lane = 0; lane < scope.width; ++lane) {
    Value own = index;
    if (isa<VectorType>(index.getType()))
      own = vector::ExtractOp::create(b, index, lane);
    Value place = vector ? addIndex(b, offset, lane * step) : offset;
    lanes.push_back(loadTableAt(node, own, place, 1, 1));
  }
  auto type = VectorType::get(scope.width, lanes.front().getType());
  return vector::FromElementsOp::create(b, type, lanes);
}

//===----------------------------------------------------------------------===//
// Ops
//===----------------------------------------------------------------------===//

Value FragmentEmitter::getOperand(const Scope &scope, NodeResult operand,
                                  FloatType compute) {
  assert(operand.result < scope.values[operand.node].size() &&
         "operands are computed before their users");
  Value value = scope.values[operand.node][operand.result];
  if (!isa<FloatType>(getElementTypeOrSelf(value.getType())))
    return value;
  return Lanes(b, compute).convert(value, compute);
}

/// Rounds the result of an op to its element type, also if the result stays in
/// a register. Results thus do not depend on the ops that share a kernel.
Value FragmentEmitter::round(Value value, Type elementType) {
  if (auto type = dyn_cast<FloatType>(elementType))
    return Lanes(b, type).convert(value, type);
  // Integers may have been accumulated in a wider type.
  Type from = getElementTypeOrSelf(value.getType());
  unsigned width = elementType.getIntOrFloatBitWidth();
  if (from.getIntOrFloatBitWidth() == width)
    return value;
  return arith::TruncIOp::create(
      b, Lanes::typeLike(b.getIntegerType(width), value), value);
}

/// Returns the position that ops such as one_hot and dropout depend on; empty
/// for other ops.
ElementIndex FragmentEmitter::getElementIndex(const Scope &scope,
                                              const Node &node) {
  if (!node.strides)
    return {};
  // Compute the index of the first lane in the op's own tensor.
  Type i64 = b.getI64Type();
  Value index =
      arith::IndexCastOp::create(b, i64, getOffset(scope, *node.strides));
  if (!isVector(scope, *node.strides))
    return {index};
  // The index of lane i is larger by i strides. With stride 0, all lanes
  // compute the same element.
  auto type = VectorType::get(scope.width, i64);
  SmallVector<int64_t> steps;
  for (int64_t lane = 0; lane < scope.width; ++lane)
    steps.push_back(lane * node.strides->back());
  Value lanes = arith::ConstantOp::create(
      b, type, DenseElementsAttr::get(type, ArrayRef(steps)));
  index = arith::AddIOp::create(b, vector::BroadcastOp::create(b, type, index),
                                lanes);
  // A random generator makes several numbers per call, and can use all
  // numbers if the first index is known to be a multiple of their count.
  bool isAdjacent = node.strides->back() == 1;
  return {index, isAdjacent ? getMultiple(scope, *node.strides) : 0};
}

Value codegen::createSplat(ImplicitLocOpBuilder &b, Operation *op) {
  Type element =
      cast<RankedTensorType>(op->getResult(0).getType()).getElementType();
  if (isa<GradientSeedOp>(op))
    return arith::ConstantOp::create(
        b, b.getFloatAttr(cast<FloatType>(element), 1));
  auto value = cast<DenseElementsAttr>(cast<ConstantOp>(op).getValue());
  if (auto type = dyn_cast<FloatType>(element))
    return arith::ConstantOp::create(
        b, FloatAttr::get(type, value.getSplatValue<APFloat>()));
  APInt bits = value.getSplatValue<APInt>();
  Type signless = b.getIntegerType(bits.getBitWidth());
  return arith::ConstantOp::create(b, IntegerAttr::get(signless, bits));
}

void FragmentEmitter::compute(Scope &scope, unsigned number) {
  const Node &node = body.getNodes()[number];
  SmallVector<Value, 1> &results = scope.values[number];
  // Arguments, constants, table lookups and views need no formula.
  if (!node.op) {
    results.push_back(loadArgument(scope, node));
    return;
  }
  b.setLoc(node.op->getLoc());
  if (isa<ConstantOp, GradientSeedOp>(node.op)) {
    results.push_back(createSplat(b, node.op));
    return;
  }
  // An op that reads a table, such as a gather, gets the index from an operand.
  if (node.table) {
    results.push_back(
        round(loadTable(scope, node), elementOf(node.op->getResult(0))));
    return;
  }
  // A view passes its operand's value on. KernelBody has already changed the
  // place at which the operand is read.
  if (isa<ReshapeOp, TransposeOp>(node.op)) {
    results.push_back(
        scope.values[node.operands[0].node][node.operands[0].result]);
    return;
  }
  // Operands are converted to the compute type of the op, and results to their
  // own types.
  FloatType type = KernelContext::getComputeType(node.op);
  Lanes lanes(b, type);
  if (isa<RotaryEmbeddingOp>(node.op)) {
    results.push_back(round(emitRotaryEmbedding(*this, lanes, scope, node),
                            elementOf(node.op->getResult(0))));
    return;
  }
  // All other ops have a formula in the table.
  SmallVector<Value> operands;
  for (NodeResult operand : node.operands)
    operands.push_back(getOperand(scope, operand, type));
  const ElementwiseTable::Formula *formula =
      ElementwiseTable::get().find(node.op);
  SmallVector<Value> values =
      (*formula)(lanes, node.op, operands, getElementIndex(scope, node));
  for (auto [value, result] : llvm::zip_equal(values, node.op->getResults()))
    results.push_back(round(
        value, cast<RankedTensorType>(result.getType()).getElementType()));
}

void FragmentEmitter::evaluate(Scope &scope, ArrayRef<unsigned> targets) {
  ArrayRef<Node> nodes = body.getNodes();
  // Go backwards through the nodes to find the needed values that the scope
  // does not have yet.
  llvm::BitVector needed(nodes.size());
  for (unsigned target : targets)
    needed.set(target);
  for (unsigned number = nodes.size(); number-- > 0;) {
    if (!needed[number])
      continue;
    if (!scope.values[number].empty())
      needed.reset(number);
    else
      for (NodeResult operand : nodes[number].operands)
        needed.set(operand.node);
  }
  // Go forwards and compute every needed node whose dimensions and operands are
  // known. All other nodes wait until further loops are entered.
  for (unsigned number : needed.set_bits()) {
    const Node &node = nodes[number];
    bool ready = !node.isReduction() && !node.isContraction() &&
                 !node.isScatter() && !(node.dimensions & ~scope.known) &&
                 llvm::all_of(node.operands, [&](NodeResult operand) {
                   return !scope.values[operand.node].empty();
                 });
    if (ready)
      compute(scope, number);
  }
}

//===----------------------------------------------------------------------===//
// Reductions
//===----------------------------------------------------------------------===//

Value FragmentEmitter::getReductionInput(const Scope &scope,
                                         unsigned reduction) {
  const Node &node = body.getNodes()[reduction];
  Value value = getOperand(scope, node.operands[0],
                           KernelContext::getComputeType(node.op));
  auto type = dyn_cast<IntegerType>(Accumulator::getType(node.op));
  Type element = elementOf(node.op->getOperand(0));
  if (!type || element.getIntOrFloatBitWidth() == type.getWidth())
    return value;
  Type wide = Lanes::typeLike(type, value);
  if (element.isUnsignedInteger())
    return arith::ExtUIOp::create(b, wide, value);
  return arith::ExtSIOp::create(b, wide, value);
}

void FragmentEmitter::setValue(Scope &scope, unsigned reduction, Value value) {
  Operation *op = body.getNodes()[reduction].op;
  scope.values[reduction].assign({round(
      value,
      cast<RankedTensorType>(op->getResult(0).getType()).getElementType())});
}
