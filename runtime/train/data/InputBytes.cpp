// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/data/InputBytes.h"

#include "runtime/train/data/Dataset.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <set>

namespace mpc::runtime::train {

/// True for labels that are the array of another input, as in an autoencoder:
/// the caller passes the array once, under the input's name.
static bool isArrayOfInput(const Port &port, const FunctionPorts &ports) {
  return std::any_of(
      ports.inputs.begin(), ports.inputs.end(), [&](const Port &input) {
        return port.role == Role::Label && input.role == Role::Data &&
               port.name == input.name + kLabelSuffix;
      });
}

/// Lists the inputs that the caller must pass: "'image', 'target'".
static std::string listInputs(const FunctionPorts &ports) {
  std::string text;
  for (const Port &port : ports.inputs)
    if (isSampled(port) && !isArrayOfInput(port, ports))
      text += (text.empty() ? "'" : ", '") + port.name + "'";
  return text;
}

static StatusOr<Array> toArray(const InputBytes &given, const Port &port) {
  Array array;
  array.name = port.name;
  array.type = toElementType(port.type);
  array.shape = port.shape;
  array.data = static_cast<const std::byte *>(given.bytes);
  const auto whole = size_t(array.bytes());
  const auto axis = size_t(port.batchAxis);
  if (port.batchAxis < 0 || axis >= port.shape.size() || whole == 0) {
    if (given.size == whole)
      return array;
    return invalid("input '" + port.name + "' has " + std::to_string(whole) +
                   " bytes, got " + std::to_string(given.size));
  }
  const size_t sample = whole / size_t(port.shape[axis]);
  if (given.size == 0 || given.size % sample != 0)
    return invalid("input '" + port.name + "' has " + std::to_string(sample) +
                   " bytes a sample, as " + std::string(nameOf(array.type)) +
                   ", expected a multiple, got " + std::to_string(given.size));
  array.shape[axis] = int64_t(given.size / sample);
  return array;
}

StatusOr<std::vector<Array>> toArrays(const std::vector<InputBytes> &given,
                                      const FunctionPorts &ports) {
  std::vector<Array> arrays;
  std::set<std::string> names;
  for (const InputBytes &bytes : given) {
    const Port *port = ports.inputCalled(bytes.name);
    if (!port || !isSampled(*port) || isArrayOfInput(*port, ports))
      return Status(StatusCode::Usage, "no input of samples is called '" +
                                           bytes.name + "', expected " +
                                           listInputs(ports));
    if (!names.insert(bytes.name).second)
      return Status(StatusCode::Usage,
                    "input '" + bytes.name + "' is given twice");
    StatusOr<Array> array = toArray(bytes, *port);
    if (!array.ok())
      return array.status();
    arrays.push_back(std::move(*array));
  }
  for (const Port &port : ports.inputs)
    if (isSampled(port) && !isArrayOfInput(port, ports) &&
        names.count(port.name) == 0)
      return Status(StatusCode::Usage, "input '" + port.name +
                                           "' has no samples, expected " +
                                           listInputs(ports));
  return arrays;
}

Array copySamples(const Array &array, int64_t axis, int64_t begin,
                  int64_t end) {
  assert(axis < int64_t(array.shape.size()) && "an axis of the array");
  // Treat an array without samples as one sample.
  const int64_t samples = axis < 0 ? 1 : array.shape[size_t(axis)];
  if (axis < 0) {
    begin = 0;
    end = 1;
  }
  assert(0 <= begin && begin <= end && end <= samples && "samples");
  // The array is [outer, samples, inner], with `inner` in bytes.
  int64_t outer = 1;
  for (int64_t i = 0; i < axis; ++i)
    outer *= array.shape[size_t(i)];
  const size_t inner =
      array.bytes() == 0 ? 0 : size_t(array.bytes() / (outer * samples));
  const size_t part = size_t(end - begin) * inner;
  auto owner = std::make_shared<std::vector<std::byte>>(size_t(outer) * part);
  for (size_t i = 0; part > 0 && i < size_t(outer); ++i)
    std::memcpy(owner->data() + i * part,
                array.data + (i * size_t(samples) + size_t(begin)) * inner,
                part);
  Array copy = array;
  if (axis >= 0)
    copy.shape[size_t(axis)] = end - begin;
  copy.data = owner->data();
  copy.owner = std::move(owner);
  return copy;
}

} // namespace mpc::runtime::train
