// SPDX-License-Identifier: Apache-2.0
#include "tools/mpc/print/OutputTable.h"

#include "runtime/train/data/CSV.h"
#include "runtime/train/support/FileSystem.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/raw_ostream.h"

#include <charconv>
#include <utility>

using namespace mpc;
using namespace mpc::tools;
using namespace mpc::runtime;
using runtime::train::Array;

bool mpc::tools::isTable(const std::string &file) { return train::isCSV(file); }

static Status refuse(const std::string &file, const std::string &name,
                     const Shape &shape) {
  return Status(StatusCode::Usage,
                file +
                    ": a table has a row of numbers for each sample, and "
                    "output '" +
                    name + "' is " + toString(shape) +
                    "; write .npy, .npz or .safetensors");
}

Status mpc::tools::checkTable(const std::string &file,
                              const train::FunctionPorts &function) {
  for (const train::Port &port : function.outputs)
    if (port.shape.empty() || port.shape.size() > 2)
      return refuse(file, port.name, port.shape);
  return Status();
}

// Prints the name of a column as RFC 4180 requires: in quotes if it has a
// comma, a quote or a line break.
static void printName(llvm::raw_ostream &os, llvm::StringRef name) {
  if (name.find_first_of(",\"\r\n") == llvm::StringRef::npos) {
    os << name;
    return;
  }
  os << '"';
  for (char c : name)
    os << (c == '"' ? "\"\"" : llvm::StringRef(&c, 1));
  os << '"';
}

template <typename T>
static void printNumber(llvm::raw_ostream &os, T value) {
  char text[64];
  auto [end, error] = std::to_chars(std::begin(text), std::end(text), value);
  os << llvm::StringRef(text, size_t(end - text));
}

// Prints an element of an array, with the fewest digits from which the same
// value can be read back. NaN and infinities are words.
static void printElement(llvm::raw_ostream &os, const Array &array,
                         int64_t index) {
  const bool isWhole = !train::isFloat(array.type);
  const bool isUnsigned = array.type == train::ElementType::U64;
  union {
    double real;
    int64_t whole;
    uint64_t natural;
  } value;
  (void)train::convertElements(array, index, 1,
                               !isWhole     ? DType::F64
                               : isUnsigned ? DType::U64
                                            : DType::I64,
                               train::NonFinite::Allow, &value);
  if (isUnsigned)
    printNumber(os, value.natural);
  else if (isWhole)
    printNumber(os, value.whole);
  else if (array.type == train::ElementType::F64)
    printNumber(os, value.real);
  else
    printNumber(os, float(value.real));
}

Status mpc::tools::writeTable(const std::string &file,
                              const std::vector<Array> &arrays,
                              const std::vector<train::TextArray> &texts) {
  // Check that all outputs have the same number of rows.
  for (const Array &array : arrays) {
    if (array.shape.empty() || array.shape.size() > 2)
      return refuse(file, array.name, array.shape);
    if (array.shape[0] != arrays.front().shape[0])
      return Status(StatusCode::Usage,
                    file + ": outputs have different numbers of rows: '" +
                        arrays.front().name + "' " +
                        toString(arrays.front().shape) + ", '" + array.name +
                        "' " + toString(array.shape) +
                        "; write .npz or .safetensors");
  }
  auto columnsOf = [](const Array &array) {
    return array.shape.size() == 1 ? 1 : array.shape[1];
  };
  std::string text;
  llvm::raw_string_ostream os(text);
  std::vector<const train::TextArray *> columns;
  for (const train::TextArray &each : texts)
    if (int64_t(each.texts.size()) == arrays.front().shape[0])
      columns.push_back(&each);
  const char *comma = "";
  for (const train::TextArray *column : columns) {
    os << std::exchange(comma, ",");
    printName(os, column->name);
  }
  for (const Array &array : arrays)
    for (int64_t i = 0; i < columnsOf(array); ++i) {
      os << std::exchange(comma, ",");
      printName(os, columnsOf(array) == 1
                        ? array.name
                        : array.name + "_" + std::to_string(i));
    }
  os << "\n";
  for (int64_t row = 0; row < arrays.front().shape[0]; ++row) {
    comma = "";
    for (const train::TextArray *column : columns) {
      os << std::exchange(comma, ",");
      printName(os, column->texts[size_t(row)]);
    }
    for (const Array &array : arrays)
      for (int64_t i = 0; i < columnsOf(array); ++i) {
        os << std::exchange(comma, ",");
        printElement(os, array, row * columnsOf(array) + i);
      }
    os << "\n";
  }
  return train::replaceFile(file, {text});
}
