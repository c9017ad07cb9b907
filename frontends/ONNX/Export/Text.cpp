// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Export/Text.h"

#include "frontends/ONNX/Model/ExportedProgram.h"
#include "frontends/ONNX/Model/Metadata.h"
#include "frontends/ONNX/Model/Model.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"

#include <charconv>
#include <cmath>

using namespace mpc::onnx_frontend;
using llvm::Error;
using llvm::StringRef;

// The metadata keys that repairs and the importer read.
static constexpr llvm::StringLiteral kPrintedKeys[] = {
    kSignature,  kInputKindKey,  kOriginalName, kFoldedFrom,
    kNameScopes, kModuleClasses, kProgramCall};

// The names of element types in ONNX text, by number (TensorProto.DataType).
static StringRef getElementName(int32_t type) {
  static constexpr StringRef names[] = {
      "undefined",      "float",        "uint8",          "int8",
      "uint16",         "int16",        "int32",          "int64",
      "string",         "bool",         "float16",        "double",
      "uint32",         "uint64",       "complex64",      "complex128",
      "bfloat16",       "float8e4m3fn", "float8e4m3fnuz", "float8e5m2",
      "float8e5m2fnuz", "uint4",        "int4",           "float4e2m1",
      "float8e8m0",     "uint2",        "int2",           "float6e2m3",
      "float6e3m2"};
  return type >= 0 && type < int32_t(std::size(names)) ? names[type] : names[0];
}

// True if `name` can be written without quotes. Names such as `float` and `seq`
// need quotes: the parser could take them for the type of a value.
static bool isIdentifier(StringRef name) {
  static constexpr StringRef types[] = {"seq", "map", "optional",
                                        "sparse_tensor"};
  auto isElement = [&](int32_t type) { return name == getElementName(type); };
  return !name.empty() && !llvm::isDigit(name[0]) &&
         llvm::all_of(name,
                      [](char c) { return llvm::isAlnum(c) || c == '_'; }) &&
         !llvm::is_contained(types, name) &&
         llvm::none_of(llvm::seq<int32_t>(1, 29), isElement);
}

namespace {
class TextPrinter {
public:
  TextPrinter(const Model &model, int64_t mostElements, llvm::raw_ostream &os)
      : model(model), mostElements(mostElements), os(os) {}

  Error run();

private:
  void printString(StringRef text);
  void printName(StringRef name);
  void printNumber(double value, bool isSingle);
  void startLine() { os << "\n" << std::string(indent, ' '); }
  template <typename List, typename Print>
  void printList(const List &items, Print print);
  template <typename T>
  bool printMetadata(const T &owner);
  void printShape(const proto::TensorShapeProto &shape);
  void printType(const proto::TypeProto &type);
  void printValue(const proto::ValueInfoProto &value);
  void printValues(
      const google::protobuf::RepeatedPtrField<proto::ValueInfoProto> &values);
  void printTensor(const proto::TensorProto &tensor, bool isInitializer);
  void printElements(const HostTensor &values, int32_t type);
  void printAttribute(const proto::AttributeProto &attribute);
  void printAttributeValue(const proto::AttributeProto &attribute);
  void printNode(const proto::NodeProto &node);
  template <typename Owner>
  void printNodes(const Owner &owner);
  void printGraph(const proto::GraphProto &graph);
  void printBody(const proto::GraphProto &body);
  void printFunction(const proto::FunctionProto &function);
  template <typename Owner>
  void printOpsets(const Owner &owner);

  const Model &model;
  const int64_t mostElements;
  llvm::raw_ostream &os;
  unsigned indent = 0;
  Error errors = Error::success();
};
} // namespace

//===----------------------------------------------------------------------===//
// Words and numbers
//===----------------------------------------------------------------------===//

void TextPrinter::printString(StringRef text) {
  os << '"';
  for (char c : text) {
    if (c == '"' || c == '\\')
      os << '\\';
    os << c;
  }
  os << '"';
}

void TextPrinter::printName(StringRef name) {
  if (isIdentifier(name))
    os << name;
  else
    printString(name);
}

// Prints `value` with the fewest digits from which the parser reads the same
// number.
void TextPrinter::printNumber(double value, bool isSingle) {
  if (std::isnan(value)) {
    os << "nan";
    return;
  }
  char digits[32];
  const auto end = isSingle ? std::to_chars(digits, std::end(digits),
                                            static_cast<float>(value))
                            : std::to_chars(digits, std::end(digits), value);
  os << StringRef(digits, end.ptr - digits);
}

