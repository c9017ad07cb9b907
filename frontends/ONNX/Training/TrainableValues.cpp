// Classifies values of a forward model as vectors, tables or buffers, for the
// search for weights.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Model/HostTensor.h"
#include "frontends/ONNX/Training/ParameterNames.h"
#include "frontends/ONNX/Training/TrainableSearch.h"
#include "frontends/ONNX/Training/WeightedOps.h"

using namespace mpc::onnx_frontend;
using llvm::StringRef;

// Returns the value that `value` is a view of.
StringRef TrainableSearch::skipViews(StringRef value) {
  const Node *view = graph.getProducer(value);
  while (view && isView(view->op_type()) && view->input_size() > 0) {
    value = view->input(0);
    view = graph.getProducer(value);
  }
  return value;
}

bool TrainableSearch::isIntegerInput(StringRef value) {
  return llvm::any_of(graph.getInputs(), [&](const auto *input) {
    const int type = input->type().tensor_type().elem_type();
    return input->name() == value && (type == proto::TensorProto::INT64 ||
                                      type == proto::TensorProto::INT32);
  });
}

// True for a product of positions and frequencies, as in a rotary embedding,
// that is read only by sines and cosines. Frequencies are computed, not
// trained.
bool TrainableSearch::isAngles(const Node &product) {
  StringRef op = product.op_type();
  if ((op != "Einsum" && op != "MatMul") || product.input_size() != 2 ||
      product.output_size() != 1)
    return false;
  // The positions in the product are constants, or integer inputs that are cast
  // to floats.
  for (StringRef input : product.input()) {
    const Node *cast = graph.getProducer(input);
    while (cast && isView(cast->op_type()) && cast->op_type() != "Cast" &&
           cast->input_size() > 0)
      cast = graph.getProducer(cast->input(0));
    bool isGiven = cast && cast->op_type() == "Cast" &&
                   cast->input_size() > 0 &&
                   isIntegerInput(skipViews(cast->input(0)));
    if (!getFacts(input).isFixed && !isGiven)
      return false;
  }
  // Views may come between the product and its sines and cosines.
  bool turns = false;
  llvm::SmallVector<StringRef> worklist = {product.output(0)};
  llvm::StringSet<> visited;
  while (!worklist.empty()) {
    StringRef current = worklist.pop_back_val();
    if (!visited.insert(current).second)
      continue;
    for (const Node *reader : readers.lookup(current)) {
      StringRef readingOp = reader->op_type();
      if (isView(readingOp))
        worklist.append(reader->output().begin(), reader->output().end());
      else if (readingOp == "Sin" || readingOp == "Cos")
        turns = true;
      else if (readingOp != "Shape")
        return false;
    }
  }
  return turns;
}

bool TrainableSearch::isFloat(StringRef name) {
  if (const proto::TensorProto *tensor = findTensor(name))
    return holdsFloats(*tensor);
  auto it = given.find(name);
  return it != given.end() && it->second.isFloat();
}

bool TrainableSearch::isOneNumber(StringRef name) {
  auto shape = getStoredShape(name);
  return shape && llvm::all_of(*shape, [](int64_t n) { return n == 1; });
}

// Returns the evidence in the name or the elements of a stored value that the
// value is no weight, as text for messages. Empty if there is none.
StringRef TrainableSearch::findEvidence(StringRef name) {
  if (isNamedAsBuffer(name))
    return "the name is typical of a buffer";
  const proto::TensorProto *tensor = findTensor(name);
  if (tensor && holdsFloats(*tensor) &&
      holdsSinusoids(graph.getModel(), *tensor))
    return "the elements are sines and cosines of positions";
  return {};
}

// True if a stored value is a buffer. An op that reads the value, the name or
// the elements tell.
bool TrainableSearch::isBuffer(StringRef name) {
  return buffers.contains(name) || !findEvidence(name).empty();
}

// True if `value` is a stored tensor with a single axis longer than 1, such as
// a number per channel.
bool TrainableSearch::isStoredVector(StringRef value) {
  auto shape = getStoredShape(skipViews(value));
  return shape && llvm::count_if(*shape, [](int64_t n) { return n > 1; }) == 1;
}

// True if `gather` reads rows of a table. False if the table is a vector, such
// as class weights.
bool TrainableSearch::readsRows(const Node &gather) {
  if (gather.input_size() != 2 || gather.output_size() != 1)
    return false;
  auto shape = getStoredShape(gather.input(0));
  return shape ? shape->size() > 1 : getFacts(gather.input(0)).isFixed;
}
