// Looks up the values of a function: decodes initializers, creates state, and
// captures values of outer functions in bodies.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Importer/Importer.h"
#include "frontends/ONNX/Importer/Selection.h"
#include "frontends/ONNX/Model/Weights.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx_frontend;

ImportedValue &FunctionImporter::lookup(StringRef name) {
  // If a field is set, an earlier lookup has filled the entry.
  ImportedValue &entry = values[name];
  if (entry.value || entry.variable || entry.constant || entry.failed ||
      entry.sequence)
    return entry;
  const proto::TensorProto *tensor = graph.getInitializer(name);
  if (!tensor) {
    if (parent && !graph.defines(name))
      capture(name, entry);
    return entry;
  }
  auto decoded =
      getModel().decodeInitializer(*tensor, module.getOptions().readsValues);
  if (!decoded) {
    entry.failed = true;
    module.report(decoded.takeError());
    return entry;
  }
  entry.constant = *decoded;
  // The user may replace the value (--weights), unless the initializer is of a
  // body: the names in a body are not names of the model.
  auto given = module.getOptions().weights.find(name);
  if (given != module.getOptions().weights.end() && !isBody()) {
    auto value = fitWeight(getModel(), "initializer", name, given->second,
                           decoded->type);
    if (!value) {
      entry.failed = true;
      module.report(value.takeError());
      return entry;
    }
    entry.constant = *value;
  }
  // Only floats of the main graph may be trained; a body's floats are
  // constants.
  if (!decoded->isFloat() || isBody())
    return entry;
  entry.stateRole = module.getParameterRole(name, decoded->type);
  // If the user replaced a number, make the number state: the export writes
  // state, not constants, into the trained model.
  const bool isReplaced = entry.constant->data != decoded->data;
  if (!entry.stateRole && isReplaced)
    entry.stateRole = Role::Frozen;
  // Set the role at the first lookup: another op may read the running statistic
  // before BatchNormalization does.
  if (entry.stateRole != Role::Parameter && statistics.contains(name))
    entry.stateRole = Role::Statistic;
  return entry;
}

// Fills `entry` for a value `name` of the parent importer that the body reads.
// A constant stays a constant, so that shapes remain known; any other value
// becomes an argument of the body's block.
void FunctionImporter::capture(StringRef name, ImportedValue &entry) {
  assert(parent && "only bodies capture values");
  const ImportedValue &outer = parent->lookup(name);
  entry.failed = outer.failed;
  entry.reservedFor = outer.reservedFor;
  if (outer.constant && !outer.stateRole) {
    entry.constant = outer.constant;
    return;
  }
  if (outer.sequence) {
    entry.sequence = outer.sequence;
    for (ImportedValue &element : *entry.sequence)
      if (element.value)
        element.value = captureValue(element.value);
    return;
  }
  if (!outer.value && !outer.variable && !outer.constant)
    return;
  if (outer.selected)
    return captureSelected(outer, entry);
  Value value = parent->materialize(name, "");
  if (!value) {
    entry.failed = true;
    return;
  }
  entry.value = captureValue(value);
}

// Captures a value whose rows a mask selects. Also captures the mask, which ops
// of the body need.
void FunctionImporter::captureSelected(const ImportedValue &outer,
                                       ImportedValue &entry) {
  entry.value = captureValue(outer.value);
  entry.selected = outer.selected;
  if (inlined)
    return;
  std::shared_ptr<const Selection> &inner =
      captured[outer.selected->selection.get()];
  if (!inner) {
    auto copy = std::make_shared<Selection>(*outer.selected->selection);
    copy->mask = captureValue(copy->mask);
    copy->first = captureValue(copy->first);
    copy->any = captureValue(copy->any);
    inner = std::move(copy);
    selections.push_back(inner);
  }
  entry.selected->selection = inner;
}

Value FunctionImporter::getOuterValue(Value value) const {
  auto argument = dyn_cast<BlockArgument>(value);
  if (!argument || !parent || inlined || argument.getOwner() != body ||
      argument.getArgNumber() >= outerValues.size())
    return {};
  return outerValues[argument.getArgNumber()];
}

