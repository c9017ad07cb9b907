// Implements FunctionImporter: arguments, results, and the import of nodes in
// order.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Importer/CountedIntegers.h"
#include "frontends/ONNX/Importer/Importer.h"

#include "compiler/Dialect/MPC/NodeNames.h"
#include "frontends/ONNX/Model/Metadata.h"

#include <map>

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx_frontend;

FunctionImporter::FunctionImporter(ModuleImporter &module, const Graph &graph,
                                   StringRef name)
    : module(module), graph(graph), builder(module.getContext()) {
  ports = FunctionEditor::create(
      module.getModule(), namedLocation(module.getContext(), name), name);
  body = &ports->getBody();
  builder = ports->builder();
}

FunctionImporter::FunctionImporter(FunctionImporter &parent, const Graph &graph)
    : defaultPhase(parent.defaultPhase), module(parent.module), graph(graph),
      parent(&parent), inlined(true), builder(parent.builder),
      body(parent.body) {}

FunctionImporter::FunctionImporter(FunctionImporter &parent, const Graph &graph,
                                   Block *body)
    : defaultPhase(parent.defaultPhase), module(parent.module), graph(graph),
      parent(&parent), builder(parent.getModule().getContext()), body(body) {
  builder.setInsertionPointToEnd(body);
}

//===----------------------------------------------------------------------===//
// Arguments and results
//===----------------------------------------------------------------------===//

Value FunctionImporter::addInput(StringRef name, RankedTensorType type,
                                 Role role) {
  assert(ports && "a body has no inputs of its own");
  Value value = ports->addInput(name, role, type);
  if (int64_t axis = module.getBatchAxis(name, type);
      role == Role::Data && axis != 0)
    ports->setAttr(value, kBatchAxisAttr, builder.getI64IntegerAttr(axis));
  values[name].value = value;
  return value;
}

// True if the variable may be trained and is narrower than float32. mpc refuses
// such variables: trained weights have at least 32 bits in every precision.
static bool isTooNarrow(VariableOp variable) {
  auto type = dyn_cast<FloatType>(variable.getTensorType().getElementType());
  return type && type.getWidth() < 32 && variable.getRole() != Role::Frozen;
}

Value FunctionImporter::getState(VariableOp variable) {
  assert(!isLoop() && "state is captured by name, counters are refused");
  Value &value = states[variable.getSymName()];
  if (value)
    return value;
  if (parent)
    return value = captureValue(parent->getState(variable));
  if (isTooNarrow(variable)) {
    std::string text;
    llvm::raw_string_ostream(text)
        << "'" << variable.getSymName() << "' is of type "
        << variable.getTensorType().getElementType()
        << ", but trainable parameters must be f32 or f64; convert the model "
           "to float32, and choose its computing precision with --precision";
    module.report(getModel().error(ErrorKind::Unsupported, text));
  }
  return value = ports->state(variable);
}

void FunctionImporter::addOutput(StringRef name, Value value, Role role) {
  assert(ports && value && "a function gives values as outputs");
  ports->addOutput(name, role, value);
}

Value FunctionImporter::getOutput(Role role) const {
  assert(ports && "a body has no outputs of its own");
  return ports->outputOfRole(role);
}

std::optional<int64_t> FunctionImporter::getBatchSize() const {
  std::optional<int64_t> batch;
  for (Value argument : body->getArguments()) {
    const PortAttrs port = ports->port(argument);
    const int64_t axis = port.getBatchAxis();
    if (!port.getInput() || axis == kNoBatchAxis)
      continue;
    ArrayRef<int64_t> shape = shapeOf(argument);
    if (shape.empty() || (batch && *batch != shape[axis]))
      return std::nullopt;
    batch = shape[axis];
  }
  return batch;
}

Value FunctionImporter::getUpdate(VariableOp variable) const {
  assert(ports && "a body has no updates of its own");
  return ports->update(variable);
}

LogicalResult FunctionImporter::addUpdate(VariableOp variable, Value value) {
  assert(runsOnce() && "a body gives new values as results");
  if (parent)
    return parent->addUpdate(variable, value);
  if (getUpdate(variable))
    return failure();
  // A model may compute a running statistic in 16 bits. Convert the new value
  // to the variable's type, float32.
  auto type = cast<RankedTensorType>(value.getType());
  if (isa<FloatType>(type.getElementType()) &&
      type.clone(builder.getF32Type()) == variable.getType() &&
      type != variable.getType())
    value = mpc::CastOp::create(builder, variable.getLoc(), variable.getType(),
                                value);
  ports->addUpdate(variable, value);
  return success();
}

