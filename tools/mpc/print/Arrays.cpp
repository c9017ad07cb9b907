// SPDX-License-Identifier: Apache-2.0
#include "tools/mpc/print/Arrays.h"

#include "runtime/train/data/ArrayFile.h"
#include "runtime/train/support/FileSystem.h"
#include "tools/mpc/print/PrintableStream.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Format.h"

#include <nlohmann/json.hpp>

using namespace mpc;
using namespace mpc::tools;
using namespace mpc::runtime;
using namespace mpc::runtime::train;

//===----------------------------------------------------------------------===//
// In
//===----------------------------------------------------------------------===//

static Status malformed(llvm::StringRef name, const std::string &why) {
  return Status(StatusCode::Usage, "--input " + name.str() + ": " + why);
}

static StatusOr<Array> readFile(llvm::StringRef name, const std::string &file) {
  StatusOr<std::vector<Array>> arrays = readPackedArrays(file);
  if (!arrays.ok())
    return arrays.status();
  for (Array &array : *arrays)
    if (array.name == name || arrays->size() == 1) {
      if (Status status = unpack(array); !status.ok())
        return status;
      array.name = name.str();
      return array;
    }
  return Status(StatusCode::InvalidInput,
                file + ": has no array '" + name.str() + "'");
}

// Returns the shape of nested JSON lists, by the first element of each level:
// [[1, 2], [3, 4]] has shape [2, 2].
static Shape shapeOf(const nlohmann::json &value) {
  Shape shape;
  const nlohmann::json *level = &value;
  while (level->is_array()) {
    shape.push_back(int64_t(level->size()));
    if (level->empty())
      break;
    level = &level->front();
  }
  return shape;
}

// Appends the numbers of nested lists to `numbers`, in row-major order. False
// if the lists do not have `shape`, or contain anything but numbers and
// booleans.
static bool flatten(const nlohmann::json &value, const Shape &shape,
                    size_t depth, std::vector<nlohmann::json> &numbers) {
  if (depth == shape.size()) {
    numbers.push_back(value);
    return value.is_number() || value.is_boolean();
  }
  if (!value.is_array() || int64_t(value.size()) != shape[depth])
    return false;
  for (const nlohmann::json &element : value)
    if (!flatten(element, shape, depth + 1, numbers))
      return false;
  return true;
}

static StatusOr<Array> parseLiteral(llvm::StringRef name,
                                    const std::string &text) {
  const bool list = text.find(',') != std::string::npos &&
                    text.find('[') == std::string::npos;
  const auto value = nlohmann::json::parse(list ? "[" + text + "]" : text,
                                           nullptr, /*allow_exceptions=*/false);
  // Limit the nesting of lists to the largest rank of a shape, since deep
  // nesting could exhaust the stack.
  constexpr size_t deepest = 16;
  const Shape shape = value.is_discarded() ? Shape() : shapeOf(value);
  std::vector<nlohmann::json> numbers;
  if (value.is_discarded() || shape.size() > deepest ||
      !flatten(value, shape, 0, numbers))
    return malformed(name, "expected a file, a number or a list such as "
                           "[[1, 2], [3, 4]], found '" +
                               text + "'");
  bool integral = true;
  for (const nlohmann::json &number : numbers) {
    integral &= !number.is_number_float();
    if (number.is_number_unsigned() && number.get<uint64_t>() > INT64_MAX)
      return malformed(name, number.dump() + " does not fit in 64 bits");
  }
  Tensor tensor = Tensor::zeros(integral ? DType::I64 : DType::F64, shape);
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (!integral)
      tensor.as<double>()[i] = numbers[i].get<double>();
    else if (numbers[i].is_boolean())
      tensor.as<int64_t>()[i] = numbers[i].get<bool>();
    else
      tensor.as<int64_t>()[i] = numbers[i].get<int64_t>();
  }
  return toArray(name.str(), tensor);
}

StatusOr<Array> mpc::tools::parseInput(const std::string &text) {
  auto [name, value] = llvm::StringRef(text).split('=');
  if (name.empty() || value.empty())
    return malformed(text, "expected NAME=FILE, NAME=@FILE or NAME=VALUE");
  if (value.consume_front("@"))
    return readFile(name, value.str());
  StatusOr<Array> literal = parseLiteral(name, value.str());
  // If the text is a valid literal, do not look for a file of this name.
  if (literal.ok())
    return literal;
  StatusOr<bool> isFile = train::exists(value.str());
  if (!isFile.ok())
    return isFile.status();
  return *isFile ? readFile(name, value.str()) : literal;
}

//===----------------------------------------------------------------------===//
// Out
//===----------------------------------------------------------------------===//

std::string mpc::tools::describeValues(const Tensor &tensor) {
  constexpr int64_t longest = 32, ends = 8;
  // Convert to one of three types that together hold all values exactly.
  const DType type = isFloat(tensor.type)        ? DType::F64
                     : tensor.type == DType::U64 ? DType::U64
                                                 : DType::I64;
  StatusOr<Tensor> values = runtime::convert(tensor, type);
  if (!values.ok())
    return values.status().message();
  std::string text;
  llvm::raw_string_ostream os(text);
  const int64_t count = tensor.size();
  const char *format = tensor.type == DType::F64 ? "%.17g" : "%.9g";
  for (int64_t i = 0; i < count; ++i) {
    os << (i > 0 ? " " : "");
    if (count > longest && i == ends) {
      i = count - ends;
      os << "... ";
    }
    if (type == DType::I64)
      os << values->as<int64_t>()[i];
    else if (type == DType::U64)
      os << values->as<uint64_t>()[i];
    else
      os << llvm::format(format, values->as<double>()[i]);
  }
  return text;
}

void mpc::tools::printTensor(llvm::raw_ostream &os, const std::string &name,
                             const Tensor &tensor) {
  os << printable(name) << ": " << nameOf(tensor.type) << " "
     << toString(tensor.shape) << " =";
  if (const std::string values = describeValues(tensor); !values.empty())
    os << " " << values;
  os << "\n";
}
