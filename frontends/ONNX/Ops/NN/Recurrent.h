// Imports a node of LSTM, GRU or RNN as one scan for each direction.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_OPS_NN_RECURRENT_H
#define MPC_FRONTENDS_ONNX_OPS_NN_RECURRENT_H

#include "frontends/ONNX/Importer/Importer.h"

namespace mpc::onnx_frontend {

class RecurrentImporter;

/// An activation function of a gate, with its parameters.
struct GateFunction {
  llvm::StringRef name;
  std::optional<double> alpha, beta;
  /// Emits the activation of `x`, with the parameters of `function`.
  mlir::Value (*build)(RecurrentImporter &importer,
                       const GateFunction &function, mlir::Value x);
};

/// The results of one iteration: the new states, and the gates in the order of
/// the weights.
struct RecurrentStep {
  llvm::SmallVector<mlir::Value> states, gates;
};

/// A cell: the parts of the import that differ between LSTM, GRU and RNN.
struct RecurrentCell {
  unsigned gates, states;
  /// The default functions of one direction.
  llvm::SmallVector<llvm::StringRef, 3> activations;
  /// Prepares the values that every iteration reads, from a direction's
  /// recurrence weights `r`, recurrence bias `rb` and peepholes `p`.
  llvm::SmallVector<mlir::Value> (*prepare)(RecurrentImporter &importer,
                                            mlir::Value r, mlir::Value rb,
                                            mlir::Value p);
  /// Computes the new states from the gates' input `x`, the old states and the
  /// prepared values. The first new state is the step's output.
  RecurrentStep (*step)(RecurrentImporter &importer, mlir::Value x,
                        llvm::ArrayRef<mlir::Value> states,
                        llvm::ArrayRef<mlir::Value> prepared);
};

/// Imports one node. Only the functions of a RecurrentCell call members other
/// than `import`.
class RecurrentImporter {
public:
  RecurrentImporter(NodeImporter &node, const RecurrentCell &cell)
      : node(node), cell(cell) {}

  mlir::LogicalResult import();

  //===--- For cells ---===//
  NodeImporter &getNode() { return node; }
  bool joinsInputGate() const { return inputForget; }
  bool resetsProduct() const { return linearBeforeReset; }
  int64_t getHidden() const { return hidden; }
  /// Returns the state `h` times the transposed recurrence weights `r`.
  mlir::Value recur(mlir::Value h, mlir::Value r) {
    return node.emit<GemmOp>({h, r}, {node.attribute("transB", true)});
  }
  mlir::Value add(mlir::Value a, mlir::Value b) {
    return node.emit<AddOp>({a, b});
  }
  mlir::Value mul(mlir::Value a, mlir::Value b) {
    return node.emit<MulOp>({a, b});
  }
  mlir::Value one(mlir::Value like) {
    return node.scalarConstant(1.0, elementOf(like));
  }
  /// Returns gates [first, first + count) of `value` along axis `axis`.
  mlir::Value gates(mlir::Value value, unsigned first, unsigned count,
                    int64_t axis);
  /// Applies activation `index` of the current direction. `activate` is for
  /// gates and clips x first; `activateState` is for states and does not clip.
  mlir::Value activate(unsigned index, mlir::Value x);
  mlir::Value activateState(unsigned index, mlir::Value x) {
    if (!x)
      return {};
    const auto &function =
        activations[current * cell.activations.size() + index];
    return function.build(*this, function, x);
  }

private:
  bool isTraining() const;
  mlir::LogicalResult readTypes();
  mlir::LogicalResult readShapes();
  mlir::LogicalResult readAttributes();
  mlir::LogicalResult readActivations();
  bool isZeroOfExportedBatch(unsigned index);
  mlir::LogicalResult addLoop(llvm::ArrayRef<mlir::Value> carried,
                              llvm::ArrayRef<mlir::Value> scanned,
                              llvm::ArrayRef<mlir::Value> prepared,
                              bool isReversed);
  mlir::LogicalResult importDirection(unsigned index);
  mlir::LogicalResult defineOutputs();
  mlir::Value part(unsigned input, unsigned index);
  mlir::Value initialState(unsigned input, unsigned index);
  mlir::Value projectInput(unsigned index);
  mlir::Value createMask();
  mlir::Value select(mlir::Value mask, mlir::Value onTrue, mlir::Value onFalse);
  mlir::Value stackDirections(llvm::ArrayRef<mlir::Value> values, int64_t axis);

  NodeImporter &node;
  const RecurrentCell &cell;
  int64_t length = 0, batch = 0, inputSize = 0, hidden = 0, directions = 1;
  mlir::Type element;
  bool batchFirst = false, inputForget = false, linearBeforeReset = false;
  std::optional<double> clip;
  std::string direction;
  llvm::SmallVector<GateFunction> activations;
  unsigned current = 0; ///< the direction being imported
  mlir::Value input;    ///< [length, batch, inputSize]
  /// One entry per direction: `sequences` holds the outputs of all steps,
  /// `last` the states after the last. For training ops, `saved` holds the
  /// other states of all steps, and the gates.
  llvm::SmallVector<mlir::Value> sequences, saved;
  llvm::SmallVector<llvm::SmallVector<mlir::Value>> last;
};

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_OPS_NN_RECURRENT_H
