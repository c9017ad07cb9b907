// Which numbers for each channel a forward model learns: by what becomes of the
// data that they scale.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Model/HostTensor.h"
#include "frontends/ONNX/Model/Metadata.h"
#include "frontends/ONNX/Training/TrainableSearch.h"
#include "frontends/ONNX/Training/WeightedOps.h"

using namespace mpc::onnx_frontend;
using llvm::StringRef;

bool mpc::onnx_frontend::isMask(const Model &model,
                                const proto::TensorProto &tensor) {
  if (!holdsFloats(tensor))
    return false;
  llvm::Expected<HostTensor> values =
      model.decode(tensor, "initializer '" + tensor.name() + "'");
  // The import says what is wrong with it.
  if (!values)
    return llvm::consumeError(values.takeError()), false;
  bool hasZero = false, hasOne = false;
  for (int64_t i = 0; i < values->getNumElements(); ++i) {
    const double value = values->getDouble(i);
    if (value != 0 && value != 1)
      return false;
    (value == 0 ? hasZero : hasOne) = true;
  }
  return hasZero && hasOne;
}

// Whether the program calls a tensor what it calls the statistics of data, as
// in "pixel_mean" or "latents.std": those are measured, and not learned.
static bool isNamedAsStatistic(StringRef name) {
  static const llvm::StringSet<> words = {
      "mean", "means", "std", "stds", "var", "variance", "stdev", "stddev"};
  // The last part of "encoder.pixel_mean" is "pixel_mean", whose words count.
  llvm::SmallVector<StringRef> parts;
  name.substr(name.rfind('.') + 1).split(parts, '_');
  return llvm::any_of(parts,
                      [&](StringRef part) { return words.contains(part); });
}

// The axis that an Unsqueeze with one constant axis adds.
static std::optional<int64_t> readOneAxis(const Graph &graph,
                                          const proto::NodeProto &unsqueeze) {
  if (unsqueeze.input_size() != 2)
    return std::nullopt;
  const Model &model = graph.getModel();
  const proto::TensorProto *tensor = graph.getInitializer(unsqueeze.input(1));
  const proto::NodeProto *constant = graph.getProducer(unsqueeze.input(1));
  if (constant && constant->op_type() == "Constant" &&
      constant->attribute_size() == 1 && constant->attribute(0).has_t())
    tensor = &constant->attribute(0).t();
  if (!tensor)
    return std::nullopt;
  llvm::Expected<HostTensor> axes = model.decode(*tensor, "axes");
  // The import says what is wrong with it.
  if (!axes)
    return llvm::consumeError(axes.takeError()), std::nullopt;
  if (axes->getNumElements() != 1 || axes->isFloat())
    return std::nullopt;
  return axes->getInteger(0);
}

// Whether PyTorch's older exporter has `value` of a module, and it may be
// learned: it is no mask, and no statistic of data.
bool TrainableSearch::isModulesTensor(StringRef value) {
  const StringRef name = skipViews(value);
  const proto::TensorProto *tensor = graph.getInitializer(name);
  return tensor && holdsFloats(*tensor) && isProgramsName(name) &&
         !isNamedAsStatistic(name) &&
         graph.getModel().getProto().producer_name() == "pytorch" &&
         !isMask(graph.getModel(), *tensor);
}

bool TrainableSearch::isModulesVector(StringRef value) {
  return isStoredVector(value) && isModulesTensor(value);
}

// Whether operand `stored` of a product is a module's, and data, to which an
// axis of extent 1 was added behind, is multiplied along it: each number by a
// vector, as a linear layer of one input does.
bool TrainableSearch::isOuterProduct(const Node &product, int stored) {
  const StringRef weight = product.input(stored);
  auto shape = getStoredShape(weight);
  if (!shape || shape->size() < 2 || shape->back() < 2 ||
      getFacts(product.input(1 - stored)).isFixed || !isModulesTensor(weight))
    return false;
  const Node *unsqueeze = graph.getProducer(product.input(1 - stored));
  while (unsqueeze && unsqueeze->op_type() == "Cast" &&
         unsqueeze->input_size() > 0)
    unsqueeze = graph.getProducer(unsqueeze->input(0));
  if (!unsqueeze || unsqueeze->op_type() != "Unsqueeze")
    return false;
  const std::optional<int64_t> axis = readOneAxis(graph, *unsqueeze);
  return axis && (*axis == -1 || *axis + 1 >= int64_t(shape->size())) &&
         !isOnlyTurned(product);
}

// Whether operand `stored` of a sum is one number for each channel of a module,
// added to learned data within the network, and no mask of scores.
bool TrainableSearch::isInnerBias(const Node &sum, int stored) {
  return getFacts(sum.input(1 - stored)).isLearned &&
         isModulesVector(sum.input(stored)) &&
         reachingWeights.contains(sum.output(0)) && !isSharpened(sum);
}