void FunctionImporter::removeUpdate(VariableOp variable) {
  ports->dropUpdate(variable);
}

void FunctionImporter::markLabel(Value value) {
  if (parent && inlined)
    return parent->markLabel(value);
  if (ports && ports->port(value).getInput())
    ports->setInputRole(value, Role::Label);
}

void FunctionImporter::noteRange(Value value, IntegerRange range) {
  if (parent && inlined)
    return parent->noteRange(value, range);
  if (value)
    ranges[value] = range;
}

bool FunctionImporter::isInRange(Value value, const IndexBox &box) const {
  if (parent && inlined)
    return parent->isInRange(value, box);
  return IntegerRange{box.isLabel ? 0 : -box.size, box.size - 1}.contains(
      findRange(value, ranges));
}

// Adds an mpc.check_indices of the elements of `value` in `box`, unless `value`
// already has an equal check.
void FunctionImporter::addCheck(Location location, Value value,
                                const IndexBox &box) {
  ArrayAttr boxes = addBox(ArrayAttr(), box, builder);
  for (Operation *user : value.getUsers())
    if (auto check = dyn_cast<CheckIndicesOp>(user);
        check && check.getIndices() == boxes)
      return;
  CheckIndicesOp::create(builder, location, value, boxes);
}

void FunctionImporter::markIndices(Location location, Value value,
                                   const IndexBox &box) {
  assert(box.begin.size() == shapeOf(value).size() && box.size >= 0 &&
         elementOf(value).isInteger() && "a box of integers");
  // Trace the integers back through the ops that only move them.
  IndexOrigins worklist = {{value, box}};
  while (!worklist.empty()) {
    auto [current, part] = worklist.pop_back_val();
    if (isEmpty(part) || isInRange(current, part))
      continue;
    Operation *op = current.getDefiningOp();
    if (!op) {
      markArgument(location, current, part);
    } else if (std::optional<IndexOrigins> origins = findOrigins(op, part)) {
      // Reversed, because the worklist is a stack: visit the first operand of a
      // concat first.
      worklist.append(origins->rbegin(), origins->rend());
    } else {
      addCheck(location, current, part);
    }
  }
}

void FunctionImporter::markArgument(Location location, Value value,
                                    const IndexBox &box) {
  // Check inside the branch, which runs only if its condition holds: the
  // condition may exist to keep bad indices out.
  auto argument = cast<BlockArgument>(value);
  if (parent && isConditional)
    return addCheck(location, value, box);
  if (parent) {
    IndexBox outer = box;
    assert((argument.getOwner() != body || inlined ||
            argument.getArgNumber() < outerValues.size()) &&
           "an argument of a body has an entry among the outer values");
    if (argument.getOwner() == body && !inlined)
      value = outerValues[argument.getArgNumber()];
    // `value` is null if the loop computes the argument in each iteration, as
    // for a carried value. Then check inside the body.
    if (!value)
      return addCheck(location, argument, box);
    if (value.getType() != argument.getType()) {
      outer.begin.insert(outer.begin.begin(), 0);
      outer.end.insert(outer.end.begin(), shapeOf(value).front());
    }
    return parent->markIndices(location, value, outer);
  }
  const PortAttrs port = ports->port(value);
  if (port.getInput())
    ports->setAttr(value, kIndicesAttr,
                   addBox(port.get<ArrayAttr>(kIndicesAttr), box, builder));
  else
    addCheck(location, value, box);
}

void FunctionImporter::bind(StringRef name, Value value) {
  assert(value && "a name is bound to a value");
  values[name].value = value;
}

void FunctionImporter::bindState(StringRef name, VariableOp variable) {
  assert(variable && "a name is bound to a variable");
  ImportedValue &entry = values[name];
  entry.variable = variable;
  entry.constant.reset();
}

void FunctionImporter::bindConstant(StringRef name, HostTensor constant) {
  values[name].constant = std::move(constant);
}

func::FuncOp FunctionImporter::finish() {
  assert(ports && "a body is finished by the node around it");
  ports->putOutputsFirst();
  // Erase constants without readers: they were folded into other constants, or
  // only determined a shape.
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(*body)))
    if (isa<ConstantOp>(op) && op.use_empty())
      op.erase();
  ports->finish();
  return cast<func::FuncOp>(ports->get().getOperation());
}

