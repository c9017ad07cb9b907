// SPDX-License-Identifier: Apache-2.0
#include "compiler/Artifact/PlanToJSON.h"

#include "compiler/Artifact/KernelsToJSON.h"
#include "compiler/Artifact/RecordToJSON.h"
#include "compiler/Dialect/MPC/Facts/IndexBoxes.h"
#include "compiler/Dialect/MPC/NodeNames.h"
#include "compiler/Dialect/Plan/StepAttributes.h"

#include "mlir/IR/DialectResourceBlobManager.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mpc;
namespace json = llvm::json;

// Returns the word for a value of an enumeration in runtime/Names.h.
template <typename Enum>
static StringRef word(Enum value) {
  return stringify(value);
}

static std::optional<DType> toIntegerDType(IntegerType type) {
  const bool isUnsigned = type.isUnsigned();
  switch (type.getWidth()) {
  case 1:
    return DType::I1;
  case 8:
    return isUnsigned ? DType::U8 : DType::I8;
  case 16:
    return isUnsigned ? DType::U16 : DType::I16;
  case 32:
    return isUnsigned ? DType::U32 : DType::I32;
  case 64:
    return isUnsigned ? DType::U64 : DType::I64;
  default:
    return std::nullopt;
  }
}

std::optional<DType> mpc::toDType(Type type) {
  using Found = std::optional<DType>;
  return llvm::TypeSwitch<Type, Found>(type)
      .Case([](Float16Type) { return DType::F16; })
      .Case([](BFloat16Type) { return DType::BF16; })
      .Case([](Float32Type) { return DType::F32; })
      .Case([](Float64Type) { return DType::F64; })
      .Case([](IntegerType integer) { return toIntegerDType(integer); })
      .Default([](Type) { return std::nullopt; });
}

// Names come from models and may not be UTF-8.
static json::Value text(StringRef name) {
  return json::isUTF8(name) ? name.str() : json::fixUTF8(name);
}

//===----------------------------------------------------------------------===//
// State
//===----------------------------------------------------------------------===//

/// Returns the value of a float tensor whose elements are all equal, if JSON
/// can represent the value; nullopt otherwise. Weights that start as zeros or
/// ones need no bytes in the artifact.
static std::optional<double> getSingleValue(ElementsAttr init) {
  auto type = dyn_cast<FloatType>(init.getElementType());
  unsigned width = type ? type.getWidth() / 8 : 0;
  ArrayRef<char> raw;
  if (auto dense = dyn_cast<DenseElementsAttr>(init)) {
    raw = dense.getRawData();
  } else if (auto resource = dyn_cast<DenseResourceElementsAttr>(init)) {
    if (AsmResourceBlob *blob = resource.getRawHandle().getBlob())
      raw = blob->getData();
  }
  // All elements are equal if each byte equals the byte one element before.
  if (width == 0 || raw.size() < width ||
      !std::equal(raw.begin() + width, raw.end(), raw.begin()))
    return std::nullopt;
  uint64_t bits = 0;
  std::memcpy(&bits, raw.data(), width);
  APFloat value(type.getFloatSemantics(), APInt(type.getWidth(), bits));
  if (!value.isFinite() || value.isNegZero())
    return std::nullopt;
  return value.convertToDouble();
}

static FailureOr<json::Object> variableToJSON(VariableOp variable,
                                              DataSection &data) {
  json::Object object{{"name", text(variable.getSymName())},
                      {"role", word(variable.getRole())}};
  if (failed(addType(object, variable, variable.getTensorType())))
    return failure();
  // A variable without data starts with all elements equal to `fill`, such as 0
  // for an optimizer's moments.
  if (!variable.getInit()) {
    APFloat fill = variable.getFill().value_or(APFloat(0.0));
    object["init"] = json::Object{{"fill", fill.convertToDouble()}};
    return object;
  }
  // Equal initial elements, such as the ones of a norm's weight, become a fill.
  if (std::optional<double> value = getSingleValue(*variable.getInit())) {
    object["init"] = json::Object{{"fill", *value}};
    return object;
  }
  // Other initial values go to the data section; the runtime copies them.
  FailureOr<DataEntry> entry = data.add(*variable.getInit());
  if (failed(entry))
    return variable.emitOpError("has an initial value without data");
  object["init"] =
      json::Object{{"offset", entry->offset}, {"bytes", entry->bytes}};
  return object;
}

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

