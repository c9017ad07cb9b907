// Describes attention as products, reductions and elementwise operations. The
// library knows graphs of this form, and compiles each to one or two kernels.
//
// The gradient of the queries is a product of the scores' gradients, which the
// library then keeps in scratch memory. The library also takes a graph that
// adds up this gradient in any order, without a note on the engine. So the
// graph decides the order, not the notes.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/dnn/DNNAttentionGraph.h"

namespace mpc::runtime::cuda {

std::vector<int64_t>
AttentionGraph::denseStrides(const std::vector<int64_t> &extents) {
  std::vector<int64_t> strides(extents.size(), 1);
  for (size_t axis = extents.size(); axis-- > 1;)
    strides[axis - 1] = strides[axis] * extents[axis];
  return strides;
}

/// Adds an operand [batch, heads, tokens, columns], or with the last two axes
/// exchanged.
DNNGraph::Node AttentionGraph::operand(AttentionOperand operand,
                                       bool isTransposed) const {
  Extents extents, strides;
  for (const StridedAxis &axis : blockOf(step, operand).axes) {
    extents.push_back(axis.extent);
    strides.push_back(axis.stride);
  }
  if (isTransposed) {
    std::swap(extents[2], extents[3]);
    std::swap(strides[2], strides[3]);
  }
  return graph.memory(idOf(operand), type, extents, strides,
                      kAttentionAlignment);
}

/// Adds the bias, with an extent of 1 along each axis that the bias does not
/// have.
DNNGraph::Node AttentionGraph::bias() const {
  Extents extents, strides;
  for (const StridedAxis &axis : blockOf(step, AttentionOperand::Bias).axes) {
    extents.push_back(axis.stride == 0 ? 1 : axis.extent);
    strides.push_back(axis.stride);
  }
  // An axis of extent 1 has the stride of a dense tensor, which is never 0.
  for (size_t axis = extents.size(); axis-- > 0;)
    if (strides[axis] == 0)
      strides[axis] = axis + 1 == extents.size()
                          ? 1
                          : strides[axis + 1] * extents[axis + 1];
  DeviceOperand memory = operands.get(AttentionOperand::Bias);
  memory.data = static_cast<std::byte *>(memory.data) +
                step.biasAt.offset * sizeOf(memory.type);
  return graph.memory(idOf(AttentionOperand::Bias), toDNN(memory.type), extents,
                      strides, memory.alignment(kAttentionAlignment));
}

DNNGraph::Node AttentionGraph::rowsInMemory(AttentionTensorId id) {
  const Extents extents = {step.batch, step.heads, step.queries, 1};
  others.push_back(id);
  return graph.memory(id, DNNType::F32, extents, denseStrides(extents),
                      kAttentionAlignment);
}

DNNGraph::Node AttentionGraph::number(AttentionTensorId id, DNNType type) {
  others.push_back(id);
  return graph.number(id, type, 4);
}

void AttentionGraph::multiplyInto(Node a, Node b, Node c) const {
  const Node product = graph.add(DNNDescriptorType::MatMul);
  graph.set(product, DNNAttribute::MatMulComputeType, DNNType::F32);
  graph.finish(product);
  const Node operation = graph.add(DNNDescriptorType::MatMulOperation);
  graph.set(operation, DNNAttribute::MatMulDescriptor, product);
  graph.set(operation, DNNAttribute::MatMulA, a);
  graph.set(operation, DNNAttribute::MatMulB, b);
  graph.set(operation, DNNAttribute::MatMulC, c);
  graph.append(operation);
}

void AttentionGraph::reduceInto(DNNReduction kind, Node x, Node y) const {
  const Node reduction = graph.add(DNNDescriptorType::Reduction);
  graph.set(reduction, DNNAttribute::ReductionOperator,
            DNNAttributeType::ReductionOperator, &kind, 1);
  graph.set(reduction, DNNAttribute::ReductionComputeType, DNNType::F32);
  graph.finish(reduction);
  const Node operation = graph.add(DNNDescriptorType::ReductionOperation);
  graph.set(operation, DNNAttribute::ReductionDescriptor, reduction);
  graph.set(operation, DNNAttribute::ReductionX, x);
  graph.set(operation, DNNAttribute::ReductionY, y);
  graph.append(operation);
}

void AttentionGraph::applyInto(DNNPointwise mode, Node y, Node x,
                               std::initializer_list<Node> others,
                               DNNType precision, int64_t axis) const {
  const Node pointwise = graph.add(DNNDescriptorType::Pointwise);
  graph.set(pointwise, DNNAttribute::PointwiseMode,
            DNNAttributeType::PointwiseMode, &mode, 1);
  graph.set(pointwise, DNNAttribute::PointwiseMathPrecision, precision);
  if (axis >= 0)
    graph.set(pointwise, DNNAttribute::PointwiseAxis, axis);
  graph.finish(pointwise);
  const Node operation = graph.add(DNNDescriptorType::PointwiseOperation);
  graph.set(operation, DNNAttribute::PointwiseDescriptor, pointwise);
  graph.set(operation, DNNAttribute::PointwiseX, x);
  DNNAttribute attribute = DNNAttribute::PointwiseB;
  for (Node other : others) {
    graph.set(operation, attribute, other);
    attribute = DNNAttribute::PointwiseT;
  }
  graph.set(operation, DNNAttribute::PointwiseY, y);
  graph.append(operation);
}

DNNGraph::Node AttentionGraph::reshape(Node x, Node y) const {
  const Node operation = graph.add(DNNDescriptorType::ReshapeOperation);
  graph.set(operation, DNNAttribute::ReshapeX, x);
  graph.set(operation, DNNAttribute::ReshapeY, y);
  graph.append(operation);
  return y;
}

DNNGraph::Node AttentionGraph::scaleNode() {
  if (!scaleNumber)
    scaleNumber = number(kScale, DNNType::F32);
  return *scaleNumber;
}

/// Replaces scores that a query must not see by -infinity: query i sees key j
/// if i + offset >= j.
DNNGraph::Node AttentionGraph::maskCausally(Node x) {
  if (!isMasked(step))
    return x;
  Node row = scores(DNNType::I32);
  applyInto(DNNPointwise::Index, row, x, {}, DNNType::F32, 2);
  const Node column = scores(DNNType::I32);
  applyInto(DNNPointwise::Index, column, x, {}, DNNType::F32, 3);
  if (*step.causalOffset != 0) {
    // The offset is keys - queries. The library knows the mask in this form.
    const Node moved = scores(DNNType::I32), aligned = scores(DNNType::I32);
    applyInto(DNNPointwise::Add, moved, row, {number(kKeys, DNNType::I32)},
              DNNType::I32);
    applyInto(DNNPointwise::Subtract, aligned, moved,
              {number(kQueries, DNNType::I32)}, DNNType::I32);
    row = aligned;
  }
  const Node isSeen = scores(DNNType::Boolean);
  applyInto(DNNPointwise::AtLeast, isSeen, row, {column}, DNNType::Boolean);
  return apply(DNNPointwise::Select, x,
               {number(kMinusInfinity, DNNType::F32), isSeen});
}

void AttentionGraph::addForward() {
  using Operand = AttentionOperand;
  Node s = multiply(operand(Operand::Query), operand(Operand::Key, true));
  s = scale(s);
  if (step.bias)
    s = apply(DNNPointwise::Add, s, {bias()});
  s = maskCausally(s);
  // The softmax, and its statistics max + log(sum).
  const Node largest = rows(), sum = rows();
  reduceInto(DNNReduction::Max, s, largest);
  const Node e =
      apply(DNNPointwise::Exp, apply(DNNPointwise::Subtract, s, {largest}));
  reduceInto(DNNReduction::Sum, e, sum);
  if (step.statistics) {
    const Node logarithm = rows();
    applyInto(DNNPointwise::Log, logarithm, sum);
    applyInto(DNNPointwise::Add, rowsInMemory(kStatistics), largest,
              {logarithm});
  }
  const Node p = scores(type);
  applyInto(DNNPointwise::Divide, p, e, {sum});
  multiplyInto(p, operand(Operand::Value), operand(Operand::Output));
}

/// Returns a tensor for scores as columns: [batch, heads, keys, queries].
DNNGraph::Node AttentionGraph::transposedScores() const {
  return graph.between(type, {step.batch, step.heads, step.keys, step.queries},
                       {step.heads * step.queries * step.keys,
                        step.queries * step.keys, 1, step.keys});
}

/// Writes the gradient of keys or values: the product of the transposed scores
/// with an operand that has a row per query. Adds up the heads that share keys.
void AttentionGraph::multiplyKeys(Node transposed, Node queries,
                                  AttentionOperand result, int64_t width) {
  if (step.heads == step.keyHeads)
    return multiplyInto(transposed, queries, operand(result));
  const Node all = between({step.batch, step.heads, step.keys, width}, type);
  multiplyInto(transposed, queries, all);
  reduceInto(DNNReduction::Sum, all, operand(result));
}

void AttentionGraph::addGradient() {
  using Operand = AttentionOperand;
  // The sum of d_output * output of each query.
  const Node dOutput = operand(Operand::DOutput);
  const Node products =
      between({step.batch, step.heads, step.queries, step.columns});
  applyInto(DNNPointwise::Multiply, products, dOutput,
            {operand(Operand::Output)});
  const Node dots = rows(), outputDots = rowsInMemory(kOutputDots);
  reduceInto(DNNReduction::Sum, products, dots);
  applyInto(DNNPointwise::Multiply, outputDots, dots,
            {number(kOne, DNNType::F32)});
  // Scores less statistics have the probabilities as exponentials, so no
  // maximum and no sum is needed again.
  const Node query = operand(Operand::Query);
  const Node key = operand(Operand::Key, true);
  Node s = scale(multiply(query, key));
  if (step.bias)
    s = apply(DNNPointwise::Add, s, {bias()});
  s = apply(DNNPointwise::Subtract, s, {rowsInMemory(kStatistics)});
  const Node p = apply(DNNPointwise::Exp, maskCausally(s));
  multiplyKeys(reshape(p, transposedScores()), dOutput, Operand::DValue,
               step.columns);
  // The scores' gradient: p * (d_output v^T - output dots) * scale.
  Node ds = multiply(dOutput, operand(Operand::Value, true));
  ds = apply(DNNPointwise::Subtract, ds, {outputDots});
  ds = scale(apply(DNNPointwise::Multiply, ds, {p}));
  multiplyKeys(reshape(ds, transposedScores()), query, Operand::DKey,
               step.size);
  // The product of the scores' gradient with the keys.
  const StridedBlock keys = blockOf(step, Operand::Key);
  Extents extents, strides;
  for (const StridedAxis &axis : keys.axes) {
    extents.push_back(axis.extent);
    strides.push_back(axis.stride);
  }
  multiplyInto(ds, reshape(key, graph.between(type, extents, strides)),
               operand(Operand::DQuery));
}

} // namespace mpc::runtime::cuda
