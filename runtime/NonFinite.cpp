// Traces non-finite values by comparing memory before and after each step.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/NonFinite.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>

namespace mpc::runtime {

//===----------------------------------------------------------------------===//
// Elements
//===----------------------------------------------------------------------===//

/// True if element `index` is NaN or infinite: all bits of `exponent`, the mask
/// of the type's exponent, are set.
template <typename Bits>
static bool isNonFinite(const std::byte *elements, int64_t index,
                        Bits exponent) {
  Bits bits;
  std::memcpy(&bits, elements + index * int64_t(sizeof(bits)), sizeof(bits));
  return (bits & exponent) == exponent;
}

static bool isNonFinite(DType type, const std::byte *elements, int64_t index) {
  switch (type) {
  case DType::F16:
    return isNonFinite<uint16_t>(elements, index, 0x7c00);
  case DType::BF16:
    return isNonFinite<uint16_t>(elements, index, 0x7f80);
  case DType::F32:
    return isNonFinite<uint32_t>(elements, index, 0x7f800000);
  case DType::F64:
    return isNonFinite<uint64_t>(elements, index, 0x7ff0000000000000);
  default:
    return false;
  }
}

std::optional<int64_t> findNonFinite(DType type, const std::byte *elements,
                                     int64_t count) {
  if (!isFloat(type))
    return std::nullopt;
  for (int64_t i = 0; i < count; ++i)
    if (isNonFinite(type, elements, i))
      return i;
  return std::nullopt;
}

std::string describeElement(DType type, const Shape &shape,
                            const std::byte *elements, int64_t index) {
  assert(index >= 0 && index < numElements(shape) && "an element");
  Tensor element = Tensor::zeros(type, {});
  const int64_t size = sizeOf(type);
  std::memcpy(element.bytes.data(), elements + index * size, size_t(size));
  std::string text = "not finite";
  if (StatusOr<Tensor> wide = convert(element, DType::F64); wide.ok()) {
    const double value = *wide->as<double>();
    text = std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
  }
  std::string place;
  for (size_t axis = shape.size(); axis-- > 0; index /= shape[axis])
    place = std::to_string(index % shape[axis]) +
            (place.empty() ? "" : ", " + place);
  return place.empty() ? text : text + " at [" + place + "]";
}

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

/// Returns the step's float buffers, except constants: the model has infinities
/// in constants on purpose, such as masks of -inf.
std::vector<size_t> NonFiniteTrace::floatsOf(const Step &step) const {
  std::vector<size_t> list = listBuffers(step);
  std::sort(list.begin(), list.end());
  list.erase(std::unique(list.begin(), list.end()), list.end());
  list.erase(std::remove_if(list.begin(), list.end(),
                            [&](size_t index) {
                              const Buffer &buffer = function.buffers[index];
                              return buffer.space == Space::Constant ||
                                     !isFloat(buffer.type);
                            }),
             list.end());
  return list;
}

//===----------------------------------------------------------------------===//
// The trace
//===----------------------------------------------------------------------===//

StatusOr<std::vector<std::byte>>
NonFiniteTrace::read(const Buffer &buffer, const void *address) const {
  std::vector<std::byte> bytes(static_cast<size_t>(buffer.bytes));
  if (Status status = device.download(bytes.data(), address, bytes.size());
      !status.ok())
    return status;
  return bytes;
}

/// Returns the first recorded region of non-finite values that overlaps the
/// `bytes` bytes at `address`; null if there is none.
const NonFiniteTrace::Region *NonFiniteTrace::regionAt(const void *address,
                                                       int64_t bytes) const {
  const auto *begin = static_cast<const std::byte *>(address);
  for (const Region &region : regions)
    if (region.begin < begin + bytes && begin < region.end)
      return &region;
  return nullptr;
}

void NonFiniteTrace::erase(std::vector<Region> &regions, const void *address,
                           int64_t bytes) {
  const auto *begin = static_cast<const std::byte *>(address);
  regions.erase(std::remove_if(regions.begin(), regions.end(),
                               [&](const Region &region) {
                                 return region.begin >= begin &&
                                        region.end <= begin + bytes;
                               }),
                regions.end());
}

void NonFiniteTrace::forget(const void *address, int64_t bytes) {
  erase(regions, address, bytes);
}

//===----------------------------------------------------------------------===//
// Nodes that an overflow of float16 concerns
//===----------------------------------------------------------------------===//

/// True if the step is a launch whose kernel reads the buffer. Tells a value
/// that a kernel updates in place from memory that the kernel only overwrites.
bool NonFiniteTrace::reads(const Step &step, size_t buffer) const {
  const auto *launch = std::get_if<LaunchStep>(&step.op);
  const auto kernel =
      launch ? plan.kernels.find(launch->kernel) : plan.kernels.end();
  if (kernel == plan.kernels.end())
    return false;
  const auto end = launch->args.begin() +
                   std::ptrdiff_t(std::min(kernel->second.reads.size(),
                                           launch->args.size()));
  return std::find(launch->args.begin(), end, buffer) != end;
}

void NonFiniteTrace::noteNodes(size_t origin, const Step &step) {
  std::vector<std::string> &nodes = origins[origin].nodes;
  const auto add = [&](const std::string &name) {
    if (std::find(nodes.begin(), nodes.end(), name) == nodes.end())
      nodes.push_back(name);
  };
  add(step.name);
  for (const std::string &other : step.others)
    add(other);
}

/// Adds the step to the nodes of each origin that has a watched value in the
/// buffer.
void NonFiniteTrace::noteReader(const Step &step, size_t buffer) {
  const auto *begin = static_cast<const std::byte *>(buffers[buffer]);
  const std::byte *end = begin + function.buffers[buffer].bytes;
  for (const Region &region : watched)
    if (region.begin < end && begin < region.end)
      noteNodes(region.origin, step);
}

/// Watches the f32 operands that have a finite element beyond float16. Their
/// other readers would overflow next.
void NonFiniteTrace::watchLarge(size_t origin,
                                const std::vector<size_t> &operands) {
  constexpr float kLargestFloat16 = 65504;
  for (size_t i = 0; i < operands.size(); ++i) {
    const Buffer &buffer = function.buffers[operands[i]];
    if (buffer.type != DType::F32)
      continue;
    bool isLarge = false;
    for (int64_t k = 0, n = numElements(buffer.shape); k < n && !isLarge; ++k) {
      float element;
      std::memcpy(&element, snapshots[i].data() + k * int64_t(sizeof element),
                  sizeof element);
      isLarge = std::isfinite(element) && std::abs(element) > kLargestFloat16;
    }
    const auto *begin = static_cast<const std::byte *>(buffers[operands[i]]);
    if (isLarge)
      watched.push_back({begin, begin + buffer.bytes, origin});
  }
}

//===----------------------------------------------------------------------===//
// Steps of the run
//===----------------------------------------------------------------------===//

Status NonFiniteTrace::noteInitial(const std::string &what,
                                   const Buffer &buffer, const void *address) {
  StatusOr<std::vector<std::byte>> bytes = read(buffer, address);
  if (!bytes.ok())
    return bytes.status();
  const int64_t count = numElements(buffer.shape);
  const auto found = findNonFinite(buffer.type, bytes->data(), count);
  if (!found)
    return Status();
  NonFiniteOrigin origin;
  origin.text =
      what + " is " +
      describeElement(buffer.type, buffer.shape, bytes->data(), *found);
  const auto *begin = static_cast<const std::byte *>(address);
  regions.push_back({begin, begin + buffer.bytes, origins.size()});
  origins.push_back(std::move(origin));
  return Status();
}

StatusOr<NonFiniteTrace>
NonFiniteTrace::start(const Plan &plan, const Function &function,
                      const std::vector<void *> &buffers,
                      const std::vector<void *> &state, Device &device) {
  assert(buffers.size() == function.buffers.size() &&
         state.size() == plan.state.size() &&
         "an address per buffer and per variable");
  NonFiniteTrace trace(plan, function, buffers, device);
  // Record inputs that are not finite before the run.
  for (const FunctionValue &input : function.inputs)
    if (Status status = trace.noteInitial("input '" + input.name + "'",
                                          function.buffers[input.buffer],
                                          buffers[input.buffer]);
        !status.ok())
      return status;
  // Record state too, with the role in words: "optimizer state 'w.m'".
  for (size_t i = 0; i < plan.state.size(); ++i) {
    const StateVariable &variable = plan.state[i];
    // The variable lies in the memory of another rank.
    if (!state[i])
      continue;
    Buffer whole;
    whole.type = variable.type;
    whole.shape = variable.shape;
    whole.bytes = variable.bytes;
    std::string role(stringify(variable.role));
    std::replace(role.begin(), role.end(), '_', ' ');
    if (Status status = trace.noteInitial(role + " '" + variable.name + "'",
                                          whole, state[i]);
        !status.ok())
      return status;
  }
  return trace;
}

void NonFiniteTrace::move(size_t buffer, int64_t bytes) {
  buffers[buffer] = static_cast<std::byte *>(buffers[buffer]) + bytes;
}

Status NonFiniteTrace::before(const Step &step) {
  snapshots.clear();
  readOrigin.reset();
  for (size_t index : floatsOf(step)) {
    const Buffer &buffer = function.buffers[index];
    StatusOr<std::vector<std::byte>> bytes = read(buffer, buffers[index]);
    if (!bytes.ok())
      return bytes.status();
    if (const Region *region = regionAt(buffers[index], buffer.bytes))
      if (findNonFinite(buffer.type, bytes->data(), numElements(buffer.shape)))
        readOrigin = region->origin;
    snapshots.push_back(std::move(*bytes));
  }
  return Status();
}

// Returns "node 'a' gives " or "the kernel of nodes 'a', 'b' and 'c' gives ". A
// fused kernel cannot be divided: the values between its nodes never were in
// memory.
static std::string subjectOf(const Step &step) {
  if (step.others.empty())
    return "node '" + step.name + "' gives ";
  std::string text = "the kernel of nodes '" + step.name + "'";
  for (const std::string &other : step.others)
    text += (&other == &step.others.back() ? " and '" : ", '") + other + "'";
  return text + " gives ";
}

Status NonFiniteTrace::after(const Step &step) {
  const std::vector<size_t> operands = floatsOf(step);
  for (size_t i = 0; i < operands.size(); ++i) {
    // Skip buffers whose contents equal the snapshot: the step did not change
    // them.
    const Buffer &buffer = function.buffers[operands[i]];
    const void *address = buffers[operands[i]];
    StatusOr<std::vector<std::byte>> bytes = read(buffer, address);
    if (!bytes.ok())
      return bytes.status();
    const std::vector<std::byte> &then = snapshots[i];
    if (*bytes == then) { // read only, or written with equal values
      noteReader(step, operands[i]);
      continue;
    }
    if (reads(step, operands[i]))
      noteReader(step, operands[i]);
    erase(watched, address, buffer.bytes);
    // Find the first element that the step made non-finite.
    const int64_t count = numElements(buffer.shape), size = sizeOf(buffer.type);
    int64_t first = 0;
    while (first < count &&
           (!isNonFinite(buffer.type, bytes->data(), first) ||
            std::memcmp(bytes->data() + first * size,
                        then.data() + first * size, size_t(size)) == 0))
      ++first;
    // Drop the regions recorded for this memory: the step has overwritten it. A
    // step that works in place may leave old non-finite elements.
    const Region *old = regionAt(address, buffer.bytes);
    const std::optional<size_t> oldOrigin =
        old ? std::optional(old->origin) : std::nullopt;
    forget(address, buffer.bytes);
    const auto *begin = static_cast<const std::byte *>(address);
    if (first == count) {
      if (oldOrigin && findNonFinite(buffer.type, bytes->data(), count))
        regions.push_back({begin, begin + buffer.bytes, *oldOrigin});
      continue;
    }
    // A step that read only finite values is the origin. Record the
    // element's index along the first axis, which is often the sample.
    if (!readOrigin) {
      NonFiniteOrigin origin;
      origin.text =
          subjectOf(step) +
          describeElement(buffer.type, buffer.shape, bytes->data(), first) +
          " of " + std::string(nameOf(buffer.type)) + " " +
          toString(buffer.shape);
      origin.isReceived = isExchange(step);
      origin.isFloat16 = buffer.type == DType::F16 && !origin.isReceived;
      if (!buffer.shape.empty()) {
        origin.rows = buffer.shape[0];
        origin.row = first / (count / origin.rows);
      }
      readOrigin = origins.size();
      origins.push_back(std::move(origin));
      if (origins.back().isFloat16) {
        noteNodes(*readOrigin, step);
        watchLarge(*readOrigin, operands);
        const auto *value = static_cast<const std::byte *>(address);
        watched.push_back({value, value + buffer.bytes, *readOrigin});
      }
    }
    // Later steps that read this memory share the origin.
    regions.push_back({begin, begin + buffer.bytes, *readOrigin});
    lastWritten = readOrigin;
  }
  return Status();
}

StatusOr<std::optional<NonFiniteOrigin>> NonFiniteTrace::origin() {
  bool foundInf = false;
  const Region *other = nullptr;
  for (const FunctionValue &output : function.outputs) {
    const Buffer &buffer = function.buffers[output.buffer];
    const void *address = buffers[output.buffer];
    StatusOr<std::vector<std::byte>> bytes = read(buffer, address);
    if (!bytes.ok())
      return bytes.status();
    if (output.role == Role::Finite && !bytes->empty())
      foundInf = foundInf || (*bytes)[0] == std::byte(0);
    if (!findNonFinite(buffer.type, bytes->data(), numElements(buffer.shape)))
      continue;
    const Region *region = regionAt(address, buffer.bytes);
    if (region && output.role == Role::Loss)
      return std::optional<NonFiniteOrigin>(origins[region->origin]);
    other = other ? other : region;
  }
  // The loss is finite. Look for another output that is not finite, then for
  // state. If a skipped update kept the state finite, take the last non-finite
  // value written.
  if (other)
    return std::optional<NonFiniteOrigin>(origins[other->origin]);
  for (const Buffer &buffer : function.buffers)
    if (buffer.space == Space::State && lastWritten)
      if (const Region *region = regionAt(
              buffers[size_t(&buffer - function.buffers.data())], buffer.bytes))
        return std::optional<NonFiniteOrigin>(origins[region->origin]);
  if (foundInf && lastWritten)
    return std::optional<NonFiniteOrigin>(origins[*lastWritten]);
  return std::optional<NonFiniteOrigin>();
}

} // namespace mpc::runtime