namespace {
/// Writes one plan.program as JSON.
class ProgramWriter {
public:
  ProgramWriter(plan::ProgramOp program, DataSection &data,
                const llvm::StringMap<int64_t> &stateIndex)
      : program(program), data(data), stateIndex(stateIndex) {}
  FailureOr<json::Object> write();

private:
  LogicalResult addBuffers(Block &block);
  LogicalResult addBuffer(Operation *op);
  FailureOr<json::Object> memoryOf(Operation *op);
  json::Array stepsOf(Block &block);
  json::Object stepOf(Operation *op);
  // Set the fields of a step that are operands of its op, not attributes: the
  // numbers of buffers.
  void setFields(runtime::LaunchStep &step, plan::LaunchOp op) const;
  void setFields(runtime::MatMulStep &step, plan::MatMulOp op) const;
  void setFields(runtime::ConvStep &step, plan::ConvOp op) const;
  void setFields(runtime::AttentionStep &step, plan::AttentionOp op) const;
  void setFields(runtime::CopyStep &step, plan::CopyOp op) const;
  void setFields(runtime::CheckIndicesStep &step, plan::CheckIndicesOp) const;
  void setFields(runtime::AllReduceStep &step, plan::AllReduceOp op) const;
  void setFields(runtime::ReduceScatterStep &, plan::ReduceScatterOp) const;
  void setFields(runtime::AllGatherStep &step, plan::AllGatherOp op) const;
  void setFields(runtime::IfStep &step, plan::IfOp op) const;
  void setFields(runtime::ForStep &step, plan::ForOp op) const;
  template <typename StepTy, typename OpTy>
  json::Object write(StepKind kind, OpTy op);

  size_t index(Value buffer) const {
    return static_cast<size_t>(indexOf.lookup(buffer));
  }
  std::optional<size_t> optionalIndex(Value buffer) const {
    return buffer ? std::optional(index(buffer)) : std::nullopt;
  }
  std::vector<size_t> indices(ValueRange ins, ValueRange outs) const;
  std::vector<runtime::OwnedPart> listParts(ValueRange parts,
                                            ArrayAttr owners) const;
  template <typename OpTy>
  std::optional<runtime::Epilogue> epilogueOf(OpTy op) const;

  plan::ProgramOp program;
  DataSection &data;
  const llvm::StringMap<int64_t> &stateIndex;
  DenseMap<Value, int64_t> indexOf;
  json::Array buffers, inputs, outputs;
};
} // namespace

// Returns a buffer's place in memory: "space", with "offset" (arena, constant)
// or "index" (state, input).
FailureOr<json::Object> ProgramWriter::memoryOf(Operation *op) {
  using Memory = FailureOr<json::Object>;
  // A buffer in the arena has an offset, which plan-assign-offsets has set.
  return llvm::TypeSwitch<Operation *, Memory>(op)
      .Case([&](plan::ArenaOp arena) -> Memory {
        if (!arena.getOffset())
          return arena.emitOpError("has no offset, run plan-assign-offsets");
        return json::Object{
            {"space", word(Space::Arena)},
            {"offset", static_cast<int64_t>(*arena.getOffset())}};
      })
      // A variable or an input is named by its number in the plan's list of
      // variables or inputs. An input is appended to the list after its buffer.
      // So the present length of the list is the number of this input.
      .Case([&](plan::StateOp state) -> Memory {
        return json::Object{{"space", word(Space::State)},
                            {"index", stateIndex.lookup(state.getVariable())}};
      })
      .Case([&](plan::InputOp) -> Memory {
        return json::Object{{"space", word(Space::Input)},
                            {"index", static_cast<int64_t>(inputs.size())}};
      })
      // A constant has an offset in the data section.
      .Case([&](plan::ConstantOp constant) -> Memory {
        FailureOr<DataEntry> entry = data.add(constant.getValue());
        if (failed(entry))
          return constant.emitOpError("has no data");
        return json::Object{{"space", word(Space::Constant)},
                            {"offset", entry->offset}};
      })
      // A view or part shares the memory of its source buffer, at an offset.
      // The source precedes it, so `buffers` has the source's entry.
      .Case([&](plan::ViewOp view) -> Memory {
        json::Object memory = *buffers[index(view.getSource())].getAsObject();
        if (std::optional<uint64_t> offset = view.getOffset())
          memory["offset"] = memory.getInteger("offset").value_or(0) +
                             static_cast<int64_t>(*offset);
        return memory;
      })
      .Case([&](plan::PartOp part) -> Memory {
        json::Object memory = *buffers[index(part.getSource())].getAsObject();
        memory["offset"] = memory.getInteger("offset").value_or(0) +
                           static_cast<int64_t>(part.getFrom());
        return memory;
      })
      .DefaultUnreachable("not a buffer");
}