template <typename List, typename Print>
void TextPrinter::printList(const List &items, Print print) {
  llvm::interleave(
      items, [&](const auto &item) { print(item); }, [&] { os << ", "; });
}

// Prints the metadata of `owner` that repairs read, as comments on lines of
// their own. Returns true if there are any.
template <typename T>
bool TextPrinter::printMetadata(const T &owner) {
  bool hasAny = false;
  for (StringRef key : kPrintedKeys) {
    StringRef value = findMetadata(owner, key);
    if (value.empty())
      continue;
    hasAny = true;
    startLine();
    os << "# " << key << ": ";
    for (char c : value)
      if (c == '\n')
        os << "\\n";
      else if (c == '\\')
        os << "\\\\";
      else
        os << c;
  }
  return hasAny;
}

//===----------------------------------------------------------------------===//
// Types and values
//===----------------------------------------------------------------------===//

// A scalar has no brackets; empty brackets are an unknown rank.
void TextPrinter::printShape(const proto::TensorShapeProto &shape) {
  if (shape.dim_size() == 0)
    return;
  os << '[';
  llvm::interleave(
      shape.dim(),
      [&](const auto &dim) {
        if (dim.has_dim_value())
          os << dim.dim_value();
        else if (!dim.dim_param().empty())
          printName(dim.dim_param());
        else
          os << '?';
      },
      [&] { os << ','; });
  os << ']';
}

void TextPrinter::printType(const proto::TypeProto &type) {
  auto printTensorType = [&](const auto &tensor) {
    os << getElementName(tensor.elem_type());
    if (tensor.has_shape())
      printShape(tensor.shape());
    else
      os << "[]";
  };
  if (type.has_tensor_type()) {
    printTensorType(type.tensor_type());
  } else if (type.has_sparse_tensor_type()) {
    os << "sparse_tensor(";
    printTensorType(type.sparse_tensor_type());
    os << ')';
  } else if (type.has_sequence_type()) {
    os << "seq(";
    printType(type.sequence_type().elem_type());
    os << ')';
  } else if (type.has_optional_type()) {
    os << "optional(";
    printType(type.optional_type().elem_type());
    os << ')';
  } else if (type.has_map_type()) {
    os << "map(" << getElementName(type.map_type().key_type()) << ", ";
    printType(type.map_type().value_type());
    os << ')';
  }
}

void TextPrinter::printValue(const proto::ValueInfoProto &value) {
  // The metadata are comments. On the same line, the type would belong to the
  // last comment.
  if (printMetadata(value))
    startLine();
  if (value.has_type()) {
    printType(value.type());
    os << ' ';
  }
  printName(value.name());
}

void TextPrinter::printValues(
    const google::protobuf::RepeatedPtrField<proto::ValueInfoProto> &values) {
  os << '(';
  printList(values, [&](const auto &value) { printValue(value); });
  os << ')';
}

//===----------------------------------------------------------------------===//
// Tensors
//===----------------------------------------------------------------------===//

void TextPrinter::printElements(const HostTensor &values, int32_t type) {
  const bool isHalf = type == proto::TensorProto::FLOAT16 ||
                      type == proto::TensorProto::BFLOAT16;
  os << '{';
  for (int64_t i = 0; i < values.getNumElements(); ++i) {
    if (i > 0)
      os << ", ";
    if (isHalf) {
      // ONNX text writes 16-bit floats as the integers that have the same bits.
      uint16_t bits;
      std::memcpy(&bits, values.data.data() + i * sizeof(bits), sizeof(bits));
      os << bits;
    } else if (values.isFloat()) {
      printNumber(values.getDouble(i), type == proto::TensorProto::FLOAT);
    } else if (type == proto::TensorProto::UINT64) {
      os << static_cast<uint64_t>(values.getInteger(i));
    } else {
      os << values.getInteger(i);
    }
  }
  os << '}';
}

