// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Model/ExportedProgram.h"

#include "frontends/ONNX/Model/Metadata.h"

#include "llvm/ADT/StringExtras.h"

using namespace mpc::onnx_frontend;
using llvm::ArrayRef;
using llvm::SmallVector;
using llvm::StringRef;

static bool isSource(StringRef name) {
  return isParameter(name) || name.starts_with("b_") || name.starts_with("c_");
}

ExportedProgram ExportedProgram::read(const proto::GraphProto &graph) {
  ExportedProgram program;
  StringRef rest = findMetadata(graph, kSignature);
  // The signature has lines like "p_fc_weight: PARAMETER target='fc.weight'"
  // and "x: USER_INPUT". The section "# outputs" lists buffers that the program
  // mutates; skip it.
  rest = rest.split("# outputs").first;
  while (!rest.empty()) {
    StringRef line;
    std::tie(line, rest) = rest.split('\n');
    auto [source, text] = line.split(": ");
    StringRef target = text.split("target='").second.split('\'').first;
    if (!text.empty())
      program.signature.try_emplace(source, target);
  }
  for (auto [source, target] : program.signature)
    if (isSource(source))
      (isParameter(source) ? program.parameters : program.buffers)
          .insert(target);
  return program;
}

//===----------------------------------------------------------------------===//
// Calls
//===----------------------------------------------------------------------===//

// Splits the arguments of a call at commas outside all brackets: "%x, [1, 2]"
// has the arguments "%x" and "[1, 2]".
static SmallVector<StringRef> splitArguments(StringRef text) {
  SmallVector<StringRef> arguments;
  size_t begin = 0;
  int depth = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '[' || text[i] == '(')
      ++depth;
    else if (text[i] == ']' || text[i] == ')')
      --depth;
    else if (text[i] == ',' && depth == 0) {
      arguments.push_back(text.slice(begin, i).trim());
      begin = i + 1;
    }
  }
  if (StringRef last = text.substr(begin).trim(); !last.empty())
    arguments.push_back(last);
  return arguments;
}

ProgramCall mpc::onnx_frontend::readCall(const proto::NodeProto &node) {
  StringRef text = findMetadata(node, kProgramCall);
  ProgramCall call;
  call.name = text.split(" : ").first.trim("%");
  call.target = text.split("[target=").second.split(']').first;
  auto [arguments, keywords] =
      text.split("(args = (").second.rsplit("), kwargs = ");
  call.arguments = splitArguments(arguments);
  call.hasKeywords = !keywords.starts_with("{}");
  SmallVector<StringRef> items;
  arguments.split(items, ',');
  for (StringRef item : items)
    if (item = item.trim("[]() "); item.consume_front("%"))
      (isSource(item) ? call.sources : call.results).push_back(item);
  return call;
}

std::optional<StringRef> ProgramCall::findSource(int argument) const {
  if (argument == kConstantOperand)
    return StringRef();
  if (argument >= static_cast<int>(arguments.size()))
    return std::nullopt;
  StringRef text = arguments[argument];
  if (text.consume_front("%"))
    return isSource(text) ? std::optional(text) : std::nullopt;
  if (text == "None" || (!text.empty() && llvm::isDigit(text[0])))
    return StringRef();
  return std::nullopt;
}

//===----------------------------------------------------------------------===//
// Operands of nodes
//===----------------------------------------------------------------------===//

namespace {
/// For a node of type `op` that the exporter makes of a call of `target`: for
/// each input of the node, the index of the call's argument.
struct CallOperands {
  StringRef target, op;
  std::initializer_list<int> arguments;
};
} // namespace