LogicalResult ProgramWriter::addBuffer(Operation *op) {
  FailureOr<json::Object> object = memoryOf(op);
  Value buffer = op->getResult(0);
  if (failed(object) ||
      failed(addType(*object, op, cast<ShapedType>(buffer.getType()))))
    return failure();
  // Steps name buffers by their number in this list.
  indexOf[buffer] = buffers.size();
  // An input is also a port, which callers bind by name. Integer ports have
  // allowed ranges.
  if (auto input = dyn_cast<plan::InputOp>(op)) {
    json::Object port{{"name", text(input.getName())},
                      {"role", word(input.getRole())},
                      {"buffer", indexOf.lookup(buffer)}};
    if (std::optional<ArrayAttr> indices = input.getIndices())
      port["indices"] = valueToJSON(getBoxes(*indices), noSteps);
    if (int64_t axis = input.getBatchAxis(); axis != 0)
      port["batch_axis"] = axis;
    inputs.push_back(std::move(port));
  }
  buffers.push_back(std::move(*object));
  return success();
}

std::vector<size_t> ProgramWriter::indices(ValueRange ins,
                                           ValueRange outs) const {
  std::vector<size_t> result;
  for (Value buffer : llvm::concat<Value>(ins, outs))
    result.push_back(index(buffer));
  return result;
}

template <typename OpTy>
std::optional<runtime::Epilogue> ProgramWriter::epilogueOf(OpTy op) const {
  if (!op.getEpilogue())
    return std::nullopt;
  return runtime::Epilogue{
      op.getEpilogue()->str(),
      indices(op.getEpilogueInputs(), op.getEpilogueOutputs())};
}

static int64_t toSigned(uint64_t value) { return static_cast<int64_t>(value); }

void ProgramWriter::setFields(runtime::LaunchStep &step,
                              plan::LaunchOp op) const {
  step.args = indices(op.getInputs(), op.getOutputs());
}

void ProgramWriter::setFields(runtime::MatMulStep &step,
                              plan::MatMulOp op) const {
  static_cast<runtime::ProductShape &>(step) = op.getShape();
  static_cast<runtime::BatchAxes &>(step) = op.getAxes();
  step.a = index(op.getA());
  step.b = index(op.getB());
  step.c = optionalIndex(op.getC());
  step.epilogue = epilogueOf(op);
  if (op.getFused())
    step.fused = runtime::Fused{*op.getFused(),
                                optionalIndex(op.getBias()),
                                optionalIndex(op.getAux()),
                                optionalIndex(op.getBiasGrad()),
                                {}};
}

void ProgramWriter::setFields(runtime::ConvStep &step, plan::ConvOp op) const {
  step.x = optionalIndex(op.getX());
  step.w = optionalIndex(op.getW());
  step.y = optionalIndex(op.getY());
  step.epilogue = epilogueOf(op);
}

void ProgramWriter::setFields(runtime::AttentionStep &step,
                              plan::AttentionOp op) const {
  static_cast<runtime::AttentionShape &>(step) = op.getShape();
  step.query = index(op.getQuery());
  step.key = index(op.getKey());
  step.value = index(op.getValue());
  step.output = index(op.getOutput());
  step.statistics = optionalIndex(op.getStatistics());
  step.bias = optionalIndex(op.getBias());
  step.dOutput = optionalIndex(op.getDOutput());
  step.dQuery = optionalIndex(op.getDQuery());
  step.dKey = optionalIndex(op.getDKey());
  step.dValue = optionalIndex(op.getDValue());
}

void ProgramWriter::setFields(runtime::CopyStep &step, plan::CopyOp op) const {
  step.src = index(op.getSource());
  step.dst = index(op.getDestination());
}

