// Parses a plan's JSON into the structs of Plan.h.
//
// Unknown fields are errors, since they may change the meaning of a step. Only
// "model" and "recipe" are descriptive, and may have any fields.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/ArtifactFormat.h"
#include "runtime/BoundedJSON.h"
#include "runtime/PlanReader.h"

namespace mpc::runtime {

/// Limit on nested step lists, deeper than any model has. Bounds recursion.
static constexpr int kMaxListDepth = 32;

//===----------------------------------------------------------------------===//
// Records
//===----------------------------------------------------------------------===//

using Keys = std::vector<std::string_view>;

/// Appends the JSON keys of a record's fields. The fields of an inlined record
/// are part of the same object.
template <typename Record>
static void addKeys(Keys &keys) {
  visitFields<Record>([&](const Field &field, auto member) {
    using T = std::decay_t<decltype(std::declval<Record>().*member)>;
    if constexpr (IsOptional<T>::value)
      if constexpr (IsRecord<typename T::value_type>::value)
        if (field.presence == Presence::Inlined)
          return addKeys<typename T::value_type>(keys);
    keys.push_back(field.key);
  });
}

namespace {
/// Reads the records of PlanSchema.h by their fields. Reads indices, extents
/// and strides unchecked; the verifier compares them with the buffers.
class FieldReader {
public:
  /// `depth` is the nesting depth of lists of steps inside the records: 0 for a
  /// function's steps, 1 for the body of a loop among these steps.
  explicit FieldReader(int depth = 0) : depth(depth) {}

  /// Reads an object. A key that is no field of `Record` is an error.
  template <typename Record>
  Record read(PlanReader &in) const {
    return read<Record>(in, {});
  }

  /// Reads the fields of one kind of step. Accepts the keys that all steps
  /// have, "op", "name", "others" and "owner", and leaves them to the caller.
  template <typename Record>
  Record readStep(PlanReader &in) const {
    // A condition or a loop computes no nodes itself, so it has no "others".
    constexpr bool holdsSteps =
        std::is_same_v<Record, IfStep> || std::is_same_v<Record, ForStep>;
    return read<Record>(in, holdsSteps ? Keys{"op", "name", "owner"}
                                       : Keys{"op", "name", "others", "owner"});
  }

  /// Reads the member `key`, a list of objects or one object.
  template <typename T>
  T readMember(PlanReader &in, const char *key) const {
    T value;
    readValue(in, key, value);
    return value;
  }

  /// Reads the fields of `record`, and ignores all other keys of the object.
  template <typename Record>
  void readFields(PlanReader &in, Record &record) const {
    visitFields<Record>([&](const Field &field, auto member) {
      readField(in, field, record.*member);
    });
  }

private:
  template <typename Record>
  Record read(PlanReader &in, Keys keys) const {
    addKeys<Record>(keys);
    in.expectOnly(keys);
    Record record;
    readFields(in, record);
    // Only labels have an ignored value; other indices do not.
    if constexpr (std::is_same_v<Record, IndexBox>)
      if (!record.isLabel)
        record.ignored.reset();
    return record;
  }

  template <typename T>
  void readField(PlanReader &in, const Field &field, T &value) const {
    if (field.presence == Presence::Optional && !in.has(field.key))
      return;
    if (field.presence == Presence::Nullable && in.get(field.key).is_null())
      return;
    if constexpr (IsOptional<T>::value) {
      if constexpr (IsRecord<typename T::value_type>::value)
        if (field.presence == Presence::Inlined) {
          if (in.has(field.key))
            readFields(in, value.emplace());
          return;
        }
      readValue(in, field.key, value.emplace());
    } else {
      readValue(in, field.key, value);
    }
  }

