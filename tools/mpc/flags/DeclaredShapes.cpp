// SPDX-License-Identifier: Apache-2.0
#include "tools/mpc/flags/DeclaredShapes.h"

#include "frontends/ONNX/Summary.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"

using namespace mpc;
using namespace mpc::tools;

std::optional<int64_t> DeclaredShape::extent(size_t axis) const {
  int64_t extent;
  if (!dimensions || axis >= dimensions->size() || isQuoted[axis] ||
      llvm::StringRef((*dimensions)[axis]).getAsInteger(10, extent))
    return std::nullopt;
  return extent;
}

bool DeclaredShape::isOpen(size_t axis) const {
  return !dimensions || (axis < dimensions->size() && !extent(axis));
}

/// Removes the first dimension from the start of `list` and returns it, without
/// quotes.
static std::string takeDimension(llvm::StringRef &list) {
  std::string dimension;
  if (!list.consume_front("'")) {
    llvm::StringRef part = list.take_until([](char c) { return c == ','; });
    list = list.drop_front(part.size());
    return part.str();
  }
  while (!list.empty()) {
    char letter = list.front();
    list = list.drop_front();
    // A quote ends the name, but two quotes in a row are a quote in the name.
    if (letter == '\'' && !list.consume_front("'"))
      break;
    dimension += letter;
  }
  return dimension;
}

DeclaredShape mpc::tools::parseDeclaredShape(const std::string &name,
                                             llvm::StringRef type) {
  DeclaredShape shape{name, type.split('[').first.str(), std::nullopt, {}};
  llvm::StringRef list = type.drop_front(shape.type.size());
  if (!list.consume_front("[") || !list.consume_back("]") || list == "...")
    return shape;
  shape.dimensions.emplace();
  while (!list.empty()) {
    shape.isQuoted.push_back(list.front() == '\'');
    shape.dimensions->push_back(takeDimension(list));
    list.consume_front(",");
  }
  return shape;
}

std::vector<DeclaredShape>
mpc::tools::readDeclaredInputs(const onnx_frontend::Model &model) {
  std::vector<DeclaredShape> inputs;
  for (const auto &[name, type] : onnx_frontend::listInputs(model))
    inputs.push_back(parseDeclaredShape(name, type));
  return inputs;
}

bool mpc::tools::isBound(const DeclaredShape &input, size_t axis,
                         const std::vector<std::string> &shapes) {
  return llvm::any_of(shapes, [&](llvm::StringRef shape) {
    llvm::StringRef name = shape.rsplit('=').first;
    bool isSymbol = input.dimensions && axis < input.dimensions->size() &&
                    name == (*input.dimensions)[axis];
    return name == input.name || isSymbol;
  });
}

std::optional<int64_t>
mpc::tools::findBatchAxis(const DeclaredShape &input,
                          llvm::ArrayRef<int64_t> shape,
                          const std::vector<std::string> &batchAxes) {
  int64_t axis = 0;
  for (llvm::StringRef text : batchAxes) {
    auto [name, word] = text.rsplit('=');
    if (name == input.name && word.getAsInteger(10, axis))
      return std::nullopt;
  }
  bool isRank = !input.dimensions || input.dimensions->size() == shape.size();
  if (!isRank || axis < 0 || axis >= int64_t(shape.size()))
    return std::nullopt;
  return axis;
}

// True if an array of `shape` fits the input, for any number of samples on axis
// 0.
static bool mayBe(const DeclaredShape &input, llvm::ArrayRef<int64_t> shape) {
  if (!input.dimensions || input.dimensions->size() != shape.size())
    return false;
  for (size_t axis = 1; axis < shape.size(); ++axis)
    if (input.extent(axis).value_or(shape[axis]) != shape[axis])
      return false;
  return true;
}

bool mpc::tools::isTurned(const DeclaredShape &input,
                          llvm::ArrayRef<int64_t> shape) {
  if (shape.size() < 3 || mayBe(input, shape))
    return false;
  llvm::SmallVector<int64_t> turned(shape);
  std::rotate(turned.begin() + 1, turned.end() - 1, turned.end());
  return mayBe(input, turned);
}