// The runtime executes this step before kernels use integers from a caller as
// indices.
void ProgramWriter::setFields(runtime::CheckIndicesStep &step,
                              plan::CheckIndicesOp op) const {
  step.buffer = index(op.getBuffer());
  step.indices = getBoxes(op.getIndices());
}

void ProgramWriter::setFields(runtime::AllReduceStep &step,
                              plan::AllReduceOp op) const {
  step.buffer = index(op.getBuffer());
}

std::vector<runtime::OwnedPart>
ProgramWriter::listParts(ValueRange parts, ArrayAttr owners) const {
  std::vector<runtime::OwnedPart> list;
  for (auto [part, owner] :
       llvm::zip_equal(parts, owners.getAsRange<FlatSymbolRefAttr>()))
    list.push_back({index(part),
                    static_cast<size_t>(stateIndex.lookup(owner.getValue()))});
  return list;
}

void ProgramWriter::setFields(runtime::ReduceScatterStep &step,
                              plan::ReduceScatterOp op) const {
  step.parts = listParts(op.getParts(), op.getOwners());
}

void ProgramWriter::setFields(runtime::AllGatherStep &step,
                              plan::AllGatherOp op) const {
  step.parts = listParts(op.getParts(), op.getOwners());
}

void ProgramWriter::setFields(runtime::IfStep &step, plan::IfOp op) const {
  step.predicate = index(op.getPredicate());
}

// Returns the bytes by which the address of `buffer`, part of a larger buffer,
// grows per iteration of `loop`; 0 if the address stays.
static int64_t getMovement(Value buffer, plan::ForOp loop) {
  while (Operation *op = buffer.getDefiningOp()) {
    if (auto part = dyn_cast<plan::PartOp>(op)) {
      if (part->getParentOp() == loop)
        return static_cast<int64_t>(part.getBy());
      buffer = part.getSource();
    } else if (auto view = dyn_cast<plan::ViewOp>(op)) {
      buffer = view.getSource();
    } else {
      break;
    }
  }
  return 0;
}

void ProgramWriter::setFields(runtime::ForStep &step, plan::ForOp op) const {
  op->walk([&](Operation *nested) {
    if (!isa<plan::PartOp, plan::ViewOp>(nested))
      return;
    Value buffer = nested->getResult(0);
    if (int64_t bytes = getMovement(buffer, op))
      step.moving.push_back({index(buffer), bytes});
  });
  if (op.getPrivateBytes())
    step.privateMemory = runtime::PrivateMemory{
        toSigned(*op.getPrivateOffset()), toSigned(*op.getPrivateBytes())};
}

// Writes a step as JSON. The fields of a step that are lists of steps
// correspond to the regions of the op, in order.
template <typename StepTy, typename OpTy>
json::Object ProgramWriter::write(StepKind kind, OpTy op) {
  StepTy step;
  plan::readAttributes(op, step);
  setFields(step, op);
  json::Object object{{"op", word(kind)}};
  MutableArrayRef<Region> regions = op->getRegions();
  addFields(object, step, [&]() -> std::optional<json::Array> {
    Region &region = regions.front();
    regions = regions.drop_front();
    if (region.empty())
      return std::nullopt;
    return stepsOf(region.front());
  });
  return object;
}

json::Object ProgramWriter::stepOf(Operation *op) {
  using Kind = StepKind;
  return llvm::TypeSwitch<Operation *, json::Object>(op)
      .Case([&](plan::LaunchOp op) {
        return write<runtime::LaunchStep>(Kind::Launch, op);
      })
      .Case([&](plan::MatMulOp op) {
        return write<runtime::MatMulStep>(Kind::MatMul, op);
      })
      .Case([&](plan::ConvOp op) {
        return write<runtime::ConvStep>(Kind::Conv, op);
      })
      .Case([&](plan::AttentionOp op) {
        return write<runtime::AttentionStep>(Kind::Attention, op);
      })
      .Case([&](plan::CopyOp op) {
        return write<runtime::CopyStep>(Kind::Copy, op);
      })
      .Case([&](plan::CheckIndicesOp op) {
        return write<runtime::CheckIndicesStep>(Kind::CheckIndices, op);
      })
      .Case([&](plan::AllReduceOp op) {
        return write<runtime::AllReduceStep>(Kind::AllReduce, op);
      })
      .Case([&](plan::ReduceScatterOp op) {
        return write<runtime::ReduceScatterStep>(Kind::ReduceScatter, op);
      })
      .Case([&](plan::AllGatherOp op) {
        return write<runtime::AllGatherStep>(Kind::AllGather, op);
      })
      .Case([&](plan::IfOp op) { return write<runtime::IfStep>(Kind::If, op); })
      .Case([&](plan::ForOp op) {
        return write<runtime::ForStep>(Kind::For, op);
      })
      .DefaultUnreachable("not a step");
}