  // The overloads of readValue read a value by the type of the struct's member.
  template <typename T>
  void readValue(PlanReader &in, const char *key, T &value) const {
    if constexpr (std::is_enum_v<T>) {
      value = in.word<T>(key);
    } else {
      PlanReader object = in.object(key);
      value = read<T>(object);
    }
  }
  void readValue(PlanReader &in, const char *key, int64_t &value) const {
    value = in.integer(key);
  }
  void readValue(PlanReader &in, const char *key, size_t &value) const {
    value = in.index(key);
  }
  void readValue(PlanReader &in, const char *key, bool &value) const {
    value = in.boolean(key);
  }
  void readValue(PlanReader &in, const char *key, double &value) const {
    value = in.number(key);
  }
  void readValue(PlanReader &in, const char *key, std::string &value) const {
    value = in.string(key);
  }
  void readValue(PlanReader &in, const char *key,
                 std::vector<int64_t> &values) const {
    values = in.integers(key);
  }
  void readValue(PlanReader &in, const char *key,
                 std::vector<size_t> &values) const {
    values = in.indices(key);
  }
  template <typename T>
  void readValue(PlanReader &in, const char *key,
                 std::vector<T> &records) const {
    in.each(key,
            [&](PlanReader &record) { records.push_back(read<T>(record)); });
  }
  // "unfused" lists only launches, which contain no further steps.
  void readValue(PlanReader &in, const char *key,
                 std::vector<LaunchStep> &launches) const {
    in.each(key, [&](PlanReader &step) {
      if (step.word<StepKind>("op") != StepKind::Launch)
        step.fail("only launches can replace a fused product");
      launches.push_back(readStep<LaunchStep>(step));
    });
  }
  void readValue(PlanReader &in, const char *key,
                 std::vector<Step> &steps) const;