// Lists the known calls. Two are not obvious. For group_norm the exporter
// writes an InstanceNormalization with constant ones and zeros, then a Mul and
// an Add. For attention it writes a Mul that scales queries and keys by a
// constant.
static ArrayRef<CallOperands> getCallOperands() {
  constexpr int none = kConstantOperand;
  // Each row: the start of the call's name, the op of the node, and the index
  // of the call's argument for each input of the node.
  static const CallOperands all[] = {
      {"layer_norm.", "LayerNormalization", {0, 2, 3}},
      {"native_layer_norm.", "LayerNormalization", {0, 2, 3}},
      {"instance_norm.", "InstanceNormalization", {0, 1, 2}},
      {"group_norm.", "InstanceNormalization", {0, none, none}},
      {"group_norm.", "GroupNormalization", {0, 2, 3}},
      {"group_norm.", "Mul", {2, 2}},
      {"group_norm.", "Add", {3, 3}},
      {"linear.", "Gemm", {0, 1, 2}},
      {"linear.", "MatMul", {0, 1}},
      {"linear.", "Add", {2, 2}},
      {"addmm.", "Gemm", {1, 2, 0}},
      {"mm.", "MatMul", {0, 1}},
      {"bmm.", "MatMul", {0, 1}},
      {"matmul.", "MatMul", {0, 1}},
      {"conv", "Conv", {0, 1, 2}},
      {"conv", "ConvTranspose", {0, 1, 2}},
      {"prelu.", "PRelu", {0, 1}},
      {"embedding.", "Gather", {0, 1}},
      {"scaled_dot_product_attention.", "Mul", {none, none}},
      {"scaled_dot_product_attention.", "Add", {3, 3}},
      {"add.", "Add", {0, 1}},
      {"sub.", "Sub", {0, 1}},
      {"mul.", "Mul", {0, 1}},
      {"div.", "Div", {0, 1}},
      {"rsub.", "Sub", {1, 0}},
      {"pow.", "Pow", {0, 1}},
      {"maximum.", "Max", {0, 1}},
      {"minimum.", "Min", {0, 1}},
      {"where.", "Where", {0, 1, 2}},
  };
  return all;
}

std::optional<int> mpc::onnx_frontend::findArgument(const ProgramCall &call,
                                                    StringRef op, int index) {
  // PyTorch's call of a batch normalization has its arguments in the order of
  // ONNX's inputs.
  if (op == "BatchNormalization" && !call.target.empty())
    return index;
  StringRef target = call.target;
  if (!target.consume_front("torch.ops.aten."))
    return std::nullopt;
  for (const CallOperands &operands : getCallOperands())
    if (op == operands.op && target.starts_with(operands.target) &&
        index < static_cast<int>(operands.arguments.size()))
      return operands.arguments.begin()[index];
  return std::nullopt;
}

// Drops the number that the exporter appends to the name of a result: "slice_1"
// → "slice".
static StringRef dropNumber(StringRef name) {
  auto [call, number] = name.rsplit('_');
  bool isNumbered = !number.empty() && llvm::all_of(number, llvm::isDigit);
  return isNumbered ? call : name;
}

// True if `name`, like "slice_1", is the result of a call that only moves
// elements.
static bool isMovement(StringRef name) {
  static const llvm::StringSet<> calls = {
      "_unsafe_view", "alias",  "cat",          "clone",     "contiguous",
      "embedding",    "expand", "flatten",      "flip",      "gather",
      "index",        "narrow", "index_select", "permute",   "repeat",
      "reshape",      "roll",   "select",       "slice",     "squeeze",
      "stack",        "t",      "tile",         "transpose", "unflatten",
      "unsqueeze",    "view"};
  return calls.contains(dropNumber(name));
}

// True if `name`, like "arange_2", is the result of a call that computes
// indices for a movement of elements.
static bool isPlaces(StringRef name) {
  name = dropNumber(name);
  return name == "arange" || name == "scalar_tensor_default";
}

// The program computes addcmul(b, w, x, value=v), which is b + v * w * x. The
// exporter folds v * w into one initializer. Without `value`, v is 1, so the
// initializer is the parameter w.
llvm::StringSet<>
mpc::onnx_frontend::findUnitMultiples(const proto::GraphProto &graph) {
  llvm::StringSet<> factors;
  for (const proto::NodeProto &node : graph.node()) {
    if (node.op_type() != "Mul")
      continue;
    const ProgramCall call = readCall(node);
    if (call.target.starts_with("torch.ops.aten.addcmul.") && !call.hasKeywords)
      factors.insert(node.input().begin(), node.input().end());
  }
  return factors;
}

