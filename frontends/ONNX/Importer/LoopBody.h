// Builds the body of a Loop or Scan.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_IMPORTER_LOOPBODY_H
#define MPC_FRONTENDS_ONNX_IMPORTER_LOOPBODY_H

#include "frontends/ONNX/Importer/Bodies.h"

namespace mpc::onnx_frontend {

/// Builds the body of an `mpc.scan`: its arguments and ops. Add all carried
/// values first, then scanned values and iteration numbers: `mpc.scan` requires
/// this order of arguments.
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
    assert(scanned.empty() && "carried values come first");
    addArgument(index, mlir::Value(), init.getType());
    carried.push_back(init);
  }
  /// Makes input `index` of the body a scanned value: iteration i reads
  /// whole[i], or the parts from the last to the first if `isReversed`.
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
  /// The value of output `index`. Reports an error and returns null if the body
  /// cannot return the value.
  mlir::Value yield(unsigned index) {
    return importer.materialize(getOutput(index), "");
  }
  /// Creates the `mpc.scan` of `length` iterations. `yielded` holds the results
  /// of one iteration: the new carried values, then the parts that the loop
  /// stacks to outputs.
  ScanOp finish(int64_t length, llvm::ArrayRef<mlir::Value> yielded,
                llvm::ArrayRef<bool> reversedOutputs);

private:
  /// Adds an argument for input `index`. `outer` is the value outside the loop
  /// that the argument equals in all iterations, or whose parts the argument
  /// takes, one per iteration. Null for other arguments, such as carried
  /// values.
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
  /// The temporary op that holds the body while it is built (createHolder).
  mlir::OwningOpRef<ScanOp> holder;
  FunctionImporter importer;
  llvm::SmallVector<mlir::Value> carried, scanned;
  llvm::SmallVector<bool> reversedInputs;
};

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_IMPORTER_LOOPBODY_H
