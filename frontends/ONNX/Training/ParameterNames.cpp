// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Training/ParameterNames.h"

#include "frontends/ONNX/Model/HostTensor.h"
#include "frontends/ONNX/Model/Metadata.h"

#include "llvm/ADT/StringSet.h"

using namespace mpc::onnx_frontend;
using llvm::StringRef;

//===----------------------------------------------------------------------===//
// Names
//===----------------------------------------------------------------------===//

static bool isNumber(StringRef text) {
  return !text.empty() && llvm::all_of(text, llvm::isDigit);
}

// True for "Constant", "Constant_3" and "const12".
static bool isConstantsName(StringRef part) {
  part = part.rtrim("0123456789").rtrim('_');
  return part.equals_insensitive("constant") ||
         part.equals_insensitive("const");
}

bool mpc::onnx_frontend::isNumbered(StringRef name) {
  if (name.empty() || isExportersName(name) || name.contains("::") ||
      name.starts_with("/") || name.starts_with("_inlfunc_") || isNumber(name))
    return true;
  llvm::SmallVector<StringRef> parts;
  name.split(parts, '.');
  return llvm::any_of(parts, isConstantsName);
}

bool mpc::onnx_frontend::isModulesName(StringRef name) {
  if (isNumbered(name))
    return false;
  llvm::SmallVector<StringRef> parts;
  name.split(parts, '.');
  // A name that ends in a number needs three parts, like "block.layers.4":
  // older tools number any value, like "input.4".
  const size_t fewest = isNumber(parts.back()) ? 3 : 2;
  return parts.size() >= fewest && !isNumber(parts.front()) &&
         llvm::all_of(parts, [](StringRef part) {
           return !part.empty() && llvm::all_of(part, [](char c) {
             return llvm::isAlnum(c) || c == '_' || c == '-';
           });
         });
}

bool mpc::onnx_frontend::isNamedAsBuffer(StringRef name) {
  static const llvm::StringSet<> words = {
      "anchor", "anchors", "buffer", "cache",   "cached", "cos",      "freq",
      "freqs",  "grid",    "mask",   "mean",    "means",  "sin",      "std",
      "stddev", "stds",    "stride", "strides", "var",    "variance", "window"};
  static const llvm::StringSet<> names = {
      "embed_scale", "frequencies", "max_val",
      "min_val",     "pos_weight",  "relative_coords_table"};
  // In "encoder.pixel_mean" the last word, "mean", marks a buffer. A tensor
  // like "log_std" is a learned parameter.
  StringRef last = name.substr(name.rfind('.') + 1);
  return names.contains(last) ||
         (words.contains(last.substr(last.rfind('_') + 1)) &&
          !last.starts_with("log_"));
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

bool mpc::onnx_frontend::holdsSinusoids(const Model &model,
                                        const proto::TensorProto &tensor) {
  // The first row of a vector is the whole vector, which proves nothing: a bias
  // may start with zeros and ones.
  if (llvm::count_if(tensor.dims(), [](int64_t n) { return n > 1; }) < 2)
    return false;
  llvm::Expected<HostTensor> table =
      model.decode(tensor, "initializer '" + tensor.name() + "'");
  // Drop the error: the import will report the tensor.
  if (!table)
    return llvm::consumeError(table.takeError()), false;
  const int64_t width = table->getShape().back();
  int64_t zeros = 0;
  for (int64_t i = 0; i < table->getNumElements(); ++i) {
    const double value = table->getDouble(i);
    const bool isFirst = i < width;
    if (isFirst ? value != 0 && value != 1 : !(value >= -1 && value <= 1))
      return false;
    zeros += isFirst && value == 0;
  }
  return zeros > 0 && zeros < width;
}