// True for torch.cat and torch.stack ("cat_3" too). Their results may mix
// elements of buffers with elements of parameters.
static bool isJoin(StringRef name) {
  name = dropNumber(name);
  return name == "cat" || name == "stack";
}

// True if `value` is one parameter times 1, folded from an addcmul
// (findUnitMultiples). The metadata then list one parameter and a number, which
// the exporter calls "value_2" or, after a cast, "value_cast_2".
static bool isUnitMultiple(const proto::ValueInfoProto &value,
                           ArrayRef<StringRef> from,
                           const ExportedProgram &program,
                           const llvm::StringSet<> &unitMultiples) {
  auto isKnown = [&](StringRef name) {
    return program.parameters.contains(name);
  };
  return unitMultiples.contains(value.name()) &&
         llvm::count_if(from, isKnown) == 1 &&
         llvm::all_of(from, [&](StringRef name) {
           return isKnown(name) || dropNumber(name) == "value" ||
                  dropNumber(name) == "value_cast";
         });
}

bool mpc::onnx_frontend::isMoved(const proto::ValueInfoProto &value,
                                 const ExportedProgram &program,
                                 const llvm::StringSet<> &unitMultiples) {
  SmallVector<StringRef> from = readFoldedParameters(value);
  if (isUnitMultiple(value, from, program, unitMultiples))
    return true;
  bool hasParameter = false, hasBuffer = false, hasJoin = isJoin(value.name());
  for (StringRef name : from) {
    const bool isOfProgram =
        program.parameters.contains(name) || program.buffers.contains(name);
    if (!isOfProgram && !isMovement(name) && !isPlaces(name))
      return false;
    hasParameter |= program.parameters.contains(name);
    hasBuffer |= program.buffers.contains(name);
    hasJoin |= isJoin(name);
  }
  return isMovement(value.name()) && hasParameter && !(hasBuffer && hasJoin);
}

bool mpc::onnx_frontend::mayRepeat(const proto::ValueInfoProto &value) {
  static const llvm::StringSet<> calls = {"cat",    "embedding", "expand",
                                          "gather", "index",     "index_select",
                                          "repeat", "stack",     "tile"};
  auto repeats = [&](StringRef name) {
    return calls.contains(dropNumber(name));
  };
  return repeats(value.name()) ||
         llvm::any_of(readFoldedParameters(value), repeats);
}

std::optional<int64_t>
mpc::onnx_frontend::findPaddingRow(const ProgramCall &call) {
  constexpr unsigned paddingArgument = 2;
  int64_t row;
  if (!call.target.starts_with(kEmbeddingTarget) ||
      call.arguments.size() <= paddingArgument ||
      call.arguments[paddingArgument].getAsInteger(10, row) || row < 0)
    return std::nullopt;
  return row;
}

//===----------------------------------------------------------------------===//
// Initializers
//===----------------------------------------------------------------------===//

static void addMetadata(proto::ValueInfoProto &value, StringRef key,
                        StringRef text) {
  auto *entry = value.add_metadata_props();
  entry->set_key(key.str());
  entry->set_value(text.str());
}

void mpc::onnx_frontend::describeInitializer(proto::GraphProto &graph,
                                             StringRef name, StringRef source) {
  proto::ValueInfoProto &value = *graph.add_value_info();
  value.set_name(name.str());
  addMetadata(value, kInputKindKey,
              isParameter(source)        ? "PARAMETER"
              : source.starts_with("b_") ? "BUFFER"
                                         : "CONSTANT_TENSOR");
  if (!source.empty())
    addMetadata(value, kOriginalName, source);
}

void mpc::onnx_frontend::describeFolded(proto::GraphProto &graph,
                                        StringRef name, StringRef source) {
  proto::ValueInfoProto &value = *graph.add_value_info();
  value.set_name(name.str());
  addMetadata(value, kFoldedFrom, ("['" + source + "']").str());
}
