// Imports products of selected rows with matrices, and with each other
// (SelectedNode.h).
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Ops/Tensor/SelectedNode.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx_frontend;

LogicalResult SelectedNode::importMatMul() {
  const int64_t ranks[] = {rankOf(0), rankOf(1)};
  const SelectedRows *rows[] = {find(0), find(1)};
  if (ranks[0] == 0 || ranks[1] == 0)
    return refuse("and this op has no product of them");
  const bool isVector[] = {ranks[0] == 1, ranks[1] == 1};
  // The axis of each operand that the product sums over.
  const int64_t summed[] = {ranks[0] - 1, isVector[1] ? 0 : ranks[1] - 2};
  if (rows[0] && rows[1]) {
    FailureOr<SelectedRows> both = findOnly();
    if (failed(both))
      return failure();
    if (rows[0]->axis == summed[0] && rows[1]->axis == summed[1])
      return buildFilled(0);
  }
  // Each row is multiplied alone. `fromEnd` is the axis of the rows, counted
  // from the end.
  int64_t fromEnd = 0, axis = 0;
  for (int i : {0, 1}) {
    if (!rows[i])
      continue;
    int64_t place = ranks[i] - rows[i]->axis;
    bool isOfMatrix = place <= 2;
    if (rows[i]->axis == summed[i] || (rows[1 - i] && isOfMatrix) ||
        (fromEnd != 0 && place != fromEnd))
      return refuse("and this op sums over them");
    // If the rows are whole matrices of a batch, the other operand must be the
    // same matrix for all rows.
    int64_t other = ranks[1 - i] - place;
    if (!isOfMatrix && !rows[1 - i] && other >= 0 &&
        node.operandShape(1 - i)[other] != 1)
      return refuse("and is combined with all matrices of '" +
                    node.getInputName(1 - i) + "'");
    fromEnd = place;
    // The result has no axis for a vector operand: a vector on the right
    // removes the last axis, a vector on the left the last but one.
    axis = isVector[1]                 ? rows[i]->axis
           : isVector[0] && place == 1 ? ranks[1] - 2
           : isVector[0]               ? rows[i]->axis
                                       : std::max(ranks[0], ranks[1]) - place;
  }
  return build(axis);
}

LogicalResult SelectedNode::importGemm() {
  const SelectedRows *a = find(0), *b = find(1);
  int64_t kOfA = node.integer("transA", 0) ? 0 : 1;
  int64_t kOfB = node.integer("transB", 0) ? 1 : 0;
  if (find(2) || rankOf(0) != 2 || rankOf(1) != 2)
    return refuse("and this op sums over them");
  if (a && b) {
    FailureOr<SelectedRows> both = findOnly();
    if (failed(both))
      return failure();
    return a->axis == kOfA && b->axis == kOfB
               ? buildFilled(0)
               : refuse("and so has the other operand");
  }
  // True if C, the addend of the Gemm, has the same elements for all rows.
  auto isShared = [&](int64_t fromEnd) {
    int64_t rank = node.hasInput(2) ? rankOf(2) : 0;
    return rank < fromEnd || node.operandShape(2)[rank - fromEnd] == 1;
  };
  bool isOfA = a && a->axis != kOfA && isShared(2);
  bool isOfB = b && b->axis != kOfB && isShared(1);
  return isOfA   ? build(0)
         : isOfB ? build(1)
                 : refuse("and this op sums over them");
}

/// Imports an Einsum. One letter of the equation must name the axis of the rows
/// in all operands with selected rows, and no axis of other operands.
LogicalResult SelectedNode::importEinsum() {
  std::string equation = node.string("equation", "");
  llvm::erase(equation, ' ');
  auto [left, result] = StringRef(equation).split("->");
  SmallVector<StringRef> terms;
  left.split(terms, ',');
  FailureOr<SelectedRows> rows = findOnly();
  if (failed(rows))
    return failure();
  if (StringRef(equation).contains('.') ||
      !StringRef(equation).contains("->") ||
      terms.size() != node.getNumInputs())
    return refuse("and the equation does not name all axes");
  std::optional<char> letter;
  for (auto [i, term] : llvm::enumerate(terms))
    if (const SelectedRows *own = find(i)) {
      if (own->axis >= static_cast<int64_t>(term.size()) ||
          (letter && *letter != term[own->axis]))
        return refuse("and meets others of them");
      letter = term[own->axis];
    }
  for (auto [i, term] : llvm::enumerate(terms))
    if (term.count(*letter) != (find(i) ? 1u : 0u))
      return refuse("and is combined with all rows of '" +
                    node.getInputName(i) + "'");
  size_t axis = result.find(*letter);
  return axis == StringRef::npos ? buildFilled(0) : build(axis);
}
