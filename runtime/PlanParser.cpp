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
  in.expectOnly({"name", "role", "type", "shape", "init"});
  StateVariable state;
  state.name = in.string("name");
  state.role = in.word<Role>("role");
  readTypeAndShape(in, state.type, state.shape, state.bytes);
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

static std::vector<IndexBox> readBoxes(PlanReader &in) {
  std::vector<IndexBox> boxes;
  in.each("indices", [&](PlanReader &box) {
    box.expectOnly({"begin", "end", "size", "label", "ignored"});
    IndexBox result{box.integers("begin"), box.integers("end"),
                    box.integer("size"),
                    box.has("label") && box.boolean("label")};
    if (result.isLabel && box.has("ignored"))
      result.ignored = box.integer("ignored");
    boxes.push_back(std::move(result));
  });
  return boxes;
}

static FunctionValue readValue(PlanReader &in) {
  in.expectOnly({"name", "role", "buffer", "indices", "batch_axis"});
  FunctionValue value{in.string("name"), in.word<Role>("role"),
                      in.index("buffer")};
  if (in.has("indices"))
    value.indices = readBoxes(in);
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
  in.expectOnly({"reads", "writes", "extent", "grain", "threads",
                 "shared_bytes", "scratch_bytes"});
  kernel.extent = in.integer("extent");
  kernel.grain = in.integer("grain");
  kernel.threads = in.integerOr("threads", 0);
  kernel.sharedBytes = in.integerOr("shared_bytes", 0);
  kernel.scratchBytes = in.integerOr("scratch_bytes", 0);
  return kernel;
}

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

static std::optional<Epilogue> readEpilogue(PlanReader &in) {
  if (in.get("epilogue").is_null())
    return std::nullopt;
  PlanReader epilogue = in.object("epilogue");
  epilogue.expectOnly({"kernel", "args"});
  return Epilogue{epilogue.string("kernel"), epilogue.indices("args")};
}

static LaunchStep readLaunch(PlanReader &in) {
  in.expectOnly({"op", "name", "others", "kernel", "args", "extent", "grain",
                 "threads", "shared_bytes", "scratch_bytes"});
  LaunchStep step;
  step.kernel = in.string("kernel");
  step.args = in.indices("args");
  step.extent = in.integer("extent");
  step.grain = in.integer("grain");
  step.threads = in.integerOr("threads", 0);
  step.sharedBytes = in.integerOr("shared_bytes", 0);
  step.scratchBytes = in.integerOr("scratch_bytes", 0);
  return step;
}

static std::optional<Fused> readFused(PlanReader &in) {
  if (!in.has("fused"))
    return std::nullopt;
  PlanReader object = in.object("fused");
  object.expectOnly({"kind", "bias", "aux", "bias_grad", "unfused"});
  // The verifier checks which buffers `kind` requires.
  auto optional = [&](const char *key) {
    return object.has(key) ? std::optional(object.index(key)) : std::nullopt;
  };
  Fused fused{object.word<FusedKind>("kind"),
              optional("bias"),
              optional("aux"),
              optional("bias_grad"),
              {}};
  // Only launches may complete the product, so the steps nest no further.
  if (object.has("unfused"))
    object.each("unfused", [&](PlanReader &step) {
      if (step.word<StepKind>("op") != StepKind::Launch)
        step.fail("only launches stand for what is fused");
      fused.unfused.push_back(readLaunch(step));
    });
  return fused;
}

static OuterAxes readOuter(PlanReader &in) {
  if (!in.has("outer"))
    return {};
  PlanReader axes = in.object("outer");
  axes.expectOnly({"extents", "a", "b", "c"});
  return {axes.integers("extents"), axes.integers("a"), axes.integers("b"),
          axes.integers("c")};
}

static MatMulStep readMatMul(PlanReader &in) {
  in.expectOnly({"op",       "name",     "others",   "a",     "b",
                 "c",        "batch",    "m",        "n",     "k",
                 "trans_a",  "trans_b",  "lda",      "ldb",   "ldc",
                 "stride_a", "stride_b", "stride_c", "alpha", "tile_m",
                 "tile_n",   "epilogue", "compute",  "fused", "offset_a",
                 "offset_b", "outer"});
  // Read extents, strides and buffers unchecked; the verifier compares them
  // with the buffers.
  MatMulStep step;
  step.a = in.index("a");
  step.b = in.index("b");
  step.c = in.optionalIndex("c");
  step.batch = in.integer("batch");
  step.m = in.integer("m");
  step.n = in.integer("n");
  step.k = in.integer("k");
  step.transA = in.boolean("trans_a");
  step.transB = in.boolean("trans_b");
  step.lda = in.integer("lda");
  step.ldb = in.integer("ldb");
  step.ldc = in.integer("ldc");
  step.strideA = in.integer("stride_a");
  step.strideB = in.integer("stride_b");
  step.strideC = in.integer("stride_c");
  step.offsetA = in.integerOr("offset_a", 0);
  step.offsetB = in.integerOr("offset_b", 0);
  step.outer = readOuter(in);
  step.alpha = in.number("alpha");
  step.tileM = in.integer("tile_m");
  step.tileN = in.integer("tile_n");
  step.epilogue = readEpilogue(in);
  step.compute = in.wordOrFirst<Compute>("compute");
  step.fused = readFused(in);
  return step;
}

