// Rewrites nodes that have the form of another opset than the file states.
//
// Tools that change the opset of a file, or add nodes, leave such nodes. Nodes
// of ONNX's own ops get the form of the file's opset:
//   - If a node has an attribute of a later opset, the file gets the later
//     opset. Fails if another node would then mean something else. An attribute
//     with the default value is dropped instead.
//   - If the file's opset has an input in place of an attribute, like the
//     `axes` of a reduction, the attribute becomes an input, and the reverse.
//   - An op defined only by ONNX Runtime gets the domain com.microsoft.
//   - Integers get the type expected by the op, like int64 for a shape.
//
// Before:
//
// ```
// <ir_version: 8, opset_import: ["" : 13]>
// g (float[2,3] x) => (float[2,1] y)
// {
//   y = ReduceSum <axes: ints = [1]> (x)
// }
// ```
//
// After:
//
// ```
// ReduceSum_y_axes = Constant <value: tensor = int64[1] {1}> ()
// y = ReduceSum (x, ReduceSum_y_axes)
// ```
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Repair/Repair.h"

#include "frontends/ONNX/Model/Graph.h"
#include "frontends/ONNX/Model/NodeScope.h"

#include "llvm/ADT/STLExtras.h"

using namespace mpc::onnx_frontend;
using llvm::StringRef;
using AttributeProto = proto::AttributeProto;

//===----------------------------------------------------------------------===//
// The opsets' differences
//===----------------------------------------------------------------------===//

namespace {
/// An attribute of an op that became input number `input` in opset `since`.
struct Move {
  StringRef op, attribute;
  int input;
  int64_t since;
};

/// An attribute that an op gained in opset `since`. `byDefault` is an integer
/// default; nullopt otherwise.
struct Addition {
  StringRef op, attribute;
  int64_t since;
  std::optional<int64_t> byDefault;
};

/// An op that opset `since` introduced, removed or redefined.
struct Change {
  StringRef op;
  int64_t since;
};

/// An input that must hold integers of type `type`: int64 for a shape.
struct IntegerInput {
  StringRef op;
  int input;
  int32_t type;
};
} // namespace

static constexpr int32_t kInt64 = proto::TensorProto::INT64;
static constexpr int32_t kInt32 = proto::TensorProto::INT32;

/// Opset 20 of GridSample added volumes to images, and renamed the modes.
static constexpr int64_t kVolumesSince = 20;

static const Move kMoves[] = {
    {"Pad", "pads", 1, 11},          {"Pad", "value", 2, 11},
    {"ReduceL1", "axes", 1, 18},     {"ReduceL2", "axes", 1, 18},
    {"ReduceLogSum", "axes", 1, 18}, {"ReduceLogSumExp", "axes", 1, 18},
    {"ReduceMax", "axes", 1, 18},    {"ReduceMean", "axes", 1, 18},
    {"ReduceMin", "axes", 1, 18},    {"ReduceProd", "axes", 1, 18},
    {"ReduceSum", "axes", 1, 13},    {"ReduceSumSquare", "axes", 1, 18},
    {"Split", "split", 1, 13},       {"Squeeze", "axes", 1, 13},
    {"Unsqueeze", "axes", 1, 13},
};

