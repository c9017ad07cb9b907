// A node of LSTM, GRU or RNN: one scan for each direction.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_OPS_NN_RECURRENT_H
#define MPC_FRONTENDS_ONNX_OPS_NN_RECURRENT_H

#include "frontends/ONNX/Importer/Importer.h"

namespace mpc::onnx_frontend {

class RecurrentImporter;

/// A function of a gate, with its parameters.
struct GateFunction {
  llvm::StringRef name;
  std::optional<double> alpha, beta;
  /// The function of `x`, with the parameters of `function`.
  mlir::Value (*build)(RecurrentImporter &importer,
                       const GateFunction &function, mlir::Value x);
};

/// What an iteration computes: the new states, and the gates' values in the
/// order that the weights have.
struct RecurrentStep {
  llvm::SmallVector<mlir::Value> states, gates;
};

/// What tells LSTM, GRU and RNN apart.
struct RecurrentCell {
  unsigned gates, states;
  /// The functions of a direction; an absent one has no default.
  llvm::SmallVector<llvm::StringRef, 3> activations;
  /// What an iteration reads beside the input and the states, of the weights
  /// and the bias of recurrence and the peepholes of a direction.
  llvm::SmallVector<mlir::Value> (*prepare)(RecurrentImporter &importer,
                                            mlir::Value r, mlir::Value rb,
                                            mlir::Value p);
  /// New states of what the gates take from the input, the old states and what
  /// `prepare` gave. The first is what a step gives.
  RecurrentStep (*step)(RecurrentImporter &importer, mlir::Value x,
                        llvm::ArrayRef<mlir::Value> states,
                        llvm::ArrayRef<mlir::Value> prepared);
};

/// Imports a node: `import` is all that is to be called from outside of cells.
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
  /// h times the transposed weights.
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
  /// Gates [first, first + count) of `value` along its axis `axis`.
  mlir::Value gates(mlir::Value value, unsigned first, unsigned count,
                    int64_t axis);
  /// Function `index` of the direction, of a gate, which is clipped first, or
  /// of a state, which is not.
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
  unsigned current = 0; ///< the direction
  mlir::Value input;    ///< [length, batch, inputSize]
  /// By direction: all steps, and the states after the last. Of a training op
  /// also the other states of all steps, and the gates.
  llvm::SmallVector<mlir::Value> sequences, saved;
  llvm::SmallVector<llvm::SmallVector<mlir::Value>> last;
};

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_OPS_NN_RECURRENT_H