int64_t FunctionImporter::getRandomId(StringRef name) {
  if (parent)
    return parent->getRandomId((name + scope).str());
  return randomIds.try_emplace(name, randomIds.size()).first->second;
}

std::optional<int64_t> FunctionImporter::findRandomId(StringRef name) const {
  auto it = randomIds.find(name);
  return it == randomIds.end() ? std::nullopt : std::optional(it->second);
}

//===----------------------------------------------------------------------===//
// Nodes
//===----------------------------------------------------------------------===//

// True if the node's outputs do not depend on the elements of its inputs.
static bool readsShape(const proto::NodeProto &node) {
  return node.op_type() == "Shape" || node.op_type() == "Size";
}

void FunctionImporter::demand(StringRef name) {
  const ImportOptions &options = module.getOptions();
  if (!options.demanded || options.offered.empty())
    return;
  if (producers.empty())
    for (const proto::NodeProto *node : graph.getNodes())
      for (const std::string &output : node->output())
        producers[output] = node;
  // `asked` ensures that each value is visited once over all calls.
  SmallVector<StringRef> worklist = {name};
  while (!worklist.empty()) {
    StringRef next = worklist.pop_back_val();
    if (next.empty() || !asked.insert(next).second)
      continue;
    if (options.offered.contains(next))
      options.demanded->insert(next);
    const proto::NodeProto *producer = producers.lookup(next);
    if (producer && !readsShape(*producer))
      llvm::append_range(worklist, getReadValues(*producer));
    if (parent && !graph.defines(next))
      parent->demand(next);
  }
}

// Finds the values that depend on elements of graph inputs. An op without a
// builder, such as Range, cannot read such values. Shape and Size depend on no
// elements. Skips inputs in ImportOptions::offered, because they can become
// constants.
llvm::StringSet<>
FunctionImporter::findData(ArrayRef<const proto::NodeProto *> nodes) {
  llvm::StringSet<> data;
  for (const proto::ValueInfoProto *input : graph.getInputs())
    if (!lookup(input->name()).constant &&
        !module.getOptions().offered.contains(input->name()))
      data.insert(input->name());
  for (const proto::NodeProto *node : nodes) {
    if (readsShape(*node))
      continue;
    if (llvm::any_of(node->input(), [&](const std::string &input) {
          return data.contains(input);
        }))
      data.insert(node->output().begin(), node->output().end());
  }
  return data;
}

// Reports the nodes that mpc cannot import: nodes whose op has no table entry,
// and nodes that depend on data but whose op only folds (Range). The message
// has, for each op, the name, the reason, the number of nodes, and the first
// node.
llvm::Error
FunctionImporter::reportUnsupported(ArrayRef<const proto::NodeProto *> nodes) {
  const Model &model = getModel();
  // An op whose entry has no builder can only fold, so it cannot read data.
  llvm::StringSet<> data = findData(nodes);
  std::map<std::string, SmallVector<const proto::NodeProto *>> missing;
  for (const proto::NodeProto *node : nodes) {
    StringRef domain = normalizeDomain(node->domain());
    std::string name = getOpName(*node);
    const OpEntry *entry = findEntry(*node, model);
    if (entry) {
      if (!entry->build && !readsShape(*node) &&
          llvm::any_of(node->input(), [&](const std::string &input) {
            return data.contains(input);
          }))
        missing[name + " (of data)"].push_back(node);
      continue;
    }
    // If the table has the op for another opset, the message suggests that
    // opset.
    int64_t opset = model.getOpset(*node);
    if (opset == 0)
      name += " (domain not imported)";
    else if (isKnownOp(domain, node->op_type()))
      name += describeOpsets(domain, node->op_type(), opset);
    missing[name].push_back(node);
  }
  if (missing.empty())
    return llvm::Error::success();
  for (const auto &[name, found] : missing)
    refused.insert(found.begin(), found.end());
  std::string list;
  for (const auto &[name, found] : missing)
    list += (list.empty() ? "" : ", ") + name + " x" +
            std::to_string(found.size()) + " (node '" +
            getNodeName(*found.front()) + "')" + describeRemedy(*found.front());
  return model.error(ErrorKind::Unsupported, "ops not supported: " + list);
}