static const Addition kAdditions[] = {
    {"AveragePool", "ceil_mode", 10, 0},
    {"AveragePool", "count_include_pad", 7, 0},
    {"AveragePool", "dilations", 19, std::nullopt},
    {"Cast", "round_mode", 24, std::nullopt},
    {"Cast", "saturate", 19, 1},
    {"CastLike", "saturate", 19, 1},
    {"DepthToSpace", "mode", 11, std::nullopt},
    {"DequantizeLinear", "axis", 13, std::nullopt},
    {"GRU", "layout", 14, 0},
    {"GatherND", "batch_dims", 12, 0},
    {"Gelu", "approximate", 20, std::nullopt},
    {"LSTM", "layout", 14, 0},
    {"LpPool", "ceil_mode", 18, 0},
    {"LpPool", "dilations", 18, std::nullopt},
    {"MaxPool", "ceil_mode", 10, 0},
    {"MaxPool", "dilations", 10, std::nullopt},
    {"MaxPool", "storage_order", 8, 0},
    {"QuantizeLinear", "axis", 13, std::nullopt},
    {"RNN", "layout", 14, 0},
    {"ReduceL1", "noop_with_empty_axes", 18, 0},
    {"ReduceL2", "noop_with_empty_axes", 18, 0},
    {"ReduceLogSum", "noop_with_empty_axes", 18, 0},
    {"ReduceLogSumExp", "noop_with_empty_axes", 18, 0},
    {"ReduceMax", "noop_with_empty_axes", 18, 0},
    {"ReduceMean", "noop_with_empty_axes", 18, 0},
    {"ReduceMin", "noop_with_empty_axes", 18, 0},
    {"ReduceProd", "noop_with_empty_axes", 18, 0},
    {"ReduceSum", "noop_with_empty_axes", 13, 0},
    {"ReduceSumSquare", "noop_with_empty_axes", 18, 0},
    {"Reshape", "allowzero", 14, 0},
    {"Resize", "antialias", 18, 0},
    {"Resize", "axes", 18, std::nullopt},
    {"Resize", "keep_aspect_ratio_policy", 18, std::nullopt},
    {"Shape", "end", 15, std::nullopt},
    {"Shape", "start", 15, 0},
    {"Split", "num_outputs", 18, std::nullopt},
};

// Ops whose meaning changed in an opset, so that the file's opset must not
// cross it. Leaves out the changes in `kMoves`, and changes that do not matter
// to the importer.
static const Change kChanges[] = {
    {"BatchNormalization", 9},
    {"BatchNormalization", 14},
    {"Clip", 11},
    {"DFT", 20},
    {"Dropout", 10},
    {"Dropout", 12},
    {"GroupNormalization", 21},
    {"Hardmax", 13},
    {"LogSoftmax", 13},
    {"Resize", 11},
    {"RoiAlign", 16},
    {"Scan", 9},
    {"Scatter", 11},
    {"Slice", 10},
    {"Softmax", 13},
    {"TopK", 10},
    {"Upsample", 9},
    {"Upsample", 10},
};

static const IntegerInput kIntegerInputs[] = {
    {"AffineGrid", 1, kInt64},
    {"Attention", 6, kInt64},
    {"Col2Im", 1, kInt64},
    {"Col2Im", 2, kInt64},
    {"ConstantOfShape", 0, kInt64},
    {"DFT", 2, kInt64},
    {"Expand", 1, kInt64},
    {"GRU", 4, kInt32},
    {"GatherND", 1, kInt64},
    {"LSTM", 4, kInt32},
    {"Loop", 0, kInt64},
    {"MaxUnpool", 1, kInt64},
    {"MaxUnpool", 2, kInt64},
    {"NonMaxSuppression", 2, kInt64},
    {"Pad", 1, kInt64},
    {"RNN", 4, kInt32},
    {"ReduceL1", 1, kInt64},
    {"ReduceL2", 1, kInt64},
    {"ReduceLogSum", 1, kInt64},
    {"ReduceLogSumExp", 1, kInt64},
    {"ReduceMax", 1, kInt64},
    {"ReduceMean", 1, kInt64},
    {"ReduceMin", 1, kInt64},
    {"ReduceProd", 1, kInt64},
    {"ReduceSum", 1, kInt64},
    {"ReduceSumSquare", 1, kInt64},
    {"Reshape", 1, kInt64},
    {"Resize", 3, kInt64},
    {"ReverseSequence", 1, kInt64},
    {"RoiAlign", 2, kInt64},
    {"RotaryEmbedding", 3, kInt64},
    {"ScatterND", 1, kInt64},
    {"Split", 1, kInt64},
    {"Squeeze", 1, kInt64},
    {"TensorScatter", 2, kInt64},
    {"Tile", 1, kInt64},
    {"TopK", 1, kInt64},
    {"Trilu", 1, kInt64},
    {"Unsqueeze", 1, kInt64},
};