// Prints a tensor, such as "float[2] w = {1, 2}". The tensor of an attribute
// may have no name.
void TextPrinter::printTensor(const proto::TensorProto &tensor,
                              bool isInitializer) {
  os << getElementName(tensor.data_type());
  int64_t count = 1;
  for (int64_t extent : tensor.dims())
    count = llvm::MulOverflow(count, extent, count) ? INT64_MAX : count;
  if (tensor.dims_size() > 0)
    os << '['
       << llvm::join(llvm::map_range(
                         tensor.dims(),
                         [](int64_t extent) { return std::to_string(extent); }),
                     ",")
       << ']';
  os << ' ';
  const bool isText = tensor.data_type() == proto::TensorProto::STRING;
  llvm::Expected<mlir::Type> element =
      model.getElementType(tensor.data_type(), "tensor");
  const bool isElided = count > mostElements || (!isText && !element);
  if (!element)
    llvm::consumeError(element.takeError());
  // The syntax requires a name in front of external data.
  if (isInitializer || isElided || !tensor.name().empty()) {
    printName(tensor.name().empty() ? StringRef("elided") : tensor.name());
    os << " = ";
  }
  if (isElided) {
    os << "[\"location\": \"__elided__\"]";
    return;
  }
  if (isText) {
    os << '{';
    printList(tensor.string_data(), [&](StringRef text) { printString(text); });
    os << '}';
    return;
  }
  llvm::Expected<HostTensor> values =
      model.decode(tensor, "tensor '" + tensor.name() + "'");
  if (values)
    printElements(*values, tensor.data_type());
  else
    errors = llvm::joinErrors(std::move(errors), values.takeError());
}

//===----------------------------------------------------------------------===//
// Nodes
//===----------------------------------------------------------------------===//

static StringRef getTypeName(proto::AttributeProto::AttributeType type) {
  static constexpr StringRef names[] = {
      "",       "float",  "int",  "string",     "tensor",
      "graph",  "floats", "ints", "strings",    "tensors",
      "graphs", "",       "",     "type_proto", "type_protos"};
  return names[type];
}

void TextPrinter::printAttributeValue(const proto::AttributeProto &attribute) {
  using proto::AttributeProto;
  switch (attribute.type()) {
  case AttributeProto::FLOAT:
    printNumber(attribute.f(), /*isSingle=*/true);
    return;
  case AttributeProto::INT:
    os << attribute.i();
    return;
  case AttributeProto::STRING:
    printString(attribute.s());
    return;
  case AttributeProto::TENSOR:
    printTensor(attribute.t(), /*isInitializer=*/false);
    return;
  case AttributeProto::GRAPH:
    printBody(attribute.g());
    return;
  case AttributeProto::TYPE_PROTO:
    printType(attribute.tp());
    return;
  default:
    break;
  }
  os << '[';
  printList(attribute.floats(), [&](float value) { printNumber(value, true); });
  printList(attribute.ints(), [&](int64_t value) { os << value; });
  printList(attribute.strings(), [&](StringRef text) { printString(text); });
  printList(attribute.tensors(),
            [&](const auto &tensor) { printTensor(tensor, false); });
  printList(attribute.graphs(), [&](const auto &body) { printBody(body); });
  printList(attribute.type_protos(),
            [&](const auto &type) { printType(type); });
  os << ']';
}

void TextPrinter::printAttribute(const proto::AttributeProto &attribute) {
  os << attribute.name() << ": " << getTypeName(attribute.type()) << " = ";
  if (attribute.ref_attr_name().empty())
    printAttributeValue(attribute);
  else
    os << '@' << attribute.ref_attr_name();
}

void TextPrinter::printNode(const proto::NodeProto &node) {
  printMetadata(node);
  llvm::SmallVector<const proto::AttributeProto *> attributes;
  for (const proto::AttributeProto &attribute : node.attribute()) {
    if (!getTypeName(attribute.type()).empty()) {
      attributes.push_back(&attribute);
      continue;
    }
    startLine();
    os << "# " << attribute.name() << ": left out, a sparse tensor";
  }
  startLine();
  if (!node.name().empty()) {
    os << '[';
    printName(node.name());
    os << "] ";
  }
  printList(node.output(), [&](StringRef name) { printName(name); });
  os << " = ";
  if (StringRef domain = normalizeDomain(node.domain()); !domain.empty())
    os << domain << '.';
  os << node.op_type();
  if (!node.overload().empty())
    os << ':' << node.overload();
  if (!attributes.empty()) {
    os << " <";
    printList(attributes, [&](const auto *each) { printAttribute(*each); });
    os << '>';
  }
  os << " (";
  printList(node.input(), [&](StringRef name) { printName(name); });
  os << ')';
}

