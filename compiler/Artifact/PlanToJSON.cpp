// SPDX-License-Identifier: Apache-2.0
#include "compiler/Artifact/PlanToJSON.h"

#include "compiler/Artifact/KernelsToJSON.h"
#include "compiler/Dialect/MPC/Facts/IndexBoxes.h"
#include "compiler/Dialect/MPC/NodeNames.h"
#include "compiler/Dialect/Plan/Plan.h"

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

static json::Array listOf(ArrayRef<int64_t> values) {
  return json::Array(values);
}

//===----------------------------------------------------------------------===//
// State
//===----------------------------------------------------------------------===//

/// Returns the single value of a float tensor, if JSON can represent it;
/// nullopt otherwise. Weights that start as zeros or ones then need no bytes in
/// the artifact.
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
  // Each byte must equal the byte one element before.
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
  // Without data the fill initialises all elements, such as 0 for moments.
  if (!variable.getInit()) {
    APFloat fill = variable.getFill().value_or(APFloat(0.0));
    object["init"] = json::Object{{"fill", fill.convertToDouble()}};
    return object;
  }
  // Equal elements, such as a norm's weights of 1, become a fill too.
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
/// Writes one program as JSON.
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
  json::Object launch(plan::LaunchOp op);
  json::Object fused(plan::MatMulOp op);
  json::Object matmul(plan::MatMulOp op);
  json::Object conv(plan::ConvOp op);
  json::Object loop(plan::ForOp op);

  int64_t index(Value buffer) const { return indexOf.lookup(buffer); }
  json::Value optionalIndex(Value buffer) const {
    return buffer ? json::Value(index(buffer)) : json::Value(nullptr);
  }
  json::Array indices(ValueRange ins, ValueRange outs) const;
  template <typename OpTy>
  json::Value epilogueOf(OpTy op) const;

  plan::ProgramOp program;
  DataSection &data;
  const llvm::StringMap<int64_t> &stateIndex;
  DenseMap<Value, int64_t> indexOf;
  json::Array buffers, inputs, outputs;
};
} // namespace