// Ops defined only by ONNX Runtime. `since` is the opset in which ONNX got an
// op of the same name.
static const Change kRuntimesOps[] = {
    {"Attention", 23},
    {"BiasGelu", INT64_MAX},
    {"BiasSplitGelu", INT64_MAX},
    {"EmbedLayerNormalization", INT64_MAX},
    {"FastGelu", INT64_MAX},
    {"FusedConv", INT64_MAX},
    {"FusedGemm", INT64_MAX},
    {"FusedMatMul", INT64_MAX},
    {"Gelu", 20},
    {"GroupQueryAttention", INT64_MAX},
    {"MultiHeadAttention", INT64_MAX},
    {"QuickGelu", INT64_MAX},
    {"RotaryEmbedding", 23},
    {"SkipLayerNormalization", INT64_MAX},
    {"SkipSimplifiedLayerNormalization", INT64_MAX},
    {"TransposeMatMul", INT64_MAX},
};

//===----------------------------------------------------------------------===//
// Mending
//===----------------------------------------------------------------------===//

namespace {
class FormMender {
public:
  FormMender(RepairContext &context, NodeScope scope, llvm::StringSet<> &said)
      : context(context), model(context.getModel()), scope(std::move(scope)),
        said(said) {
    for (const proto::FunctionProto &function : model.getProto().functions())
      if (normalizeDomain(function.domain()).empty())
        functions.insert(function.name());
  }

  llvm::Error run();

private:
  using Nodes = std::vector<proto::NodeProto>;

  void say(const proto::NodeProto &node, StringRef about,
           const std::string &message);
  llvm::Error raiseOpset();
  bool needsInput(const proto::NodeProto &node, const Move &move) const;
  bool samplesVolumes(const proto::NodeProto &node) const;
  void renameModes(proto::NodeProto &node);
  void dropAdditions(proto::NodeProto &node);
  void takeRuntimes(proto::NodeProto &node);
  void moveAttribute(proto::NodeProto &node, const Move &move, Nodes &before);
  void moveInput(proto::NodeProto &node, const Move &move);
  void countParts(proto::NodeProto &node);
  void convert(proto::NodeProto &node, const IntegerInput &input,
               Nodes &before);
  void mend(proto::NodeProto &node, Nodes &before);

  RepairContext &context;
  const Model &model;
  NodeScope scope;
  /// Keys of the warnings so far: a single warning covers all nodes of an op.
  llvm::StringSet<> &said;
  /// Names of the model's functions in ONNX's own domain.
  llvm::StringSet<> functions;
  int64_t opset = 0;
};
} // namespace

static std::string nameNode(const proto::NodeProto &node) {
  return "node '" + getNodeName(node) + "' (" + node.op_type() + ")";
}

// Returns the index of attribute `name` of the node. -1 if the attribute is
// absent, or refers to a parameter of the function around the node.
static int findPlace(const proto::NodeProto &node, StringRef name) {
  for (int i = 0; i < node.attribute_size(); ++i)
    if (node.attribute(i).name() == name &&
        node.attribute(i).ref_attr_name().empty())
      return i;
  return -1;
}

void FormMender::say(const proto::NodeProto &node, StringRef about,
                     const std::string &message) {
  if (said.insert(node.op_type() + ":" + about.str()).second)
    context.warn(message);
}

