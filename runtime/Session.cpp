// Holds state, inputs and an arena on the device; prepares functions for them.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/Session.h"

#include "runtime/Communicator.h"
#include "runtime/Indices.h"
#include "runtime/InitialState.h"

#include <algorithm>
#include <cassert>
#include <map>

namespace mpc::runtime {
namespace {

/// Staging of one input. `stage` is null until stagingMemory opens one, and
/// remains null if the device supports none.
struct StagedInput {
  std::unique_ptr<InputStage> stage;
  std::byte *memory = nullptr; ///< from stagingMemory; null after stage()
};

/// A function of the artifact, with its memory.
struct FunctionInstance {
  const Function *function = nullptr;
  std::vector<void *> inputs; ///< in the order of Function::inputs
  std::vector<bool> bound;    ///< true for each input that was set
  std::vector<StagedInput> staged;
  std::vector<void *> buffers;
  std::unique_ptr<Executable> executable;
  bool hasRun = false;
};

/// An input of a function instance.
struct InputPlace {
  FunctionInstance *instance;
  size_t index; ///< in Function::inputs

  const FunctionValue &declared() const {
    assert(index < instance->function->inputs.size() && "an input");
    return instance->function->inputs[index];
  }
  const Buffer &buffer() const {
    return instance->function->buffers[declared().buffer];
  }
  StagedInput &staged() const { return instance->staged[index]; }
  /// True if an output of the function is the input's own memory. Staging the
  /// next value would overwrite the output, which the caller may still read.
  bool isReturned() const;
};

bool InputPlace::isReturned() const {
  const Function &function = *instance->function;
  return std::any_of(function.outputs.begin(), function.outputs.end(),
                     [&](const FunctionValue &output) {
                       const Buffer &buffer = function.buffers[output.buffer];
                       return buffer.space == Space::Input &&
                              static_cast<size_t>(buffer.index) == index;
                     });
}

} // namespace

struct Session::Impl {
  ~Impl() {
    // Wait for steps that may still use the memory that is freed below.
    if (device)
      (void)device->synchronize();
    functions.clear();
    for (void *block : allocations)
      if (block)
        device->release(block);
  }

  Status initialize(const SessionOptions &options);
  StatusOr<void *> allocate(size_t bytes);
  Status allocateState();
  Status prepare(const Function &function);
  StatusOr<const StateVariable *> findState(std::string_view name,
                                            void **memory) const;
  StatusOr<FunctionInstance *> find(std::string_view function);
  StatusOr<FunctionInstance *> findBound(std::string_view function);
  template <typename Run>
  Status runBy(std::string_view function, Run &&run);
  StatusOr<size_t> findOutput(const FunctionInstance &instance,
                              std::string_view name) const;
  StatusOr<InputPlace> findInput(std::string_view function,
                                 std::string_view name);