void FunctionImporter::findSettings(const proto::NodeProto &node) {
  if (node.op_type() != "Resize" && node.op_type() != "Upsample")
    return;
  SmallVector<StringRef> worklist;
  for (int index = 1; index < node.input_size(); ++index)
    worklist.push_back(node.input(index));
  while (!worklist.empty()) {
    StringRef name = worklist.pop_back_val();
    if (name.empty() || !settings.insert(name).second)
      continue;
    // Stop at Shape: it reads no elements, so its input is data, not a setting.
    const proto::NodeProto *producer = graph.getProducer(name);
    if (producer && producer->op_type() != "Shape")
      worklist.append(producer->input().begin(), producer->input().end());
  }
}

void FunctionImporter::importNodes(ArrayRef<const proto::NodeProto *> nodes) {
  // Report the unsupported ops, but still import the nodes that do not depend
  // on them, to find more errors.
  if (llvm::Error error = reportUnsupported(nodes))
    module.report(std::move(error));
  for (const proto::NodeProto *node : nodes)
    if (node->op_type() == "BatchNormalization" && node->input_size() == 5)
      for (int index : {3, 4})
        statistics.try_emplace(node->input(index), findLayer(*node));
  for (const proto::NodeProto *node : nodes)
    findSettings(*node);
  for (const proto::NodeProto *node : nodes)
    importNode(*node);
}

// Refuses a node whose op only folds, because an input depends on data or is a
// parameter, or because the result is too large.
static LogicalResult refuseData(NodeImporter &node) {
  std::string reason = "the result is too large, or of a type without a kernel";
  for (unsigned i = 0; i < node.getNumInputs(); ++i)
    if (node.hasInput(i) && (!node.constant(i) || node.isState(i))) {
      node.demand(i);
      reason = ("'" + node.getInputName(i) + "' " +
                (node.constant(i) ? "is a parameter" : "depends on data"))
                   .str();
    }
  return node.unsupported("supported only to compute shapes, from values known "
                          "at import; " +
                          reason);
}

void FunctionImporter::importNode(const proto::NodeProto &node) {
  auto fail = [&] {
    // Undefine outputs that the builder may have defined already, so that their
    // readers are skipped.
    for (const std::string &output : node.output())
      if (!output.empty()) {
        values[output] = {};
        values[output].failed = true;
      }
  };
  // Report no second error for a node that was refused, or that reads the
  // output of a failed node.
  if (refused.contains(&node))
    return fail();
  for (const std::string &input : node.input())
    if (!input.empty() && lookup(input).failed)
      return fail();
  // Limit the nodes of bodies: nested loops can unroll to any number.
  if (parent && !module.countBodyNode()) {
    module.report(getModel().error(ErrorKind::Unsupported,
                                   "node '" + getNodeName(node) +
                                       "': the iterations of the model's loops "
                                       "have more than " +
                                       Twine(ModuleImporter::kMostBodyNodes) +
                                       " nodes"));
    return fail();
  }
  assert(findEntry(node, getModel()) && "nodes without an entry were refused");
  // Some files use an op of com.microsoft, such as GeluGrad, without its
  // domain. Import the node as that op, and warn once per op.
  const OpEntry *entry = findEntry(node, getModel());
  if (std::string meaning = describeMisplaced(node, *entry);
      !meaning.empty() && module.isFirst(node.op_type()))
    module.warn("node '" + getNodeName(node) + "': ONNX has no op '" +
                node.op_type() + "'; taken as " + meaning);
  // Fold the node if all inputs are known; otherwise build its ops.
  NodeImporter importer(*this, node);
  if (failed(checkArity(importer, *entry)))
    return fail();
  bool isSelected = readsSelectedRows(importer);
  FailureOr<bool> folded = isSelected ? false : foldNode(importer);
  if (failed(folded))
    return fail();
  if (isSelected) {
    if (failed(importSelected(importer, *entry)))
      return fail();
  } else if (!*folded) {
    FailureOr<bool> counted = importCounted(importer, *entry);
    if (failed(counted) ||
        (!*counted &&
         failed(entry->build ? entry->build(importer) : refuseData(importer))))
      return fail();
  }
  if (!*folded)
    passOnCounts(importer, *entry);
  // An import for another batch size tracks the batch axis through each node.
  Rebatch *rebatch = module.getRebatch();
  if (failed(importer.finish()) ||
      (rebatch && failed(rebatch->follow(importer))))
    fail();
}