// True if the attribute of a later opset only states the default.
static bool isDefault(const proto::NodeProto &node, const Addition &addition) {
  const AttributeProto &attribute =
      node.attribute(findPlace(node, addition.attribute));
  if (attribute.name() == "dilations")
    return llvm::all_of(attribute.ints(), [](int64_t n) { return n == 1; });
  if (attribute.type() == AttributeProto::STRING)
    return attribute.s() == "DCR" || attribute.s() == "none" ||
           attribute.s() == "stretch";
  return addition.byDefault && attribute.type() == AttributeProto::INT &&
         attribute.i() == *addition.byDefault;
}

// Finds attributes of `node` that are defined only in opsets after `opset`.
static std::vector<const Addition *> findAdditions(const proto::NodeProto &node,
                                                   int64_t opset) {
  std::vector<const Addition *> found;
  if (normalizeDomain(node.domain()).empty())
    for (const Addition &addition : kAdditions)
      if (opset < addition.since && node.op_type() == addition.op &&
          findPlace(node, addition.attribute) >= 0)
        found.push_back(&addition);
  return found;
}

static bool changes(const proto::NodeProto &node, int64_t from, int64_t to) {
  if (!normalizeDomain(node.domain()).empty())
    return false;
  return llvm::any_of(kChanges, [&](const Change &change) {
    // A BatchNormalization with one output is in inference mode, which opset 14
    // did not change.
    const bool isSame = change.op == "BatchNormalization" &&
                        change.since == 14 && node.output_size() == 1;
    return node.op_type() == change.op && from < change.since &&
           change.since <= to && !isSame;
  });
}

// True if an input of the node would have to become an attribute (before opset
// `move.since`), but cannot, because the model computes it.
bool FormMender::needsInput(const proto::NodeProto &node,
                            const Move &move) const {
  return node.op_type() == move.op && opset < move.since &&
         node.input_size() > move.input && !node.input(move.input).empty() &&
         findPlace(node, move.attribute) < 0 &&
         !scope.readNumber(node.input(move.input)) &&
         !scope.readIntegers(node.input(move.input));
}

bool FormMender::samplesVolumes(const proto::NodeProto &node) const {
  return node.op_type() == "GridSample" && node.input_size() > 1 &&
         (scope.findRank(node.input(0)) == 5 ||
          scope.findRank(node.input(1)) == 5);
}

llvm::Error FormMender::raiseOpset() {
  opset = scope.getOpset();
  int64_t needed = opset;
  std::string reason;
  auto raise = [&](int64_t since, const std::string &why) {
    if (since <= needed)
      return;
    needed = since;
    reason = why + " since opset " + std::to_string(since) +
             ", and the opset is " + std::to_string(opset);
  };
  bool samples = false;
  scope.forEach([&](const proto::NodeProto &node) {
    samples |= node.op_type() == "GridSample";
  });
  if (samples && opset < kVolumesSince)
    scope.inferRanks();
  scope.forEach([&](const proto::NodeProto &node) {
    if (!normalizeDomain(node.domain()).empty())
      return;
    for (const Move &move : kMoves)
      if (needsInput(node, move))
        raise(move.since, nameNode(node) + ": computed '" +
                              move.attribute.str() + "' are an input");
    if (samplesVolumes(node))
      raise(kVolumesSince, nameNode(node) + ": volumes are sampled");
  });
  scope.forEach([&](const proto::NodeProto &node) {
    for (const Addition *addition : findAdditions(node, opset))
      if (!isDefault(node, *addition))
        raise(addition->since, nameNode(node) + ": attribute '" +
                                   addition->attribute.str() + "' is one");
  });
  if (needed == opset || opset == 0)
    return llvm::Error::success();
  std::string changed;
  scope.forEach([&](const proto::NodeProto &node) {
    if (changed.empty() && changes(node, opset, needed))
      changed = nameNode(node);
  });
  if (!changed.empty() || opset < 7)
    return model.error(ErrorKind::InvalidInput,
                       reason + "; in that opset, " +
                           (changed.empty() ? "other nodes" : changed) +
                           " would mean something else; export the model with "
                           "opset_version=" +
                           llvm::Twine(needed));
  context.warn(reason + "; taken as " + std::to_string(needed));
  scope.setOpset(needed);
  opset = needed;
  return llvm::Error::success();
}

