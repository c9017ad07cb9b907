// Assembles the table of all ops and looks up ops by name.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Importer/Importer.h"

using namespace mlir;
using namespace mpc::onnx_frontend;

std::vector<OpEntry> mpc::onnx_frontend::getAllOps() {
  std::vector<OpEntry> all;
  for (ArrayRef<OpEntry> family :
       {getAssembledOps(),      getElementwiseOps(),
        getMovementOps(),       getIndexedOps(),
        getOverlayOps(),        getPositionOps(),
        getReductionOps(),      getResizeOps(),
        getEinsumOps(),         getSequenceOps(),
        getShapeOps(),          getContractionOps(),
        getNormalizationOps(),  getLayerNormOps(),
        getAttentionOps(),      getLoopOps(),
        getConditionalOps(),    getRecurrentOps(),
        getRecurrentGradOps(),  getLossOps(),
        getGradientOps(),       getTrainingOps(),
        getGridOps(),           getSampledOps(),
        getTopKOps(),           getFourierOps(),
        getPoolingOps(),        getRandomOps(),
        getSelectedOps(),       getQuantizedOps(),
        getOptimizerOps(),      getLossScalingOps(),
        getFusedOps(),          getScanOps(),
        getFusedAttentionOps(), getGroupQueryOps(),
        getRoiPoolingOps(),     getLinearAttentionOps(),
        getAtenOps(),           getDenseLossOps(),
        getPowerOps(),          getFlexAttentionOps(),
        getIntegerProductOps(), getWindowGradOps()})
    for (const OpEntry &entry : family)
      if (entry.since > 0) // 0: only another entry's builder uses it
        all.push_back(entry);
  return all;
}

// The entries of each "domain:name", one per range of opsets.
using OpIndex = llvm::StringMap<std::vector<OpEntry>>;

static std::string getKey(StringRef domain, StringRef name) {
  return (domain + ":" + name).str();
}

static const OpIndex &getIndex() {
  static const OpIndex index = [] {
    OpIndex result;
    for (const OpEntry &entry : getAllOps()) {
      std::vector<OpEntry> &entries = result[getKey(entry.domain, entry.name)];
      assert(llvm::none_of(entries,
                           [&](const OpEntry &other) {
                             return entry.since <= other.until &&
                                    other.since <= entry.until;
                           }) &&
             "an opset has one entry");
      entries.push_back(entry);
    }
    return result;
  }();
  return index;
}

// The key of an op in a file. For an op of the domain ai.onnx.preview.training,
// a file may also state ai.onnx.preview.
static std::string findKey(StringRef domain, StringRef name) {
  std::string key = getKey(domain, name);
  return domain == kPreview && !getIndex().contains(key)
             ? getKey(kTraining, name)
             : key;
}

bool mpc::onnx_frontend::isKnownOp(StringRef domain, StringRef name) {
  return getIndex().contains(findKey(domain, name));
}

std::string mpc::onnx_frontend::describeOpsets(StringRef domain, StringRef name,
                                               int64_t opset) {
  int64_t oldest = std::numeric_limits<int64_t>::max(), newest = 0;
  for (const OpEntry &entry : getIndex().lookup(findKey(domain, name))) {
    oldest = std::min(oldest, std::max(entry.since, getOldestOpset(domain)));
    newest = std::max(newest, entry.until);
  }
  std::string text = " (not in opset " + std::to_string(opset);
  // The opsets that support an op form one range without a gap. Suggest the end
  // of the range that is nearer to `opset`.
  if (opset < oldest)
    text += "; export with opset_version=" + std::to_string(oldest);
  else if (opset > newest)
    text += "; export with opset_version=" + std::to_string(newest);
  return text + ")";
}

const OpEntry *mpc::onnx_frontend::findOp(StringRef domain, StringRef name,
                                          int64_t opset) {
  auto it = getIndex().find(findKey(domain, name));
  if (it == getIndex().end())
    return nullptr;
  for (const OpEntry &entry : it->second)
    if (entry.since <= opset && opset <= entry.until)
      return &entry;
  return nullptr;
}