  std::shared_ptr<const Artifact> artifact;
  std::unique_ptr<Device> device;
  std::vector<void *> allocations;
  size_t allocatedBytes = 0;
  uint64_t seed = 0;
  const void *constants = nullptr;
  Communicator *communicator = nullptr;
  std::optional<StateShares> shares;
  /// In the order of Plan::state; null for a variable of another rank.
  std::vector<void *> state;
  void *arena = nullptr;
  size_t arenaBytes = 0;
  std::map<std::string, FunctionInstance, std::less<>> functions;
  /// the function whose outputs are in the arena
  const FunctionInstance *lastRun = nullptr;
};

//===----------------------------------------------------------------------===//
// Creation
//===----------------------------------------------------------------------===//

StatusOr<void *> Session::Impl::allocate(size_t bytes) {
  assert(device && "the device is opened first");
  // Grow the list first: if that throws, no memory is lost.
  allocations.push_back(nullptr);
  StatusOr<void *> memory = device->allocate(bytes);
  if (memory.ok()) {
    allocations.back() = *memory;
    allocatedBytes += bytes;
  }
  return memory;
}

Status Session::Impl::allocateState() {
  assert(state.empty() && "state is allocated once");
  for (const StateVariable &variable : artifact->plan().state) {
    if (!shares->holds(variable)) {
      state.push_back(nullptr);
      continue;
    }
    StatusOr<void *> memory = allocate(static_cast<size_t>(variable.bytes));
    if (!memory.ok())
      return memory.status();
    state.push_back(*memory);
  }
  return Status();
}

Status Session::Impl::prepare(const Function &function) {
  assert(!functions.count(function.name) && "a function is prepared once");
  FunctionInstance instance;
  instance.function = &function;
  // Each input has its own memory, which keeps the value between runs.
  for (const FunctionValue &input : function.inputs) {
    StatusOr<void *> memory =
        allocate(static_cast<size_t>(function.buffers[input.buffer].bytes));
    if (!memory.ok())
      return memory.status();
    instance.inputs.push_back(*memory);
  }
  instance.bound.resize(instance.inputs.size());
  instance.staged.resize(instance.inputs.size());

  // All other buffers lie in memory that the functions share.
  for (const Buffer &buffer : function.buffers) {
    assert((buffer.space != Space::State || buffer.index < state.size()) &&
           (buffer.space != Space::Input ||
            buffer.index < instance.inputs.size()) &&
           "the plan was verified");
    void *base = nullptr;
    switch (buffer.space) {
    case Space::Arena:
      assert(buffer.offset >= 0 && buffer.bytes >= 0 &&
             size_t(buffer.offset + buffer.bytes) <= arenaBytes &&
             "a buffer lies inside the arena");
      base = arena;
      break;
    case Space::State:
      base = state[buffer.index];
      break;
    case Space::Input:
      base = instance.inputs[buffer.index];
      break;
    case Space::Constant:
      // No step writes constants, so the cast is safe: the verifier has checked
      // the written operands of all steps. It cannot check a kernel's code.
      base = const_cast<void *>(constants);
      break;
    }
    // Steps on variables of other ranks are skipped.
    instance.buffers.push_back(
        base ? static_cast<std::byte *>(base) + buffer.offset : nullptr);
  }

  // The addresses must not change from here on: a GPU captures them in a graph.
  StatusOr<std::unique_ptr<Executable>> executable =
      device->prepare(*artifact, function, instance.buffers);
  if (!executable.ok())
    return executable.status();
  instance.executable = std::move(*executable);
  assert(instance.buffers.size() == function.buffers.size() &&
         instance.executable && "a function has all it needs to run");
  functions.emplace(function.name, std::move(instance));
  return Status();
}

Status Session::Impl::initialize(const SessionOptions &options) {
  seed = options.seed;
  communicator = options.communicator;
  if (communicator)
    shares.emplace(artifact->plan(), communicator->rank(),
                   communicator->size());
  else
    shares.emplace(artifact->plan());
  StatusOr<std::unique_ptr<Device>> opened = Device::create(options, *artifact);
  if (!opened.ok())
    return opened.status();
  device = std::move(*opened);

  // The device reads constants from the mapped artifact if possible.
  StatusOr<const void *> mapped = device->mapConstants(
      artifact->data(), static_cast<size_t>(artifact->plan().constantBytes));
  if (!mapped.ok())
    return mapped.status();
  constants = *mapped;
  if (Status status = allocateState(); !status.ok())
    return status;
  if (Status status =
          InitialState{*artifact, seed, /*isZero=*/true}.upload(state, *device);
      !status.ok())
    return status;

  // One arena serves all functions, since only one runs at a time.
  arenaBytes = static_cast<size_t>(artifact->plan().activationBytes());
  StatusOr<void *> memory = allocate(arenaBytes);
  if (!memory.ok())
    return memory.status();
  arena = *memory;

  for (const auto &[name, function] : artifact->plan().functions)
    if (Status status = prepare(function); !status.ok())
      return status;
  return Status();
}

StatusOr<std::unique_ptr<Session>>
Session::create(std::shared_ptr<const Artifact> artifact,
                const SessionOptions &options) {
  auto impl = std::make_unique<Impl>();
  impl->artifact = std::move(artifact);
  if (Status status = impl->initialize(options); !status.ok())
    return status;
  std::unique_ptr<Session> session(new Session(std::move(impl)));
  // All ranks derive together, and another rank may fail here.
  if (session->shares().isSharded())
    return session;
  if (Status status = session->derive(); !status.ok())
    return status;
  return session;
}

Session::Session(std::unique_ptr<Impl> impl) : impl(std::move(impl)) {}
Session::~Session() = default;

const Artifact &Session::artifact() const { return *impl->artifact; }

//===----------------------------------------------------------------------===//
// Names
//===----------------------------------------------------------------------===//

StatusOr<FunctionInstance *> Session::Impl::find(std::string_view name) {
  auto it = functions.find(name);
  if (it != functions.end())
    return &it->second;
  std::string known;
  for (const auto &[other, instance] : functions)
    known += (known.empty() ? "'" : ", '") + other + "'";
  return unknownName("function", name, known.empty() ? "none" : known);
}

StatusOr<const StateVariable *> Session::Impl::findState(std::string_view name,
                                                         void **memory) const {
  const std::vector<StateVariable> &variables = artifact->plan().state;
  const StateVariable *variable = artifact->plan().findState(name);
  if (!variable)
    return unknownName("state variable", name, listNames(variables));
  if (!shares->holds(*variable))
    return Status(StatusCode::Usage,
                  "state variable '" + std::string(name) + "' is on rank " +
                      std::to_string(*shares->ownerOf(*variable)) +
                      ", this is rank " + std::to_string(communicator->rank()));
  *memory = state[static_cast<size_t>(variable - variables.data())];
  return variable;
}

StatusOr<InputPlace> Session::Impl::findInput(std::string_view function,
                                              std::string_view name) {
  StatusOr<FunctionInstance *> found = find(function);
  if (!found.ok())
    return found.status();
  const Function &declared = *(*found)->function;
  const FunctionValue *input = declared.findInput(name);
  if (!input)
    return unknownName("input of '" + declared.name + "' called", name,
                       listNames(declared.inputs));
  return InputPlace{*found,
                    static_cast<size_t>(input - declared.inputs.data())};
}

//===----------------------------------------------------------------------===//
// Running
//===----------------------------------------------------------------------===//

static Status typeMismatch(const std::string &what, DType type,
                           const Shape &shape, const Tensor &value) {
  return Status(StatusCode::InvalidInput, what + " is " +
                                              std::string(nameOf(type)) + " " +
                                              toString(shape) + ", got " +
                                              std::string(nameOf(value.type)) +
                                              " " + toString(value.shape));
}

Status Session::setInput(std::string_view function, std::string_view name,
                         const Tensor &value) {
  StatusOr<InputPlace> input = impl->findInput(function, name);
  if (!input.ok())
    return input.status();
  const Buffer &buffer = input->buffer();
  if (value.type != buffer.type || value.shape != buffer.shape)
    return typeMismatch("input '" + input->declared().name + "'", buffer.type,
                        buffer.shape, value);
  return setInput(function, name, value.bytes.data(), value.bytes.size());
}

/// Checks that the indices and labels in `bytes`, a value of the input, are in
/// range.
static Status checkInputIndices(const InputPlace &input, const void *bytes) {
  const Buffer &buffer = input.buffer();
  Status status =
      checkIndices(buffer.type, bytes, buffer.shape, input.declared().indices);
  return status.ok()
             ? status
             : Status(status.getCode(), "input '" + input.declared().name +
                                            "', " + status.message());
}

Status Session::setInput(std::string_view function, std::string_view name,
                         const void *bytes, size_t size) {
  StatusOr<InputPlace> found = impl->findInput(function, name);
  if (!found.ok())
    return found.status();
  // Raw bytes have no type or shape to compare; check their size and indices.
  const InputPlace &input = *found;
  auto expected = static_cast<size_t>(input.buffer().bytes);
  if (size != expected)
    return Status(StatusCode::InvalidInput,
                  "input '" + input.declared().name + "' has " +
                      std::to_string(expected) + " bytes, got " +
                      std::to_string(size));
  if (Status status = checkInputIndices(input, bytes); !status.ok())
    return status;
  input.instance->bound[input.index] = true;
  return impl->device->upload(input.instance->inputs[input.index], bytes, size);
}

StatusOr<std::byte *> Session::stagingMemory(std::string_view function,
                                             std::string_view name) {
  StatusOr<InputPlace> input = impl->findInput(function, name);
  if (!input.ok())
    return input.status();
  StagedInput &staged = input->staged();
  staged.memory = nullptr;
  if (!staged.stage && !input->isReturned()) {
    StatusOr<std::unique_ptr<InputStage>> opened =
        impl->device->openStage(input->instance->inputs[input->index],
                                static_cast<size_t>(input->buffer().bytes));
    if (!opened.ok())
      return opened.status();
    staged.stage = std::move(*opened);
  }
  if (!staged.stage)
    return static_cast<std::byte *>(nullptr);
  StatusOr<std::byte *> memory = staged.stage->memory();
  if (memory.ok())
    staged.memory = *memory;
  return memory;
}

Status Session::stage(std::string_view function, std::string_view name) {
  StatusOr<InputPlace> input = impl->findInput(function, name);
  if (!input.ok())
    return input.status();
  StagedInput &staged = input->staged();
  if (!staged.memory)
    return Status(StatusCode::Usage, "input '" + input->declared().name +
                                         "' is staged before its memory was "
                                         "asked for");
  if (Status status = checkInputIndices(*input, staged.memory); !status.ok())
    return status;
  assert(staged.stage && "staging memory belongs to a stage");
  staged.memory = nullptr;
  Status status = staged.stage->send();
  if (status.ok())
    input->instance->bound[input->index] = true;
  return status;
}

void Session::endStaging(std::string_view function) {
  StatusOr<FunctionInstance *> found = impl->find(function);
  if (!found.ok())
    return;
  // Wait for copies that may still use the memory that is freed below.
  (void)impl->device->synchronize();
  for (StagedInput &staged : (*found)->staged)
    staged = StagedInput();
}

/// Returns the function's instance. A Usage error if an input was not set.
StatusOr<FunctionInstance *>
Session::Impl::findBound(std::string_view function) {
  StatusOr<FunctionInstance *> found = find(function);
  if (!found.ok())
    return found;
  FunctionInstance &instance = **found;
  for (size_t i = 0; i < instance.bound.size(); ++i)
    if (!instance.bound[i])
      return Status(StatusCode::Usage,
                    "input '" + instance.function->inputs[i].name + "' of '" +
                        instance.function->name + "' was not set");
  return found;
}

/// Calls `run` with the function's Executable. If it succeeds, the function's
/// outputs become readable.
template <typename Run>
Status Session::Impl::runBy(std::string_view function, Run &&run) {
  StatusOr<FunctionInstance *> found = findBound(function);
  if (!found.ok())
    return found.status();
  FunctionInstance &instance = **found;
  // The run overwrites the arena even if it fails, so no outputs are readable.
  lastRun = nullptr;
  if (Status status = run(*instance.executable); !status.ok())
    return status;
  lastRun = &instance;
  instance.hasRun = true;
  return Status();
}

Status Session::run(std::string_view function) {
  return impl->runBy(function,
                     [](Executable &executable) { return executable.run(); });
}

Status Session::runTimed(std::string_view function,
                         std::vector<double> &seconds) {
  return impl->runBy(function, [&](Executable &executable) {
    return executable.runTimed(seconds);
  });
}

StatusOr<std::optional<NonFiniteOrigin>>
Session::trace(std::string_view function) {
  StatusOr<FunctionInstance *> found = impl->findBound(function);
  if (!found.ok())
    return found.status();
  FunctionInstance &instance = **found;
  impl->lastRun = nullptr;
  // Clear the arena, since the trace would take values of an earlier run for
  // values of this run.
  const std::vector<std::byte> zeros(impl->arenaBytes);
  if (Status status =
          impl->device->upload(impl->arena, zeros.data(), zeros.size());
      !status.ok())
    return status;
  StatusOr<NonFiniteTrace> trace =
      NonFiniteTrace::start(impl->artifact->plan(), *instance.function,
                            instance.buffers, impl->state, *impl->device);
  if (!trace.ok())
    return trace.status();
  if (Status status = instance.executable->run(*trace); !status.ok())
    return status;
  impl->lastRun = &instance;
  instance.hasRun = true;
  return trace->origin();
}

/// Returns the index of the output `name` in Function::buffers. A Usage error
/// if there is no such output, or if it is not readable now.
StatusOr<size_t> Session::Impl::findOutput(const FunctionInstance &instance,
                                           std::string_view name) const {
  const Function &declared = *instance.function;
  const FunctionValue *output = declared.findOutput(name);
  if (!output)
    return unknownName("output of '" + declared.name + "' called", name,
                       listNames(declared.outputs));
  // Functions share the arena, so outputs there belong to the function that ran
  // last.
  const Buffer &buffer = declared.buffers[output->buffer];
  bool there =
      buffer.space == Space::Arena ? lastRun == &instance : instance.hasRun;
  if (!there)
    return Status(StatusCode::Usage,
                  "output '" + output->name + "' is read before '" +
                      declared.name + "' ran, or after another function did");
  return output->buffer;
}

StatusOr<Tensor> Session::output(std::string_view function,
                                 std::string_view name) {
  StatusOr<std::vector<Tensor>> values = outputs(function, {name});
  if (!values.ok())
    return values.status();
  return std::move(values->front());
}

StatusOr<std::vector<Tensor>>
Session::outputs(std::string_view function,
                 const std::vector<std::string_view> &names) {
  StatusOr<FunctionInstance *> found = impl->find(function);
  if (!found.ok())
    return found.status();
  FunctionInstance &instance = **found;
  std::vector<Tensor> values;
  std::vector<const void *> places;
  for (std::string_view name : names) {
    StatusOr<size_t> index = impl->findOutput(instance, name);
    if (!index.ok())
      return index.status();
    const Buffer &buffer = instance.function->buffers[*index];
    assert(instance.hasRun && "findOutput refuses outputs before a run");
    values.push_back(Tensor::zeros(buffer.type, buffer.shape));
    places.push_back(instance.buffers[*index]);
  }
  assert(values.size() == places.size() && "a place per output");
  std::vector<Device::Download> blocks;
  for (size_t i = 0; i < values.size(); ++i)
    blocks.push_back(
        {values[i].bytes.data(), places[i], values[i].bytes.size()});
  Status status = impl->device->download(blocks);
  if (!status.ok())
    return status;
  return values;
}

//===----------------------------------------------------------------------===//
// State
//===----------------------------------------------------------------------===//

const StateShares &Session::shares() const { return *impl->shares; }

Communicator *Session::communicator() const { return impl->communicator; }

StatusOr<Tensor> Session::state(std::string_view name) {
  void *memory = nullptr;
  StatusOr<const StateVariable *> found = impl->findState(name, &memory);
  if (!found.ok())
    return found.status();
  const StateVariable &variable = **found;
  Tensor value = Tensor::zeros(variable.type, variable.shape);
  Status status = impl->device->download(value.bytes.data(), memory,
                                         static_cast<size_t>(variable.bytes));
  if (!status.ok())
    return status;
  return value;
}

StatusOr<const std::byte *> Session::stateInPlace(std::string_view name) {
  void *memory = nullptr;
  StatusOr<const StateVariable *> found = impl->findState(name, &memory);
  if (!found.ok())
    return found.status();
  return static_cast<const std::byte *>(impl->device->hostView(memory));
}

Status Session::setState(std::string_view name, const Tensor &value) {
  void *memory = nullptr;
  StatusOr<const StateVariable *> found = impl->findState(name, &memory);
  if (!found.ok())
    return found.status();
  const StateVariable &variable = **found;
  if (value.type != variable.type || value.shape != variable.shape)
    return typeMismatch("state variable '" + variable.name + "'", variable.type,
                        variable.shape, value);
  return impl->device->upload(memory, value.bytes.data(), value.bytes.size());
}

Status Session::reset() {
  if (Status status =
          InitialState{*impl->artifact, impl->seed, /*isZero=*/false}.upload(
              impl->state, *impl->device);
      !status.ok())
    return status;
  return derive();
}

Status Session::derive() {
  if (!impl->artifact->plan().findFunction(kDeriveFunction))
    return Status();
  Status status = run(kDeriveFunction);
  // A caller that waits for other ranks would miss a failed exchange on a GPU.
  return status.ok() && impl->shares->isSharded() ? impl->device->synchronize()
                                                  : status;
}

size_t Session::memoryBytes() const {
  return impl->allocatedBytes + impl->device->scratchBytes();
}

} // namespace mpc::runtime