// Returns the value that stands for the parent's `value` in the body: a new
// block argument, or `value` itself if the body is inlined.
Value FunctionImporter::captureValue(Value value) {
  if (inlined)
    return value;
  assert(value && outerValues.size() == body->getNumArguments() &&
         "every argument of a body has an entry among the outer values");
  outerValues.push_back(value);
  return body->addArgument(value.getType(), value.getLoc());
}

// Creates the variable that starts as the initializer `name`, and returns the
// variable's value. Updates need at least float32. So a 16-bit initializer
// becomes a float32 variable, which readers see cast back to 16 bits: exactly
// the initial value.
static Value createState(FunctionImporter &function, StringRef name,
                         const ImportedValue &entry) {
  ModuleImporter &module = function.getModule();
  assert(entry.constant && entry.stateRole && "state has an initial value");
  RankedTensorType type = entry.constant->type;
  auto element = dyn_cast<FloatType>(type.getElementType());
  bool isNarrow = element && element.getWidth() < 32;
  if (!isNarrow)
    return function.getState(
        module.getVariable(name, *entry.stateRole, type, &*entry.constant));
  VariableOp variable = module.findVariable(name);
  OpBuilder &builder = function.getBuilder();
  if (!variable) {
    HostTensor wide = *convertFloats(*entry.constant, builder.getF32Type());
    variable = module.getVariable(name, *entry.stateRole, wide.type, &wide);
  }
  return mpc::CastOp::create(builder, variable.getLoc(), type,
                             function.getState(variable));
}

// True if an op of type `reader` may read the value. A value reserved for
// DequantizeLinear may pass a Clip first, which narrows the integers to fewer
// bits, such as 4 bits of an int8.
static bool mayRead(const ImportedValue &entry, StringRef reader) {
  return entry.reservedFor.empty() || entry.reservedFor == reader ||
         (entry.reservedFor == kDequantizeLinear && reader == "Clip");
}

Value FunctionImporter::materialize(StringRef name, StringRef reader) {
  ImportedValue &entry = lookup(name);
  if (!mayRead(entry, reader)) {
    bool isInteger = entry.reservedFor == kDequantizeLinear;
    module.report(getModel().error(
        ErrorKind::Unsupported,
        "value '" + name + "' is supported as an input of " +
            entry.reservedFor + " only, found " +
            (reader.empty() ? StringRef("a graph output") : reader) +
            (isInteger ? "; integers have no gradient: train the model before "
                         "its products are quantized, or end it before '" +
                             name.str() + "'"
                       : "")));
    return {};
  }
  if (entry.selected && !readsSelected) {
    const std::string source = getSourceName(*entry.selected);
    demand(source);
    module.report(getModel().error(
        ErrorKind::Unsupported,
        "value '" + name + "' has as many rows as the data in '" + source +
            "' selects, which " +
            (reader.empty() ? StringRef("a graph output or a body") : reader) +
            " cannot read; supported are sums, means and losses of it, and "
            "scattering it back to its source"));
    return {};
  }
  if (entry.value || entry.failed)
    return entry.value;
  if (!entry.aliasOf.empty())
    return entry.value = materialize(entry.aliasOf, reader);
  if (entry.variable)
    return entry.value = getState(entry.variable);
  if (entry.sequence) {
    module.report(getModel().error(
        ErrorKind::Unsupported,
        "value '" + name + "' is a sequence of tensors, which " +
            (reader.empty() ? StringRef("a graph output") : reader) +
            " cannot read"));
    return {};
  }
  if (!entry.constant) {
    // Graph::check ensures that some node defines `name`, so that node was not
    // imported.
    entry.failed = true;
    module.report(getModel().error(
        ErrorKind::Unsupported,
        "value '" + name +
            "' is not available: the node that makes it was not imported"));
    return {};
  }
  // State is an argument of the function; any other constant becomes an op.
  if (entry.stateRole)
    return entry.value = createState(*this, name, entry);
  auto loc = NameLoc::get(builder.getStringAttr(name));
  ElementsAttr elements = module.toAttribute(*entry.constant, name);
  return entry.value =
             ConstantOp::create(builder, loc, entry.constant->type, elements);
}