// Returns the memory of a buffer: "space" with "offset" or "index".
FailureOr<json::Object> ProgramWriter::memoryOf(Operation *op) {
  using Memory = FailureOr<json::Object>;
  // A slice of the arena has an offset from plan-assign-offsets.
  return llvm::TypeSwitch<Operation *, Memory>(op)
      .Case([&](plan::ArenaOp arena) -> Memory {
        if (!arena.getOffset())
          return arena.emitOpError("has no offset, run plan-assign-offsets");
        return json::Object{
            {"space", word(Space::Arena)},
            {"offset", static_cast<int64_t>(*arena.getOffset())}};
      })
      // A variable or an input has a number in the lists of the plan. An input
      // joins the list after the buffer, so the present size of the list is the
      // number of the input.
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
      // A view or part shares the memory of its source, at an offset. The
      // source comes earlier, so it has an entry.
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

static json::Array boxesOf(ArrayAttr indices) {
  json::Array boxes;
  for (const IndexBox &box : getBoxes(indices)) {
    json::Object object{{"begin", listOf(box.begin)},
                        {"end", listOf(box.end)},
                        {"size", box.size}};
    if (box.isLabel)
      object["label"] = true;
    if (box.ignored)
      object["ignored"] = *box.ignored;
    boxes.push_back(std::move(object));
  }
  return boxes;
}

LogicalResult ProgramWriter::addBuffer(Operation *op) {
  FailureOr<json::Object> object = memoryOf(op);
  Value buffer = op->getResult(0);
  if (failed(object) ||
      failed(addType(*object, op, cast<ShapedType>(buffer.getType()))))
    return failure();
  // Steps name buffers by their number in this list.
  indexOf[buffer] = buffers.size();
  // An input is a port too, with the allowed ranges of its integers.
  if (auto input = dyn_cast<plan::InputOp>(op)) {
    json::Object port{{"name", text(input.getName())},
                      {"role", word(input.getRole())},
                      {"buffer", index(buffer)}};
    if (std::optional<ArrayAttr> indices = input.getIndices())
      port["indices"] = boxesOf(*indices);
    if (int64_t axis = input.getBatchAxis(); axis != 0)
      port["batch_axis"] = axis;
    inputs.push_back(std::move(port));
  }
  buffers.push_back(std::move(*object));
  return success();
}

json::Array ProgramWriter::indices(ValueRange ins, ValueRange outs) const {
  json::Array result;
  for (Value buffer : ins)
    result.push_back(index(buffer));
  for (Value buffer : outs)
    result.push_back(index(buffer));
  return result;
}

template <typename OpTy>
json::Value ProgramWriter::epilogueOf(OpTy op) const {
  if (!op.getEpilogue())
    return nullptr;
  return json::Object{
      {"kernel", *op.getEpilogue()},
      {"args", indices(op.getEpilogueInputs(), op.getEpilogueOutputs())}};
}

static int64_t toSigned(uint64_t value) { return static_cast<int64_t>(value); }

// Sets object[key] to the word for `value`; adds nothing for nullopt.
template <typename Enum>
static void addOptional(json::Object &object, StringRef key,
                        std::optional<Enum> value) {
  if (value)
    object[key] = word(*value);
}

json::Object ProgramWriter::fused(plan::MatMulOp op) {
  json::Object object{{"kind", word(*op.getFused())}};
  if (op.getBias())
    object["bias"] = index(op.getBias());
  if (op.getAux())
    object["aux"] = index(op.getAux());
  if (op.getBiasGrad())
    object["bias_grad"] = index(op.getBiasGrad());
  if (!op.getUnfused().empty())
    object["unfused"] = stepsOf(op.getUnfused().front());
  return object;
}

json::Object ProgramWriter::matmul(plan::MatMulOp op) {
  json::Object step = json::Object{{"op", word(StepKind::MatMul)},
                                   {"a", index(op.getA())},
                                   {"b", index(op.getB())},
                                   {"c", optionalIndex(op.getC())},
                                   {"batch", toSigned(op.getBatch())},
                                   {"m", toSigned(op.getM())},
                                   {"n", toSigned(op.getN())},
                                   {"k", toSigned(op.getK())},
                                   {"trans_a", op.getTransA()},
                                   {"trans_b", op.getTransB()},
                                   {"lda", toSigned(op.getLda())},
                                   {"ldb", toSigned(op.getLdb())},
                                   {"ldc", toSigned(op.getLdc())},
                                   {"stride_a", toSigned(op.getStrideA())},
                                   {"stride_b", toSigned(op.getStrideB())},
                                   {"stride_c", toSigned(op.getStrideC())},
                                   {"alpha", op.getAlpha().convertToDouble()},
                                   {"tile_m", toSigned(op.getTileM())},
                                   {"tile_n", toSigned(op.getTileN())},
                                   {"epilogue", epilogueOf(op)}};
  // Omit what most products lack, to keep small plans short: fusion, further
  // batch axes, offsets within a buffer.
  addOptional(step, "compute", op.getCompute());
  if (op.getFused())
    step["fused"] = fused(op);
  if (op.getOuter())
    step["outer"] = json::Object{{"extents", listOf(*op.getOuter())},
                                 {"a", listOf(*op.getOuterStridesA())},
                                 {"b", listOf(*op.getOuterStridesB())},
                                 {"c", listOf(*op.getOuterStridesC())}};
  if (op.getOffsetA() != 0)
    step["offset_a"] = toSigned(op.getOffsetA());
  if (op.getOffsetB() != 0)
    step["offset_b"] = toSigned(op.getOffsetB());
  return step;
}

json::Object ProgramWriter::conv(plan::ConvOp op) {
  json::Object step =
      json::Object{{"op", word(StepKind::Conv)},
                   {"kind", word(op.getKind())},
                   {"x", optionalIndex(op.getX())},
                   {"w", optionalIndex(op.getW())},
                   {"y", optionalIndex(op.getY())},
                   {"batch", toSigned(op.getBatch())},
                   {"groups", toSigned(op.getGroups())},
                   {"in_channels", toSigned(op.getInChannels())},
                   {"out_channels", toSigned(op.getOutChannels())},
                   {"in_spatial", listOf(op.getInSpatial())},
                   {"out_spatial", listOf(op.getOutSpatial())},
                   {"kernel", listOf(op.getKernel())},
                   {"strides", listOf(op.getStrides())},
                   {"dilations", listOf(op.getDilations())},
                   {"pads_begin", listOf(op.getPadsBegin())},
                   {"pads_end", listOf(op.getPadsEnd())},
                   {"epilogue", epilogueOf(op)}};
  // Without a layout, filters have ONNX's layout. Without a compute type, sums
  // are fp32.
  addOptional(step, "compute", op.getCompute());
  addOptional(step, "filter_layout", op.getFilterLayout());
  return step;
}

json::Object ProgramWriter::launch(plan::LaunchOp op) {
  json::Object step{{"op", word(StepKind::Launch)},
                    {"kernel", op.getKernel()},
                    {"args", indices(op.getInputs(), op.getOutputs())},
                    {"extent", toSigned(op.getExtent())},
                    {"grain", toSigned(op.getGrain())}};
  if (op.getThreads())
    step["threads"] = toSigned(*op.getThreads());
  if (op.getSharedBytes())
    step["shared_bytes"] = toSigned(*op.getSharedBytes());
  if (op.getScratchBytes())
    step["scratch_bytes"] = toSigned(*op.getScratchBytes());
  return step;
}

// Returns the bytes that `buffer` moves per iteration of `loop`.
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

json::Object ProgramWriter::loop(plan::ForOp op) {
  json::Array moving;
  op->walk([&](Operation *nested) {
    if (!isa<plan::PartOp, plan::ViewOp>(nested))
      return;
    Value buffer = nested->getResult(0);
    if (int64_t bytes = getMovement(buffer, op))
      moving.push_back(
          json::Object{{"buffer", index(buffer)}, {"bytes", bytes}});
  });
  json::Object step{{"op", word(StepKind::For)},
                    {"count", toSigned(op.getCount())},
                    {"moving", std::move(moving)},
                    {"steps", stepsOf(op.getBody().front())}};
  if (op.getPrivateBytes())
    step["private"] = json::Object{{"offset", toSigned(*op.getPrivateOffset())},
                                   {"bytes", toSigned(*op.getPrivateBytes())}};
  return step;
}

json::Object ProgramWriter::stepOf(Operation *op) {
  return llvm::TypeSwitch<Operation *, json::Object>(op)
      .Case([&](plan::LaunchOp kernel) { return launch(kernel); })
      .Case([&](plan::MatMulOp product) { return matmul(product); })
      .Case([&](plan::ConvOp convolution) { return conv(convolution); })
      // A copy of whole buffers has neither rows nor bytes per row.
      .Case([&](plan::CopyOp copy) {
        json::Object step{{"op", word(StepKind::Copy)},
                          {"src", index(copy.getSource())},
                          {"dst", index(copy.getDestination())}};
        if (copy.getRows()) {
          step["rows"] = toSigned(*copy.getRows());
          step["offset"] = toSigned(copy.getOffset());
          step["stride"] = toSigned(copy.getStride());
        }
        if (copy.getRowBytes()) {
          step["row_bytes"] = toSigned(*copy.getRowBytes());
          step["to_offset"] = toSigned(copy.getToOffset());
          step["to_stride"] = toSigned(copy.getToStride());
        }
        return step;
      })
      // The runtime checks integers that a caller binds before a kernel uses
      // them as indices.
      .Case([&](plan::CheckIndicesOp check) {
        return json::Object{{"op", word(StepKind::CheckIndices)},
                            {"buffer", index(check.getBuffer())},
                            {"indices", boxesOf(check.getIndices())}};
      })
      .Case([&](plan::ForOp loops) { return loop(loops); })
      // A branch has its own lists of steps.
      .Case([&](plan::IfOp condition) {
        json::Object step{{"op", word(StepKind::If)},
                          {"predicate", index(condition.getPredicate())},
                          {"then", stepsOf(condition.getThen().front())}};
        if (Region &otherwise = condition.getOtherwise(); !otherwise.empty())
          step["else"] = stepsOf(otherwise.front());
        return step;
      })
      .DefaultUnreachable("not a step");
}

// Returns the names of the first few nodes that a kernel computes, except the
// node that names the kernel, for messages.
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
    steps.push_back(std::move(step));
  }
  return steps;
}

// Adds the buffers and outputs of a list, including loops and branches in it.
LogicalResult ProgramWriter::addBuffers(Block &block) {
  for (Operation &op : block) {
    if (auto output = dyn_cast<plan::OutputOp>(op)) {
      outputs.push_back(json::Object{{"name", text(output.getName())},
                                     {"role", word(output.getRole())},
                                     {"buffer", index(output.getBuffer())}});
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
  // Constants come first, because steps read them in place in the file; initial
  // values are copied. ProgramWriter reports a constant without data.
  module.walk(
      [&](plan::ConstantOp constant) { (void)data.add(constant.getValue()); });
  members.constantBytes = data.getSize();
  // A program names variables by number, so all variables come first.
  llvm::StringMap<int64_t> stateIndex;
  for (auto variable : module.getOps<VariableOp>()) {
    FailureOr<json::Object> object = variableToJSON(variable, data);
    if (failed(object))
      return failure();
    stateIndex[variable.getSymName()] = members.state.size();
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