  int depth;
};
} // namespace

//===----------------------------------------------------------------------===//
// State and buffers
//===----------------------------------------------------------------------===//

/// Reads the type and the shape, and computes `bytes`.
static void readTypeAndShape(PlanReader &in, DType &type, Shape &shape,
                             int64_t &bytes) {
  type = in.type("type");
  shape = in.integers("shape");
  std::optional<int64_t> size = checkedBytes(type, shape);
  if (!size)
    in.fail("shape " + toString(shape) + " is negative or too large");
  bytes = size.value_or(0);
}

static StateVariable readState(PlanReader &in) {
  in.expectOnly({"name", "role", "type", "shape", "init", "owner"});
  StateVariable state;
  state.name = in.string("name");
  state.role = in.word<Role>("role");
  readTypeAndShape(in, state.type, state.shape, state.bytes);
  if (in.has("owner"))
    state.owner = in.index("owner");
  PlanReader init = in.object("init");
  if (init.has("fill")) {
    init.expectOnly({"fill"});
    state.fill = init.number("fill");
  } else {
    init.expectOnly({"offset", "bytes"});
    state.data = DataRange{init.integer("offset"), init.integer("bytes")};
  }
  return state;
}

static Buffer readBuffer(PlanReader &in) {
  in.expectOnly({"space", "type", "shape", "offset", "index"});
  Buffer buffer;
  readTypeAndShape(in, buffer.type, buffer.shape, buffer.bytes);
  buffer.space = in.word<Space>("space");
  switch (buffer.space) {
  case Space::Arena:
  case Space::Constant:
    buffer.offset = in.integer("offset");
    break;
  case Space::State:
  case Space::Input:
    buffer.index = in.index("index");
    buffer.offset = in.integerOr("offset", 0);
    break;
  }
  return buffer;
}

static FunctionValue readValue(PlanReader &in) {
  in.expectOnly({"name", "role", "buffer", "indices", "batch_axis"});
  FunctionValue value{in.string("name"), in.word<Role>("role"),
                      in.index("buffer")};
  if (in.has("indices"))
    value.indices =
        FieldReader().readMember<std::vector<IndexBox>>(in, "indices");
  value.batchAxis = in.integerOr("batch_axis", 0);
  return value;
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

static std::vector<Kernel::Argument> readArguments(PlanReader &in,
                                                   const char *key) {
  std::vector<Kernel::Argument> arguments;
  in.each(key, [&](PlanReader &argument) {
    argument.expectOnly({"type", "shape"});
    arguments.push_back({argument.type("type"), argument.integers("shape")});
  });
  return arguments;
}

static Kernel readKernel(PlanReader &in) {
  Kernel kernel;
  kernel.reads = readArguments(in, "reads");
  kernel.writes = readArguments(in, "writes");
  if (in.has("rows")) {
    in.expectOnly({"reads", "writes", "rows", "columns"});
    kernel.tiled = Kernel::Matrix{in.integer("rows"), in.integer("columns")};
    return kernel;
  }
  Keys keys{"reads", "writes"};
  addKeys<KernelWork>(keys);
  in.expectOnly(keys);
  FieldReader().readFields<KernelWork>(in, kernel);
  return kernel;
}

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

/// Reads one step of a list. `depth` is the nesting depth of lists inside the
/// step, for example of a loop's body.
static Step readStep(PlanReader &in, int depth) {
  const StepKind kind = in.word<StepKind>("op");
  Step step{in.string("name"), {}};
  const FieldReader reader(depth);
  switch (kind) {
  case StepKind::Launch:
    step.op = reader.readStep<LaunchStep>(in);
    break;
  case StepKind::MatMul:
    step.op = reader.readStep<MatMulStep>(in);
    break;
  case StepKind::Conv:
    step.op = reader.readStep<ConvStep>(in);
    break;
  case StepKind::Attention:
    step.op = reader.readStep<AttentionStep>(in);
    break;
  case StepKind::Copy:
    step.op = reader.readStep<CopyStep>(in);
    break;
  case StepKind::CheckIndices:
    step.op = reader.readStep<CheckIndicesStep>(in);
    break;
  case StepKind::AllReduce:
    step.op = reader.readStep<AllReduceStep>(in);
    break;
  case StepKind::ReduceScatter:
    step.op = reader.readStep<ReduceScatterStep>(in);
    break;
  case StepKind::AllGather:
    step.op = reader.readStep<AllGatherStep>(in);
    break;
  case StepKind::If:
    step.op = reader.readStep<IfStep>(in);
    break;
  case StepKind::For:
    step.op = reader.readStep<ForStep>(in);
    break;
  }
  if (in.has("others"))
    step.others = in.strings("others");
  if (in.has("owner"))
    step.owner = in.index("owner");
  return step;
}

void FieldReader::readValue(PlanReader &in, const char *key,
                            std::vector<Step> &steps) const {
  if (depth > kMaxListDepth)
    return in.fail("steps are nested too deeply");
  in.each(key, [&](PlanReader &step) {
    steps.push_back(runtime::readStep(step, depth + 1));
  });
}

static Function readFunction(PlanReader &in, std::string name) {
  in.expectOnly({"arena_bytes", "inputs", "outputs", "buffers", "steps"});
  Function function;
  function.name = std::move(name);
  function.arenaBytes = in.integer("arena_bytes");
  in.each("inputs", [&](PlanReader &value) {
    function.inputs.push_back(readValue(value));
  });
  in.each("outputs", [&](PlanReader &value) {
    function.outputs.push_back(readValue(value));
  });
  in.each("buffers", [&](PlanReader &buffer) {
    function.buffers.push_back(readBuffer(buffer));
  });
  function.steps = FieldReader().readMember<std::vector<Step>>(in, "steps");
  return function;
}

static Plan readPlan(PlanReader &in, int64_t dataBytes) {
  Plan plan;
  // Check the version first, since another version has other fields.
  int64_t version = in.integer("format");
  if (!in.failed() && version != format::kVersion) {
    in.fail("format version " + std::to_string(version) +
            " is not the one this runtime reads (" +
            std::to_string(format::kVersion) + "); compile the model again");
    return plan;
  }
  in.expectOnly({"format", "producer", "model", "precision", "recipe", "target",
                 "constant_bytes", "state", "functions", "kernels"});
  plan.producer = in.string("producer");
  PlanReader model = in.object("model");
  plan.modelName = model.string("name");
  plan.modelHash = model.string("hash");
  plan.modelOpset = model.integer("opset");
  plan.precision = in.string("precision");
  plan.recipe = in.object("recipe").text();
  PlanReader target = in.object("target");
  target.expectOnly({"triple", "cpu", "features"});
  plan.target = {target.string("triple"), target.string("cpu"),
                 target.strings("features")};
  plan.constantBytes = in.integerOr("constant_bytes", dataBytes);
  in.each("state",
          [&](PlanReader &state) { plan.state.push_back(readState(state)); });
  in.eachMember("functions",
                [&](const std::string &name, PlanReader &function) {
                  plan.functions.emplace(name, readFunction(function, name));
                });
  in.eachMember("kernels", [&](const std::string &name, PlanReader &kernel) {
    plan.kernels.emplace(name, readKernel(kernel));
  });
  return plan;
}

StatusOr<Plan> parsePlan(std::string_view text, int64_t dataBytes) {
  const BoundedDocument document(text);
  const nlohmann::json &json = document.json;
  if (json.is_discarded())
    return Status(StatusCode::InvalidInput,
                  "invalid plan: it is not well-formed JSON");
  Status failure;
  PlanReader reader(json, "plan", failure);
  Plan plan = readPlan(reader, dataBytes);
  if (!failure.ok())
    return failure;
  if (Status status = verifyPlan(plan, dataBytes); !status.ok())
    return status;
  return plan;
}

} // namespace mpc::runtime