static ConvStep readConv(PlanReader &in) {
  in.expectOnly({"op",
                 "name",
                 "others",
                 "kind",
                 "x",
                 "w",
                 "y",
                 "batch",
                 "groups",
                 "in_channels",
                 "out_channels",
                 "in_spatial",
                 "out_spatial",
                 "kernel",
                 "strides",
                 "dilations",
                 "pads_begin",
                 "pads_end",
                 "epilogue",
                 "compute",
                 "filter_layout"});
  // Read the fields unchecked; `verifyGeometry` checks the convolution.
  ConvStep step;
  step.kind = in.word<ConvKind>("kind");
  step.x = in.optionalIndex("x");
  step.w = in.optionalIndex("w");
  step.y = in.optionalIndex("y");
  step.batch = in.integer("batch");
  step.groups = in.integer("groups");
  step.inChannels = in.integer("in_channels");
  step.outChannels = in.integer("out_channels");
  step.inSpatial = in.integers("in_spatial");
  step.outSpatial = in.integers("out_spatial");
  step.kernel = in.integers("kernel");
  step.strides = in.integers("strides");
  step.dilations = in.integers("dilations");
  step.padsBegin = in.integers("pads_begin");
  step.padsEnd = in.integers("pads_end");
  step.epilogue = readEpilogue(in);
  step.compute = in.wordOrFirst<Compute>("compute");
  step.filterLayout = in.wordOrFirst<FilterLayout>("filter_layout");
  return step;
}

static CopyStep readCopy(PlanReader &in) {
  in.expectOnly({"op", "name", "others", "src", "dst", "rows", "offset",
                 "stride", "row_bytes", "to_offset", "to_stride"});
  CopyStep step;
  step.src = in.index("src");
  step.dst = in.index("dst");
  if (!in.has("rows"))
    return step;
  step.strided = StridedRows{in.integer("rows"), in.integer("offset"),
                             in.integer("stride"), std::nullopt};
  if (in.has("row_bytes"))
    step.strided->target =
        RowTarget{in.integer("row_bytes"), in.integer("to_offset"),
                  in.integer("to_stride")};
  return step;
}

static CheckIndicesStep readCheck(PlanReader &in) {
  in.expectOnly({"op", "name", "others", "buffer", "indices"});
  CheckIndicesStep step;
  step.buffer = in.index("buffer");
  step.indices = readBoxes(in);
  return step;
}

static std::vector<Step> readSteps(PlanReader &in, const char *key, int depth);

static IfStep readCondition(PlanReader &in, int depth) {
  in.expectOnly({"op", "name", "predicate", "then", "else"});
  IfStep conditional;
  conditional.predicate = in.index("predicate");
  conditional.then = readSteps(in, "then", depth);
  if (in.has("else"))
    conditional.otherwise = readSteps(in, "else", depth);
  return conditional;
}

static ForStep readLoop(PlanReader &in, int depth) {
  in.expectOnly({"op", "name", "count", "moving", "private", "steps"});
  ForStep loop;
  loop.count = in.integer("count");
  in.each("moving", [&](PlanReader &buffer) {
    buffer.expectOnly({"buffer", "bytes"});
    loop.moving.push_back({buffer.index("buffer"), buffer.integer("bytes")});
  });
  if (in.has("private")) {
    PlanReader memory = in.object("private");
    memory.expectOnly({"offset", "bytes"});
    loop.privateMemory =
        PrivateMemory{memory.integer("offset"), memory.integer("bytes")};
  }
  loop.steps = readSteps(in, "steps", depth);
  return loop;
}

/// Reads one step of a list. `depth` is the depth of lists inside the step, for
/// example of a loop's body.
static Step readStep(PlanReader &in, int depth) {
  const StepKind kind = in.word<StepKind>("op");
  Step step{in.string("name"), {}};
  switch (kind) {
  case StepKind::Launch:
    step.op = readLaunch(in);
    break;
  case StepKind::MatMul:
    step.op = readMatMul(in);
    break;
  case StepKind::Conv:
    step.op = readConv(in);
    break;
  case StepKind::Copy:
    step.op = readCopy(in);
    break;
  case StepKind::CheckIndices:
    step.op = readCheck(in);
    break;
  case StepKind::If:
    step.op = readCondition(in, depth);
    break;
  case StepKind::For:
    step.op = readLoop(in, depth);
    break;
  }
  if (in.has("others"))
    step.others = in.strings("others");
  return step;
}

static std::vector<Step> readSteps(PlanReader &in, const char *key, int depth) {
  std::vector<Step> steps;
  if (depth > kMaxListDepth)
    in.fail("steps are nested too deeply");
  else
    in.each(key, [&](PlanReader &step) {
      steps.push_back(readStep(step, depth + 1));
    });
  return steps;
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
  function.steps = readSteps(in, "steps", 0);
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