void FormMender::dropAdditions(proto::NodeProto &node) {
  for (const Addition *addition : findAdditions(node, opset)) {
    say(node, addition->attribute,
        nameNode(node) + ": attribute '" + addition->attribute.str() +
            "' is one since opset " + std::to_string(addition->since) +
            ", and says what holds without it; left out");
    node.mutable_attribute()->DeleteSubrange(
        findPlace(node, addition->attribute), 1);
  }
}

// Gives ops defined only by ONNX Runtime the domain com.microsoft: compilers
// for small devices omit domains.
void FormMender::takeRuntimes(proto::NodeProto &node) {
  for (const Change &op : kRuntimesOps) {
    if (node.op_type() != op.op || opset >= op.since ||
        functions.contains(node.op_type()))
      continue;
    node.set_domain("com.microsoft");
    scope.addImport("com.microsoft");
    say(node, "domain",
        "node '" + getNodeName(node) + "': ONNX has no op '" + node.op_type() +
            "'; taken as com.microsoft." + node.op_type());
  }
}

void FormMender::moveAttribute(proto::NodeProto &node, const Move &move,
                               Nodes &before) {
  const auto found =
      llvm::find_if(node.attribute(), [&](const AttributeProto &attribute) {
        return attribute.name() == move.attribute;
      });
  // Without its data, the node stays as it is: the import reports the error.
  if (found == node.attribute().end() || node.input_size() == 0)
    return;
  const AttributeProto &attribute = *found;
  const int place = found - node.attribute().begin();
  std::string name = getNodeName(node) + "_" + move.attribute.str();
  std::string value;
  if (!attribute.ref_attr_name().empty()) {
    // The attribute refers to a parameter of the function. A Constant can hold
    // the parameter as `value_ints` since opset 12.
    if (opset < 12 || attribute.type() != AttributeProto::INTS)
      return;
    value = scope.makeName(name);
    proto::NodeProto &constant = before.emplace_back();
    constant.set_op_type("Constant");
    constant.add_output(value);
    *constant.add_attribute() = attribute;
    constant.mutable_attribute(0)->set_name("value_ints");
  } else if (attribute.type() == AttributeProto::INTS)
    value = scope.addIntegers(
        before, name, {attribute.ints_size()},
        llvm::ArrayRef(attribute.ints().data(), attribute.ints_size()));
  else if (int32_t type = scope.findElementType(node.input(0));
           attribute.type() == AttributeProto::FLOAT)
    value = scope.addFloat(before, name, attribute.f(),
                           type == 0 ? proto::TensorProto::FLOAT : type);
  else
    return;
  say(node, move.attribute,
      nameNode(node) + ": '" + move.attribute.str() +
          "' is an attribute, expected an input since opset " +
          std::to_string(move.since) + "; taken as one");
  while (node.input_size() <= move.input)
    node.add_input();
  node.set_input(move.input, value);
  node.mutable_attribute()->DeleteSubrange(place, 1);
}

void FormMender::moveInput(proto::NodeProto &node, const Move &move) {
  if (node.input_size() <= move.input || findPlace(node, move.attribute) >= 0)
    return;
  // Pad also has a `value`, a float attribute, which must move together with
  // `pads`.
  if (node.op_type() == "Pad" && node.input_size() > 2) {
    const std::optional<double> number = scope.readNumber(node.input(2));
    if (move.attribute != "pads" || node.input_size() > 3 || !number ||
        !scope.readIntegers(node.input(1)))
      return;
    AttributeProto *value = node.add_attribute();
    value->set_name("value");
    value->set_type(AttributeProto::FLOAT);
    value->set_f(static_cast<float>(*number));
    node.mutable_input()->RemoveLast();
  }
  const std::optional<llvm::SmallVector<int64_t>> values =
      scope.readIntegers(node.input(move.input));
  if (!values)
    return;
  say(node, move.attribute,
      nameNode(node) + ": '" + move.attribute.str() +
          "' is an input, expected an attribute before opset " +
          std::to_string(move.since) + "; taken as one");
  while (node.input_size() > move.input)
    node.mutable_input()->RemoveLast();
  AttributeProto *attribute = node.add_attribute();
  attribute->set_name(move.attribute.str());
  attribute->set_type(AttributeProto::INTS);
  attribute->mutable_ints()->Add(values->begin(), values->end());
}

