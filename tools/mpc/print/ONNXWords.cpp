// SPDX-License-Identifier: Apache-2.0
#include "tools/mpc/print/ONNXWords.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mpc;
using llvm::StringRef;

// Returns ONNX's name of an element type, like float for f32; empty for any
// other word.
static StringRef nameElement(StringRef type) {
  return llvm::StringSwitch<StringRef>(type)
      .Case("f16", "float16")
      .Case("bf16", "bfloat16")
      .Case("f32", "float")
      .Case("f64", "double")
      .Case("i1", "bool")
      .Case("i8", "int8")
      .Case("i16", "int16")
      .Case("i32", "int32")
      .Case("i64", "int64")
      .Cases({"u8", "ui8"}, "uint8")
      .Cases({"u16", "ui16"}, "uint16")
      .Cases({"u32", "ui32"}, "uint32")
      .Cases({"u64", "ui64"}, "uint64")
      .Default("");
}

// Rewrites "2x8xf32" as float[2,8]; empty if `text` is no tensor type.
static std::string nameTensor(StringRef text) {
  const size_t end = text.rfind('x');
  StringRef element = nameElement(text.substr(end + 1)); // npos + 1 is 0
  StringRef shape = end == StringRef::npos ? "" : text.take_front(end);
  if (element.empty() ||
      shape.find_first_not_of("0123456789x?") != StringRef::npos)
    return "";
  std::string extents = shape.str();
  for (char &c : extents)
    if (c == 'x')
      c = ',';
  return element.str() + "[" + extents + "]";
}

// Finds a type at the start of `text`. Returns the type's length in `text`, and
// the type as ONNX writes it; an empty text if there is none.
static std::pair<size_t, std::string> findType(StringRef text) {
  StringRef rest = text;
  if (rest.consume_front("tensor<"))
    return {text.find('>') + 1,
            nameTensor(rest.take_until([](char c) { return c == '>'; }))};
  if (rest.consume_front("tensor(")) {
    StringRef element =
        nameElement(rest.take_until([](char c) { return c == ')'; }));
    return {text.find(')') + 1,
            element.empty() ? "" : "tensor(" + element.str() + ")"};
  }
  StringRef word = text.take_while(llvm::isAlnum);
  const bool isShaped = text.drop_front(word.size()).starts_with("[");
  return {word.size(), isShaped ? nameElement(word).str() : ""};
}

std::string mpc::tools::inONNXWords(StringRef message) {
  std::string text;
  while (!message.empty()) {
    // A type starts only after one of these characters. Names of files and
    // values may look like types, but stand in quotes or between slashes.
    const bool starts = text.empty() || StringRef(" (,;").contains(text.back());
    auto [length, type] =
        starts ? findType(message) : std::pair<size_t, std::string>();
    if (type.empty()) {
      text += message.front();
      message = message.drop_front();
      continue;
    }
    text += type;
    message = message.drop_front(length);
  }
  return text;
}