template <typename Owner>
void TextPrinter::printNodes(const Owner &owner) {
  startLine();
  os << '{';
  indent += 2;
  for (const proto::NodeProto &node : owner.node())
    printNode(node);
  indent -= 2;
  startLine();
  os << '}';
}

//===----------------------------------------------------------------------===//
// Graphs
//===----------------------------------------------------------------------===//

void TextPrinter::printGraph(const proto::GraphProto &graph) {
  os << ' ';
  printValues(graph.input());
  os << " => ";
  printValues(graph.output());
  // A value without a type only holds metadata of an initializer of equal name.
  // The metadata are printed in front of the initializer.
  llvm::StringMap<const proto::ValueInfoProto *> untyped;
  llvm::SmallVector<const proto::ValueInfoProto *> typed;
  for (const proto::ValueInfoProto &value : graph.value_info())
    if (value.has_type())
      typed.push_back(&value);
    else
      untyped[value.name()] = &value;
  if (!typed.empty() || graph.initializer_size() > 0) {
    startLine();
    os << '<';
    indent += 2;
    bool isFirst = true;
    auto separate = [&] {
      if (!std::exchange(isFirst, false))
        os << ',';
    };
    for (const proto::TensorProto &tensor : graph.initializer()) {
      separate();
      if (const auto *value = untyped.lookup(tensor.name()))
        printMetadata(*value);
      startLine();
      printTensor(tensor, /*isInitializer=*/true);
    }
    for (const proto::ValueInfoProto *value : typed) {
      separate();
      printMetadata(*value);
      startLine();
      printType(value->type());
      os << ' ';
      printName(value->name());
    }
    indent -= 2;
    startLine();
    os << '>';
  }
  printNodes(graph);
}

// Prints a body, such as a branch of If. The name becomes an identifier,
// because the parser takes a quoted name for a string attribute.
void TextPrinter::printBody(const proto::GraphProto &body) {
  std::string name = body.name();
  for (char &c : name)
    if (!llvm::isAlnum(c))
      c = '_';
  os << (isIdentifier(name) ? name : "body_" + name);
  printGraph(body);
}

template <typename Owner>
void TextPrinter::printOpsets(const Owner &owner) {
  os << "opset_import: [";
  printList(owner.opset_import(), [&](const auto &opset) {
    printString(normalizeDomain(opset.domain()));
    os << ": " << opset.version();
  });
  os << ']';
}

void TextPrinter::printFunction(const proto::FunctionProto &function) {
  os << "\n<\n  domain: ";
  printString(function.domain());
  os << ",\n  ";
  if (!function.overload().empty()) {
    os << "overload: ";
    printString(function.overload());
    os << ",\n  ";
  }
  printOpsets(function);
  os << "\n>\n" << function.name();
  if (function.attribute_size() > 0 || function.attribute_proto_size() > 0) {
    os << " <";
    printList(function.attribute(), [&](StringRef name) { os << name; });
    if (function.attribute_size() > 0 && function.attribute_proto_size() > 0)
      os << ", ";
    printList(function.attribute_proto(),
              [&](const auto &attribute) { printAttribute(attribute); });
    os << '>';
  }
  os << " (";
  printList(function.input(), [&](StringRef name) { printName(name); });
  os << ") => (";
  printList(function.output(), [&](StringRef name) { printName(name); });
  os << ')';
  printNodes(function);
}

Error TextPrinter::run() {
  const proto::ModelProto &file = model.getProto();
  os << "<\n  ir_version: " << file.ir_version() << ",\n  ";
  printOpsets(file);
  for (auto [key, value] :
       {std::pair<StringRef, StringRef>("producer_name", file.producer_name()),
        {"producer_version", file.producer_version()}})
    if (!value.empty()) {
      os << ",\n  " << key << ": ";
      printString(value);
    }
  os << "\n>";
  printMetadata(file.graph());
  startLine();
  printName(file.graph().name());
  printGraph(file.graph());
  for (const proto::FunctionProto &function : file.functions())
    printFunction(function);
  os << '\n';
  return std::move(errors);
}

Error mpc::onnx_frontend::printText(Model &model, int64_t mostElements,
                                    llvm::raw_ostream &os) {
  model.restoreCalls();
  return TextPrinter(model, mostElements, os).run();
}
