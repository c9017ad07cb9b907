// Defines the cells of LSTM, GRU and RNN. ONNX Runtime's LSTMTraining and
// GRUTraining also save the values that LSTMGrad and GRUGrad read
// (ImportRecurrentGrad.cpp).
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Ops/NN/Recurrent.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx_frontend;

//===----------------------------------------------------------------------===//
// The cells
//===----------------------------------------------------------------------===//

// Imports LSTM. Gates, in the order of the weights: input, output, forget,
// cell. States: hidden, cell. Peepholes: input, output, forget.
static LogicalResult importLSTM(NodeImporter &node) {
  static const RecurrentCell cell = {
      4,
      2,
      {"Sigmoid", "Tanh", "Tanh"},
      // LSTM reads recurrence weights and peepholes unchanged.
      [](RecurrentImporter &, Value r, Value, Value p) {
        return SmallVector<Value>{r, p};
      },
      [](RecurrentImporter &lstm, Value x, ArrayRef<Value> states,
         ArrayRef<Value> prepared) {
        Value h = states[0], c = states[1], r = prepared[0], p = prepared[1];
        Value sum = lstm.add(x, lstm.recur(h, r));
        // A gate is a slice of the sum, plus the peephole's weight times the
        // cell state.
        auto gate = [&](unsigned index, unsigned peephole, Value of) {
          Value value = lstm.gates(sum, index, 1, 1);
          if (p && of)
            value =
                lstm.add(value, lstm.mul(lstm.gates(p, peephole, 1, 0), of));
          return value;
        };
        // The peepholes of the input and forget gates read the old cell state.
        // The peephole of the output gate reads the new cell state.
        Value in = lstm.activate(0, gate(0, 0, c));
        Value forget = lstm.joinsInputGate() && in
                           ? lstm.getNode().emit<SubOp>({lstm.one(in), in})
                           : lstm.activate(0, gate(2, 2, c));
        Value candidate = lstm.activate(1, gate(3, 0, Value()));
        Value next = lstm.add(lstm.mul(forget, c), lstm.mul(in, candidate));
        Value out = lstm.activate(0, gate(1, 1, next));
        return RecurrentStep{{lstm.mul(out, lstm.activateState(2, next)), next},
                             {in, out, forget, candidate}};
      }};
  return RecurrentImporter(node, cell).import();
}

// Imports GRU. Gates, in the order of the weights: update, reset, hidden.
static LogicalResult importGRU(NodeImporter &node) {
  static const RecurrentCell cell = {
      3,
      1,
      {"Sigmoid", "Tanh"},
      // If the reset gate scales the old state before the product of the hidden
      // gate, this product is separate and needs its own weights.
      [](RecurrentImporter &gru, Value r, Value rb, Value) {
        bool separate = gru.resetsProduct();
        return SmallVector<Value>{separate ? r : gru.gates(r, 0, 2, 0),
                                  separate ? Value() : gru.gates(r, 2, 1, 0),
                                  separate && rb ? gru.gates(rb, 2, 1, 0)
                                                 : Value()};
      },
      [](RecurrentImporter &gru, Value x, ArrayRef<Value> states,
         ArrayRef<Value> prepared) {
        Value h = states[0], product = gru.recur(h, prepared[0]);
        auto gate = [&](unsigned index) {
          return gru.activate(0, gru.add(gru.gates(x, index, 1, 1),
                                         gru.gates(product, index, 1, 1)));
        };
        // The reset gate scales the product of the hidden gate, or the old
        // state before that product.
        Value update = gate(0), reset = gate(1), from;
        if (gru.resetsProduct()) {
          from = gru.gates(product, 2, 1, 1);
          if (prepared[2])
            from = gru.add(from, prepared[2]);
          from = gru.mul(reset, from);
        } else {
          from = gru.recur(gru.mul(reset, h), prepared[1]);
        }
        Value hidden = gru.activate(1, gru.add(gru.gates(x, 2, 1, 1), from));
        // The values are null if an activation is not supported.
        if (!update)
          return RecurrentStep{{Value()}, {}};
        Value rest = gru.getNode().emit<SubOp>({gru.one(update), update});
        return RecurrentStep{
            {gru.add(gru.mul(rest, hidden), gru.mul(update, h))},
            {update, reset, hidden}};
      }};
  return RecurrentImporter(node, cell).import();
}

static LogicalResult importRNN(NodeImporter &node) {
  static const RecurrentCell cell = {
      1,
      1,
      {"Tanh"},
      [](RecurrentImporter &, Value r, Value, Value) {
        return SmallVector<Value>{r};
      },
      [](RecurrentImporter &rnn, Value x, ArrayRef<Value> states,
         ArrayRef<Value> prepared) {
        return RecurrentStep{
            {rnn.activate(0, rnn.add(x, rnn.recur(states[0], prepared[0])))},
            {}};
      }};
  return RecurrentImporter(node, cell).import();
}

ArrayRef<OpEntry> mpc::onnx_frontend::getRecurrentOps() {
  static const OpEntry entries[] = {
      {"", "GRU", 6, kNoEnd, 3, 6, 2, importGRU},
      {"", "LSTM", 6, kNoEnd, 3, 8, 3, importLSTM},
      {"", "RNN", 6, kNoEnd, 3, 6, 2, importRNN},
      {kMicrosoft, "GRUTraining", 1, kNoEnd, 3, 6, 3, importGRU},
      {kMicrosoft, "LSTMTraining", 1, kNoEnd, 3, 8, 5, importLSTM},
  };
  return entries;
}
