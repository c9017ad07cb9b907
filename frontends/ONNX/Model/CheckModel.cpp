// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Model/CheckModel.h"

#include "compiler/Dialect/MPC/MPC.h"
#include "frontends/ONNX/Model/Graph.h"
#include "frontends/ONNX/Model/Limits.h"

#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx_frontend;
using llvm::Error;
using llvm::Expected;

using IsDefined = llvm::function_ref<bool(StringRef)>;

// Checks that code may compute with the dimensions of `tensor`. Ignores the
// element type: a tensor without readers may have any.
static Error checkDimensions(const Model &model,
                             const proto::TensorProto &tensor) {
  const std::string what = "initializer '" + tensor.name() + "'";
  if (tensor.dims_size() > kMostDimensions)
    return model.error(ErrorKind::Unsupported,
                       what + ": expected at most " + Twine(kMostDimensions) +
                           " dimensions, found " + Twine(tensor.dims_size()));
  const ArrayRef<int64_t> dims(tensor.dims().data(), tensor.dims().size());
  if (!getCheckedBytes(dims, Builder(model.getContext()).getI64Type()))
    return model.error(ErrorKind::InvalidInput,
                       what + ": the dimensions " + printShape(dims) +
                           " are negative or their product overflows");
  return Error::success();
}

// Checks `graph` and the bodies of its nodes. The recursion is safe: protobuf
// allows at most 31 levels.
static Error checkGraph(const Model &model, const proto::GraphProto &graph,
                        IsDefined isDefinedOutside) {
  Expected<Graph> checked = Graph::checkBody(model, graph, isDefinedOutside);
  if (!checked)
    return checked.takeError();
  Error errors = Error::success();
  for (const proto::TensorProto &tensor : graph.initializer())
    errors =
        llvm::joinErrors(std::move(errors), checkDimensions(model, tensor));
  auto isDefined = [&](StringRef name) {
    return checked->defines(name) || isDefinedOutside(name);
  };
  for (const proto::NodeProto &node : graph.node())
    for (const proto::GraphProto *body : getBodies(node))
      if (Error error = checkGraph(model, *body, isDefined)) {
        errors = llvm::joinErrors(std::move(errors), std::move(error));
        errors = llvm::joinErrors(std::move(errors),
                                  model.error(ErrorKind::InvalidInput,
                                              "node '" + getNodeName(node) +
                                                  "' (" + getOpName(node) +
                                                  "): body '" + body->name() +
                                                  "' is no valid graph"));
      }
  return errors;
}

static Error checkFunction(const Model &model,
                           const proto::FunctionProto &function) {
  // Graph checks a GraphProto, so copy the function into one. Functions are
  // small: weights are initializers of the main graph.
  proto::GraphProto graph;
  for (const std::string &input : function.input())
    graph.add_input()->set_name(input);
  for (const std::string &output : function.output())
    graph.add_output()->set_name(output);
  *graph.mutable_node() = function.node();
  Error error = checkGraph(model, graph, [](StringRef) { return false; });
  if (!error)
    return error;
  return llvm::joinErrors(
      std::move(error),
      model.error(ErrorKind::InvalidInput, "function '" + function.domain() +
                                               "." + function.name() +
                                               "' is no valid graph"));
}

Error mpc::onnx_frontend::checkModel(const Model &model) {
  const proto::ModelProto &file = model.getProto();
  auto isDefinedNowhere = [](StringRef) { return false; };
  if (Error error = checkGraph(model, file.graph(), isDefinedNowhere))
    return error;
  Error errors = Error::success();
  auto add = [&](Error error) {
    errors = llvm::joinErrors(std::move(errors), std::move(error));
  };
  for (const proto::FunctionProto &function : file.functions())
    add(checkFunction(model, function));
  if (file.training_info_size() == 0)
    return errors;
  // The algorithm of training_info also reads values of the main graph. Names
  // that both define are errors of the import.
  Expected<Graph> main =
      Graph::checkBody(model, file.graph(), isDefinedNowhere);
  if (!main)
    return llvm::joinErrors(std::move(errors), main.takeError());
  auto isDefined = [&](StringRef name) { return main->defines(name); };
  for (const proto::TrainingInfoProto &info : file.training_info()) {
    if (info.has_initialization())
      add(checkGraph(model, info.initialization(), isDefinedNowhere));
    if (info.has_algorithm())
      add(checkGraph(model, info.algorithm(), isDefined));
  }
  return errors;
}
