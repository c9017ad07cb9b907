// Imports one node that reads selected rows: the rows of a tensor that a mask,
// computed from data, selects.
//
// Shapes are static, so the tensor keeps all rows. Each unselected row is a
// copy of the first selected row. A builder is used unchanged if this does not
// change the result for the selected rows. Otherwise, the unselected rows are
// first filled with a number that changes nothing, or the node is refused.
// Selected rows may be indices. A position is a row of NonZero's result, with a
// column per axis of the mask. A row number counts only the selected rows.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_OPS_TENSOR_SELECTEDNODE_H
#define MPC_FRONTENDS_ONNX_OPS_TENSOR_SELECTEDNODE_H

#include "frontends/ONNX/Importer/CountedIntegers.h"
#include "frontends/ONNX/Importer/Selection.h"

#include "llvm/ADT/ScopeExit.h"

namespace mpc::onnx_frontend {

/// Imports one node with selected rows in some of its inputs.
class SelectedNode {
public:
  using Places = std::optional<llvm::SmallVector<int64_t>>;

  SelectedNode(NodeImporter &node, const OpEntry &entry)
      : node(node), entry(entry) {}

  mlir::LogicalResult import();

private:
  using Import = mlir::LogicalResult (SelectedNode::*)();

  // Inputs.
  const SelectedRows *find(unsigned index) {
    if (!node.hasInput(index))
      return nullptr;
    auto &rows = node.getFunction().lookup(node.getInputName(index)).selected;
    return rows ? &*rows : nullptr;
  }
  int64_t rankOf(unsigned index) { return node.operandShape(index).size(); }
  mlir::FailureOr<SelectedRows> findOnly();
  bool isAlone(unsigned index);
  bool hasNumbers();
  bool areOwnPlaces(const SelectedRows &indices, unsigned data);

  // Results.
  mlir::LogicalResult refuse(const llvm::Twine &why);
  mlir::LogicalResult build(int64_t axis, Places places = std::nullopt);
  mlir::LogicalResult buildWith(unsigned index, mlir::Value value);
  mlir::LogicalResult buildFilled(double number);
  void select(unsigned output, SelectionPtr selection, int64_t axis,
              Places places = std::nullopt) {
    selectOutput(node, output, std::move(selection), axis, std::move(places));
  }
  mlir::LogicalResult reselect(const SelectedRows &rows, int64_t axis);

  // Ops that compute each row alone (ImportSelection.cpp).
  static Import findImport(llvm::StringRef op);
  mlir::LogicalResult importElementwise();
  mlir::LogicalResult importOfSamples();
  mlir::LogicalResult importShape();
  mlir::LogicalResult importMask();

  // Ops that combine rows, such as sums (SelectedSums.cpp).
  mlir::LogicalResult importAlongAxis();
  mlir::LogicalResult importCumulative();
  mlir::LogicalResult importTopK();
  mlir::LogicalResult importReduction();
  mlir::LogicalResult importLoss();

  // Ops that move rows (SelectedMovement.cpp).
  mlir::LogicalResult importMoved();
  mlir::LogicalResult importReshaped();
  mlir::LogicalResult importSlice();
  mlir::LogicalResult importExpand();
  mlir::LogicalResult importConcat();
  mlir::LogicalResult joinRows(int64_t axis);

  // Products (SelectedProducts.cpp).
  mlir::LogicalResult importMatMul();
  mlir::LogicalResult importGemm();
  mlir::LogicalResult importEinsum();

  // Indices (SelectedIndices.cpp).
  mlir::LogicalResult importGather();
  mlir::LogicalResult importGatherND();
  mlir::LogicalResult importGatherElements();
  mlir::LogicalResult importScatterND();
  mlir::LogicalResult importScatterElements();
  mlir::LogicalResult scatter(bool adds);
  mlir::LogicalResult scatterOwn(bool adds);

  NodeImporter &node;
  const OpEntry &entry;
};

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_OPS_TENSOR_SELECTEDNODE_H
