// Builds the body of a Loop or Scan.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_IMPORTER_LOOPBODY_H
#define MPC_FRONTENDS_ONNX_IMPORTER_LOOPBODY_H

#include "frontends/ONNX/Importer/Bodies.h"

namespace mpc::onnx_frontend {

/// Builds the body of a loop: its arguments in the order of mpc.scan, and its
/// ops. Add carried values first, then scanned values.
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
  /// True if output `output` is input `input` unchanged.
  bool handsOn(unsigned input, unsigned output) {
    llvm::StringRef name = getOutput(output);
    const proto::NodeProto *node = graph.getProducer(name);
    for (; node && node->op_type() == "Identity" && node->input_size() == 1;
         node = graph.getProducer(name))
      name = node->input(0);
    return name == getInput(input);
  }

  /// Makes input `index` of the body a carried value that starts as `init`.
  void addCarried(unsigned index, mlir::Value init) {
    addArgument(index, mlir::Value(), init.getType());
    carried.push_back(init);
  }
  /// Makes input `index` of the body one part of `whole` per iteration.
  void addScanned(unsigned index, mlir::Value whole, bool isReversed) {
    addArgument(index, whole, ScanOp::getPartType(whole.getType()));
    scanned.push_back(whole);
    reversedInputs.push_back(isReversed);
  }
  /// Makes input `index` of the body the iteration number.
  void addNumber(unsigned index) {
    addArgument(index, mlir::Value(),
                mlir::RankedTensorType::get({}, getI64()));
    scanned.push_back(mlir::Value());
    reversedInputs.push_back(false);
  }
  mlir::LogicalResult importNodes();
  /// The value of output `index`; reports an error and returns null if
  /// unavailable.
  mlir::Value yield(unsigned index) {
    return importer.materialize(getOutput(index), "");
  }
  /// Creates the `mpc.scan`. `yielded` holds the new carried values, then the
  /// parts that the loop stacks.
  ScanOp finish(int64_t length, llvm::ArrayRef<mlir::Value> yielded,
                llvm::ArrayRef<bool> reversedOutputs);

private:
  /// `outer` is null if no outer value is equal to the argument in all
  /// iterations, or holds the argument's values as parts.
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
  /// Holds the body while it is built.
  mlir::OwningOpRef<ScanOp> holder;
  FunctionImporter importer;
  llvm::SmallVector<mlir::Value> carried, scanned;
  llvm::SmallVector<bool> reversedInputs;
};

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_IMPORTER_LOOPBODY_H
