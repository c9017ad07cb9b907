// Drops repeated initializers of the same name.
//
// Tools for joining models may repeat an initializer. Keeps the first of each
// name, and warns once per graph. Error (kind InvalidInput) if types, shapes or
// values differ, because nobody can tell which is right. The error states the
// positions and the first difference.
//
// Before:
//
// ```
// <ir_version: 8, opset_import: ["" : 17]>
// g (float[2,2] x) => (float[2,2] y)
// <float[2] b = {1, 2}, float[2] b = {1, 2}>
// {
//   y = Add (x, b)
// }
// ```
//
// After:
//
// ```
// <
//   float[2] b = {1, 2}
// >
// ```
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Repair/Repair.h"

#include "frontends/ONNX/Model/Graph.h"
#include "frontends/ONNX/Model/HostTensor.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"

using namespace mpc::onnx_frontend;
using llvm::Error;
using llvm::Expected;
using llvm::StringRef;

// Lists positions among the initializers, counted from 1: "1 and 4", or "1, 2,
// 3 and 97 more".
static std::string listPlaces(llvm::ArrayRef<int> places) {
  constexpr size_t most = 5;
  const bool isLong = places.size() > most;
  llvm::SmallVector<std::string> parts;
  for (int place : places.take_front(isLong ? most - 2 : most))
    parts.push_back(std::to_string(place + 1));
  if (isLong)
    parts.push_back(std::to_string(places.size() - parts.size()) + " more");
  const std::string last = parts.pop_back_val();
  return llvm::join(parts, ", ") + " and " + last;
}

// Prints a type: "float[2,3]".
static std::string describe(const HostTensor &tensor) {
  std::string text;
  llvm::raw_string_ostream os(text);
  os << tensor.type.getElementType() << '[';
  llvm::interleave(tensor.getShape(), os, ",");
  os << ']';
  return text;
}

static std::string printElement(const HostTensor &tensor, int64_t index) {
  if (!tensor.isFloat())
    return std::to_string(tensor.getInteger(index));
  char text[32];
  std::snprintf(text, sizeof(text), "%g", tensor.getDouble(index));
  return text;
}

// Describes the difference of two tensors: the types or the first different
// element. Empty if type and bytes are equal.
static std::string findDifference(const HostTensor &first,
                                  const HostTensor &other) {
  if (first.type != other.type)
    return describe(first) + " and " + describe(other);
  if (first.data == other.data)
    return {};
  auto differs =
      std::mismatch(first.data.begin(), first.data.end(), other.data.begin());
  int64_t index = (differs.first - first.data.begin()) /
                  getElementBytes(first.type.getElementType());
  return "both " + describe(first) + ", of which element " +
         std::to_string(index) + " is " + printElement(first, index) + " and " +
         printElement(other, index);
}

// True if the file stores both tensors as equal bytes. Then no decoding is
// needed, which would fail for an unsupported type.
static bool areWrittenAlike(const proto::TensorProto &first,
                            const proto::TensorProto &other) {
  return first.ByteSizeLong() == other.ByteSizeLong() &&
         first.SerializeAsString() == other.SerializeAsString();
}

// Names an initializer: "initializer 'w'", or "initializer 'w' of graph 'g'".
static std::string nameOf(const proto::TensorProto &tensor,
                          const proto::GraphProto &graph) {
  return "initializer '" + tensor.name() + "'" +
         (graph.name().empty() ? "" : " of graph '" + graph.name() + "'");
}

static Error makeError(const Model &model, const std::string &what,
                       llvm::ArrayRef<int> places,
                       const std::string &difference) {
  return model.error(ErrorKind::InvalidInput,
                     what + " is there " +
                         (places.size() == 2
                              ? std::string("twice")
                              : std::to_string(places.size()) + " times") +
                         ", as initializers " + listPlaces(places) +
                         ", and they differ: " + difference +
                         "; take out all but one, or give the others names of "
                         "their own");
}

// Fails if the initializers at the positions `places`, which share a name,
// differ in type or value.
static Error checkEqual(const Model &model, const proto::GraphProto &graph,
                        llvm::ArrayRef<int> places) {
  const proto::TensorProto &first = graph.initializer(places.front());
  const std::string what = nameOf(first, graph);
  std::optional<HostTensor> values;
  for (int place : places.drop_front()) {
    const proto::TensorProto &other = graph.initializer(place);
    // Skip decoding if the stored bytes are equal: decoding large weights is
    // slow.
    if (areWrittenAlike(first, other))
      continue;
    // Decode the first tensor at most once.
    for (const proto::TensorProto *tensor : {&first, &other}) {
      if (tensor == &first && values)
        continue;
      Expected<HostTensor> read = model.decode(*tensor, what);
      if (!read)
        return read.takeError();
      if (tensor == &first) {
        values = std::move(*read);
        continue;
      }
      // Nobody can tell which of two different values is right.
      std::string difference = findDifference(*values, *read);
      if (!difference.empty())
        return makeError(model, what, places, difference);
    }
  }
  return Error::success();
}

// Keeps the first initializer of each name. Takes linear time.
static void keepFirst(proto::GraphProto &graph) {
  llvm::StringSet<> seen;
  int kept = 0;
  for (int i = 0; i < graph.initializer_size(); ++i) {
    const std::string &name = graph.initializer(i).name();
    if (name.empty() || seen.insert(name).second)
      graph.mutable_initializer()->SwapElements(i, kept++);
  }
  graph.mutable_initializer()->DeleteSubrange(kept,
                                              graph.initializer_size() - kept);
}

static Error dropRepeated(RepairContext &context, proto::GraphProto &graph) {
  const Model &model = context.getModel();
  llvm::MapVector<StringRef, llvm::SmallVector<int, 1>> places;
  for (int i = 0; i < graph.initializer_size(); ++i)
    if (!graph.initializer(i).name().empty())
      places[graph.initializer(i).name()].push_back(i);
  // Report the differences of all names at once: a file often has many.
  Error errors = Error::success();
  std::vector<std::string> names;
  for (const auto &[name, found] : places) {
    if (found.size() < 2)
      continue;
    errors =
        llvm::joinErrors(std::move(errors), checkEqual(model, graph, found));
    names.push_back("'" + name.str() + "'");
  }
  if (errors || names.empty())
    return errors;
  const bool isOne = names.size() == 1;
  context.warn(
      (isOne ? "initializer " : "initializers ") + listFirst(names, 3) +
      (graph.name().empty() ? "" : " of graph '" + graph.name() + "'") +
      (isOne ? " is" : " are") +
      " there more than once, with the same values; the first stays");
  keepFirst(graph);
  return Error::success();
}

Error mpc::onnx_frontend::dropRepeatedInitializers(RepairContext &context) {
  Error errors = Error::success();
  for (proto::GraphProto *graph : findGraphs(context.getModel().getProto()))
    errors = llvm::joinErrors(std::move(errors), dropRepeated(context, *graph));
  return errors;
}