// Renames the modes of GridSample for opset 20, from bilinear and bicubic to
// linear and cubic.
void FormMender::renameModes(proto::NodeProto &node) {
  const int place = findPlace(node, "mode");
  if (node.op_type() != "GridSample" || opset < kVolumesSince || place < 0)
    return;
  std::string &mode = *node.mutable_attribute(place)->mutable_s();
  if (mode == "bilinear" || mode == "bicubic")
    mode.erase(0, 2);
}

// Since opset 18, a Split into equal parts must state the number of parts: adds
// the number.
void FormMender::countParts(proto::NodeProto &node) {
  const bool hasLengths = node.input_size() > 1 && !node.input(1).empty();
  if (node.op_type() != "Split" || opset < 18 || hasLengths ||
      findPlace(node, "num_outputs") >= 0)
    return;
  AttributeProto *attribute = node.add_attribute();
  attribute->set_name("num_outputs");
  attribute->set_type(AttributeProto::INT);
  attribute->set_i(node.output_size());
}

void FormMender::convert(proto::NodeProto &node, const IntegerInput &input,
                         Nodes &before) {
  if (node.input_size() <= input.input || node.input(input.input).empty())
    return;
  const int32_t other = input.type == kInt64 ? kInt32 : kInt64;
  const std::string value = node.input(input.input);
  if (scope.findElementType(value) != other)
    return;
  say(node, "integers",
      nameNode(node) + ": input '" + value + "' is of " +
          (other == kInt32 ? "int32, expected int64"
                           : "int64, expected int32") +
          "; converted");
  proto::NodeProto &cast = before.emplace_back();
  cast.set_op_type("Cast");
  cast.add_input(value);
  cast.add_output(scope.makeName(value + "_cast"));
  AttributeProto *to = cast.add_attribute();
  to->set_name("to");
  to->set_type(AttributeProto::INT);
  to->set_i(input.type);
  node.set_input(input.input, cast.output(0));
}

void FormMender::mend(proto::NodeProto &node, Nodes &before) {
  if (!normalizeDomain(node.domain()).empty())
    return;
  dropAdditions(node);
  for (const Move &move : kMoves)
    if (node.op_type() == move.op) {
      if (opset >= move.since)
        moveAttribute(node, move, before);
      else
        moveInput(node, move);
    }
  countParts(node);
  renameModes(node);
  for (const IntegerInput &input : kIntegerInputs)
    if (node.op_type() == input.op)
      convert(node, input, before);
  takeRuntimes(node);
}

llvm::Error FormMender::run() {
  if (llvm::Error error = raiseOpset())
    return error;
  if (opset > 0)
    scope.mendNodes(
        [&](proto::NodeProto &node, std::vector<proto::NodeProto> &before) {
          mend(node, before);
        });
  return llvm::Error::success();
}

llvm::Error mpc::onnx_frontend::mendForms(RepairContext &context) {
  Model &model = context.getModel();
  llvm::StringSet<> said;
  if (llvm::Error error = FormMender(context, NodeScope(model), said).run())
    return error;
  for (proto::FunctionProto &function : *model.getProto().mutable_functions())
    if (llvm::Error error =
            FormMender(context, NodeScope(model, function), said).run())
      return error;
  model.readOpsets();
  return llvm::Error::success();
}
