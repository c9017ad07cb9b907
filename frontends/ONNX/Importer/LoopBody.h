// The body of a Loop or Scan in the making.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_IMPORTER_LOOPBODY_H
#define MPC_FRONTENDS_ONNX_IMPORTER_LOOPBODY_H

#include "frontends/ONNX/Importer/Bodies.h"

namespace mpc::onnx_frontend {

/// The body of a loop in the making: its arguments in the order that mpc.scan
/// wants, and the ops between.
class LoopBody {
public:
  LoopBody(NodeImporter &node, const Graph &graph)
      : node(node), graph(graph), holder(createHolder(node)),
        importer(node.getFunction(), graph, &holder->getBody().front()) {
    importer.defaultPhase = node.getPhase();
  }

  FunctionImporter &getImporter() { return importer; }
  llvm::StringRef getInput(unsigned index) {
    return graph.getInputs()[index]->name();
  }
  llvm::StringRef getOutput(unsigned index) {
    return graph.getOutputs()[index]->name();
  }
  /// Whether output `output` is input `input` as it is.
  bool handsOn(unsigned input, unsigned output) {
    llvm::StringRef name = getOutput(output);
    const proto::NodeProto *node = graph.getProducer(name);
    for (; node && node->op_type() == "Identity" && node->input_size() == 1;
         node = graph.getProducer(name))
      name = node->input(0);
    return name == getInput(input);
  }

  /// Input `index` of the body starts as `init`.
  void addCarried(unsigned index, mlir::Value init) {
    addArgument(index, mlir::Value(), init.getType());
    carried.push_back(init);
  }
  /// Input `index` is a part of `whole`.
  void addScanned(unsigned index, mlir::Value whole, bool isReversed) {
    addArgument(index, whole, ScanOp::getPartType(whole.getType()));
    scanned.push_back(whole);
    reversedInputs.push_back(isReversed);
  }
  /// Input `index` is the number of the iteration.
  void addNumber(unsigned index) {
    addArgument(index, mlir::Value(),
                mlir::RankedTensorType::get({}, getI64()));
    scanned.push_back(mlir::Value());
    reversedInputs.push_back(false);
  }
  mlir::LogicalResult importNodes();
  /// The value of output `index`; null, with a finding, where it has none.
  mlir::Value yield(unsigned index) {
    return importer.materialize(getOutput(index), "");
  }
  /// One scan of it all. `yielded` are the new values of what is carried, then
  /// parts.
  ScanOp finish(int64_t length, llvm::ArrayRef<mlir::Value> yielded,
                llvm::ArrayRef<bool> reversedOutputs);

private:
  /// `outer` is null where no value outside is that of all iterations, nor has
  /// them all as parts.
  void addArgument(unsigned index, mlir::Value outer, mlir::Type type) {
    mlir::Location location = mlir::NameLoc::get(
        mlir::StringAttr::get(node.getContext(), getInput(index)));
    importer.bind(getInput(index),
                  holder->getBody().front().addArgument(type, location));
    importer.getOuterValues().push_back(outer);
  }

  mlir::Type getI64() { return node.attributes().getI64Type(); }
  mlir::Value createNumbers(int64_t length);

  NodeImporter &node;
  const Graph &graph;
  /// Has the body while it grows.
  mlir::OwningOpRef<ScanOp> holder;
  FunctionImporter importer;
  llvm::SmallVector<mlir::Value> carried, scanned;
  llvm::SmallVector<bool> reversedInputs;
};

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_IMPORTER_LOOPBODY_H