// Whether `value`, which no input decides, is of a weight found so far, as a
// class token is.
bool TrainableSearch::isOfWeights(StringRef value) {
  return weights.contains(skipViews(value));
}

// Whether `reader` gives on `value` as a branch: a view of it, times a number
// or random numbers that drop samples, or with a bias added.
bool TrainableSearch::isPassedOn(const Node &reader, StringRef value) {
  const StringRef op = reader.op_type();
  if (isView(op))
    return true;
  if (reader.input_size() != 2)
    return false;
  const bool isFirst = reader.input(0) == value;
  const StringRef other = reader.input(isFirst);
  if (op == "Mul" || (op == "Div" && isFirst))
    return isNumber(other) || getFacts(other).isRandom;
  return op == "Add" && getFacts(other).isFixed;
}

// Whether a product is added to data, as a scaled branch is in
// x + scale * f(x), or to a class token, which is learned; the scale of an
// output is a unit of its.
bool TrainableSearch::isBranch(const Node &product) {
  return walkReaders(
      product.output(0), [&](const Node &reader, StringRef value) {
        if (reader.op_type() == "Add" && reader.input_size() == 2) {
          StringRef other = reader.input(reader.input(0) == value);
          if (!getFacts(other).isFixed || isOfWeights(other))
            return Walk::Stop;
        }
        return isPassedOn(reader, value) ? Walk::Follow : Walk::Skip;
      });
}

// Whether a Softmax reads a product or a sum, perhaps with a mask or a bias
// added: the factor of each head is a temperature.
bool TrainableSearch::isSharpened(const Node &product) {
  return walkReaders(product.output(0), [](const Node &reader, StringRef) {
    if (reader.op_type() == "Softmax")
      return Walk::Stop;
    return isView(reader.op_type()) || reader.op_type() == "Add" ? Walk::Follow
                                                                 : Walk::Skip;
  });
}

// Whether the sine of a product with `factor` is taken, which something is
// divided by as well, as in x + sin(alpha x)^2 / alpha, a Snake: frequencies
// that are no weights only multiply.
bool TrainableSearch::isPeriod(const Node &product, StringRef factor) {
  const bool hasSine =
      walkReaders(product.output(0), [](const Node &reader, StringRef) {
        if (reader.op_type() == "Sin")
          return Walk::Stop;
        return isView(reader.op_type()) ? Walk::Follow : Walk::Skip;
      });
  return hasSine && walkReaders(skipViews(factor), [&](const Node &reader,
                                                       StringRef value) {
           const StringRef op = reader.op_type();
           const bool isDivisor =
               op == "Reciprocal" || (op == "Div" && reader.input_size() == 2 &&
                                      reader.input(1) == value);
           if (isDivisor)
             return Walk::Stop;
           // A small number keeps it from 0.
           return isView(op) || op == "Add" ? Walk::Follow : Walk::Skip;
         });
}

// The vector of the same module and length that is added to a product with
// `scale`, as in beta + alpha * x * 1; empty where there is none.
StringRef TrainableSearch::findShift(const Node &product, StringRef scale) {
  // "norm." of "norm.weight", and how many elements a vector has.
  const auto scope = [&](StringRef value) {
    StringRef name = skipViews(value);
    return name.take_front(name.rfind('.') + 1);
  };
  const auto length = [&](StringRef value) {
    return llvm::product_of(*getStoredShape(skipViews(value)), int64_t(1));
  };
  // The first sum of the product and a vector of the same module and length.
  StringRef shift;
  walkReaders(product.output(0), [&](const Node &reader, StringRef value) {
    if (isView(reader.op_type()) || multipliesByOne(reader))
      return Walk::Follow;
    if (reader.op_type() != "Add" || reader.input_size() != 2)
      return Walk::Skip;
    StringRef other = reader.input(reader.input(0) == value);
    if (!isModulesVector(other) || scope(other) != scope(scale) ||
        length(other) != length(scale))
      return Walk::Skip;
    shift = other;
    return Walk::Stop;
  });
  return shift;
}

// Values that a product with weights or a normalization depends on, from the
// last node to the first.
void TrainableSearch::findReachingWeights() {
  for (const Node *node : llvm::reverse(nodes)) {
    const WeightedOp *weighted = findWeightedOp(node->op_type());
    const bool reaches =
        (weighted && weighted->kind != WeightedOp::Kind::FusedBias) ||
        llvm::any_of(node->output(), [&](const std::string &output) {
          return reachingWeights.contains(output);
        });
    if (reaches)
      for (const std::string &input : node->input())
        reachingWeights.insert(input);
  }
}