// Returns at most eight names of nodes that a kernel computes besides its first
// node, which names the step. Messages of the runtime print them.
static json::Array othersOf(Operation *op) {
  constexpr size_t most = 8;
  SmallVector<StringRef> names = getNodeNames(op);
  json::Array others;
  for (StringRef name :
       ArrayRef<StringRef>(names).drop_front().take_front(most))
    others.push_back(text(name));
  return others;
}

json::Array ProgramWriter::stepsOf(Block &block) {
  json::Array steps;
  for (Operation &op : block) {
    if (!isa<plan::StepOpInterface>(op))
      continue;
    json::Object step = stepOf(&op);
    StringRef node = getNodeName(&op);
    step["name"] = text(node.empty() ? op.getName().stripDialect() : node);
    if (!isa<plan::ForOp, plan::IfOp>(op) && getNodeNames(&op).size() > 1)
      step["others"] = othersOf(&op);
    if (FlatSymbolRefAttr owner = plan::getOwner(&op))
      step["owner"] = stateIndex.lookup(owner.getValue());
    steps.push_back(std::move(step));
  }
  return steps;
}

// Adds the buffers and outputs of `block`, and of the loops and branches in it.
LogicalResult ProgramWriter::addBuffers(Block &block) {
  for (Operation &op : block) {
    if (auto output = dyn_cast<plan::OutputOp>(op)) {
      outputs.push_back(
          json::Object{{"name", text(output.getName())},
                       {"role", word(output.getRole())},
                       {"buffer", indexOf.lookup(output.getBuffer())}});
    } else if (isa<plan::ForOp, plan::IfOp>(op)) {
      for (Region &body : op.getRegions())
        if (!body.empty() && failed(addBuffers(body.front())))
          return failure();
    } else if (!isa<plan::StepOpInterface>(op) && failed(addBuffer(&op))) {
      return failure();
    }
  }
  return success();
}

FailureOr<json::Object> ProgramWriter::write() {
  Block &body = program.getBody().front();
  if (failed(addBuffers(body)))
    return failure();
  json::Array steps = stepsOf(body);
  return json::Object{
      {"arena_bytes", toSigned(program.getArenaBytes().value_or(0))},
      {"inputs", std::move(inputs)},
      {"outputs", std::move(outputs)},
      {"buffers", std::move(buffers)},
      {"steps", std::move(steps)}};
}

FailureOr<PlanMembers> mpc::planToJSON(ModuleOp module, DataSection &data) {
  PlanMembers members;
  // Add constants before initial values: steps read constants in place in the
  // file, while initial values are copied. ProgramWriter reports a constant
  // without data.
  module.walk(
      [&](plan::ConstantOp constant) { (void)data.add(constant.getValue()); });
  members.constantBytes = data.getSize();
  // Programs refer to variables by number, so number all variables first.
  llvm::StringMap<int64_t> stateIndex;
  for (auto variable : module.getOps<VariableOp>())
    stateIndex.try_emplace(variable.getSymName(), stateIndex.size());
  for (auto variable : module.getOps<VariableOp>()) {
    FailureOr<json::Object> object = variableToJSON(variable, data);
    if (failed(object))
      return failure();
    if (FlatSymbolRefAttr owner = plan::getOwner(variable))
      (*object)["owner"] = stateIndex.lookup(owner.getValue());
    members.state.push_back(std::move(*object));
  }
  // Each program is a member: `step`, `eval`, `predict` and so on.
  for (auto program : module.getOps<plan::ProgramOp>()) {
    FailureOr<json::Object> object =
        ProgramWriter(program, data, stateIndex).write();
    if (failed(object))
      return failure();
    members.functions[program.getSymName()] = std::move(*object);
  }
  FailureOr<json::Object> kernels = kernelsToJSON(module);
  if (failed(kernels))
    return failure();
  members.kernels = std::move(*kernels);
  return members;
}