const OpEntry *mpc::onnx_frontend::findEntry(const proto::NodeProto &node,
                                             const Model &model) {
  StringRef domain = normalizeDomain(node.domain());
  int64_t opset = model.getOpset(node);
  const OpEntry *entry = findOp(domain, node.op_type(), opset);
  // Import an op that ONNX's own domain lacks as the com.microsoft op of the
  // same name, with three exceptions. Scale was an experimental op of old ONNX
  // opsets. Other compilers give the names SoftmaxCrossEntropy and
  // SoftmaxCrossEntropyGrad to ops with other inputs.
  StringRef op = node.op_type();
  if (entry || !domain.empty() || op == "Scale" ||
      op == "SoftmaxCrossEntropy" || op == "SoftmaxCrossEntropyGrad")
    return entry;
  // Since opset 13, ops such as Softmax work along a single axis. com.microsoft
  // names the gradient of this form SoftmaxGrad_13.
  if (opset >= 13)
    if (const OpEntry *newer = findOp(kMicrosoft, node.op_type() + "_13", 1))
      return newer;
  return findOp(kMicrosoft, node.op_type(), 1);
}

std::string mpc::onnx_frontend::describeMisplaced(const proto::NodeProto &node,
                                                  const OpEntry &entry) {
  if (!normalizeDomain(node.domain()).empty())
    return {};
  if (entry.domain == kMicrosoft)
    return (entry.domain + "." + entry.name).str();
  static const std::pair<StringRef, StringRef> own[] = {
      {"ConvGradB", "the gradient of Conv's bias"},
      {"ConvGradW", "the gradient of Conv's weight"},
      {"ConvGradX", "the gradient of Conv's input"},
      {"GlobalAveragePoolGrad", "the gradient of GlobalAveragePool"},
      {"MSELoss", "PyTorch's"},
      {"MSELossGrad", "2 / n * (x - target)"},
      {"SGD", "w - rate * gradient"}};
  for (auto [name, meaning] : own)
    if (entry.name == name)
      return meaning.str();
  return {};
}

// The string in an attribute; empty if absent.
static StringRef findText(const proto::NodeProto &node, StringRef name) {
  for (const proto::AttributeProto &attribute : node.attribute())
    if (attribute.name() == name)
      return attribute.s();
  return {};
}

std::string mpc::onnx_frontend::describeRemedy(const proto::NodeProto &node) {
  StringRef op = node.op_type();
  if (normalizeDomain(node.domain()) != kMicrosoft)
    return {};
  if (op == "PythonOp" || op == "PythonOpGrad") {
    StringRef function = findText(node, "func_name");
    if (function.empty()) // older versions have "name"
      function = findText(node, "name");
    return (" (it runs Python" +
            (function.empty() ? "" : ", '" + function + "'") +
            "; export the model with the function's own ops in its place, "
            "without torch.autograd.Function)")
        .str();
  }
  if (op == "Send" || op == "Recv" || op.starts_with("Nccl") ||
      op.starts_with("Megatron") || op.starts_with("Adasum"))
    return " (it sends values to another process; export the graph of one "
           "process)";
  if (op == "WaitEvent" || op == "RecordEvent" || op.starts_with("Summary"))
    return " (it is about how the graph is run; export the graph without it)";
  return {};
}

LogicalResult mpc::onnx_frontend::checkArity(NodeImporter &node,
                                             const OpEntry &entry) {
  unsigned inputs = node.getNumInputs();
  if (inputs > entry.maxInputs)
    return node.invalid("expected at most " + Twine(entry.maxInputs) +
                        " inputs, found " + Twine(inputs));
  for (unsigned i = 0; i < entry.minInputs; ++i)
    if (!node.hasInput(i))
      return node.invalid("expected at least " + Twine(entry.minInputs) +
                          " inputs, found " + Twine(i));
  // If the op takes a list of any number of inputs, no input may be absent.
  for (unsigned i = 0; entry.maxInputs == kAnyNumber && i < inputs; ++i)
    if (!node.hasInput(i))
      return node.invalid("input " + Twine(i) + " is absent");
  unsigned outputs = node.getNode().output_size();
  if (outputs == 0 || outputs > entry.maxOutputs)
    return node.invalid("expected 1 to " + Twine(entry.maxOutputs) +
                        " outputs, found " + Twine(outputs));
  return success();
}
