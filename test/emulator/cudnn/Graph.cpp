// SPDX-License-Identifier: Apache-2.0
#include "test/emulator/cudnn/Graph.h"

#include "test/emulator/Element.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>

using namespace mpc;
using namespace mpc::emulator;

namespace {

constexpr size_t kRank = 4;
using Extents = std::array<int64_t, kRank>;

/// All elements of a tensor in row-major order. f32 holds each value of the
/// types: indices are below 2^24, and booleans are 0 or 1.
struct Values {
  Extents dims;
  std::vector<float> elements;

  explicit Values(const GraphTensor &tensor) {
    std::copy(tensor.dims.begin(), tensor.dims.end(), dims.begin());
    elements.resize(static_cast<size_t>(dims[0] * dims[1] * dims[2] * dims[3]));
  }

  size_t offset(const Extents &at) const {
    int64_t offset = 0;
    for (size_t axis = 0; axis < kRank; ++axis)
      offset = offset * dims[axis] + at[axis];
    return static_cast<size_t>(offset);
  }

  template <class F>
  void forEach(F f) {
    Extents at;
    size_t i = 0;
    for (at[0] = 0; at[0] < dims[0]; ++at[0])
      for (at[1] = 0; at[1] < dims[1]; ++at[1])
        for (at[2] = 0; at[2] < dims[2]; ++at[2])
          for (at[3] = 0; at[3] < dims[3]; ++at[3])
            f(elements[i++], at);
  }
};

uint64_t memoryOffset(const GraphTensor &tensor, const Extents &at) {
  int64_t offset = 0;
  for (size_t axis = 0; axis < kRank; ++axis)
    offset += at[axis] * tensor.strides[axis];
  return static_cast<uint64_t>(offset);
}

bool isFloat(cudnnDataType_t type) {
  return type == CUDNN_DATA_FLOAT || type == CUDNN_DATA_HALF ||
         type == CUDNN_DATA_BFLOAT16;
}

Element elementOf(cudnnDataType_t type) {
  return type == CUDNN_DATA_HALF       ? Element::F16
         : type == CUDNN_DATA_BFLOAT16 ? Element::BF16
                                       : Element::F32;
}

/// The value that remains of `value` in a tensor of this type.
float round(float value, cudnnDataType_t type) {
  if (!isFloat(type))
    return value;
  uint64_t bits = 0;
  store(&bits, 0, elementOf(type), value);
  return load<float>(&bits, 0, elementOf(type));
}

//===----------------------------------------------------------------------===//
// Faults
//===----------------------------------------------------------------------===//

size_t countOperands(int mode) {
  switch (mode) {
  case CUDNN_POINTWISE_EXP:
  case CUDNN_POINTWISE_LOG:
  case CUDNN_POINTWISE_GEN_INDEX:
    return 1;
  case CUDNN_POINTWISE_ADD:
  case CUDNN_POINTWISE_MUL:
  case CUDNN_POINTWISE_DIV:
  case CUDNN_POINTWISE_SUB:
  case CUDNN_POINTWISE_CMP_GE:
    return 2;
  case CUDNN_POINTWISE_BINARY_SELECT:
    return 3;
  default:
    return 0;
  }
}

std::string checkPointwise(const GraphOperation &op) {
  const size_t count = countOperands(op.mode);
  if (count == 0)
    return "elementwise mode " + std::to_string(op.mode) + " is not emulated";
  if (op.operands.size() != count)
    return "an elementwise operation has a wrong number of operands";
  if ((op.mode == CUDNN_POINTWISE_GEN_INDEX) !=
      (op.axis >= 0 && op.axis < int64_t(kRank)))
    return "an index has no axis, or another operation has one";
  for (const GraphTensor &operand : op.operands)
    for (size_t axis = 0; axis < kRank; ++axis)
      if (operand.dims[axis] != op.result.dims[axis] && operand.dims[axis] != 1)
        return "an elementwise operand does not broadcast";
  const bool isBoolean = op.mode == CUDNN_POINTWISE_CMP_GE;
  if (isBoolean != (op.result.type == CUDNN_DATA_BOOLEAN) ||
      (op.mode == CUDNN_POINTWISE_BINARY_SELECT &&
       op.operands[2].type != CUDNN_DATA_BOOLEAN))
    return "a comparison gives booleans, which a select takes";
  return "";
}

std::string checkMatMul(const GraphOperation &op) {
  const auto &a = op.operands[0].dims, &b = op.operands[1].dims;
  const auto &c = op.result.dims;
  // Several heads of a may share a head of b.
  if (a[0] != c[0] || b[0] != c[0] || a[1] != c[1] || c[1] % b[1] != 0 ||
      a[2] != c[2] || b[3] != c[3] || a[3] != b[2])
    return "the extents of a product do not match";
  for (const GraphTensor *each : {&op.operands[0], &op.operands[1], &op.result})
    if (!isFloat(each->type))
      return "a product takes floats";
  return "";
}

std::string checkReduction(const GraphOperation &op) {
  if (op.mode != CUDNN_REDUCE_TENSOR_ADD && op.mode != CUDNN_REDUCE_TENSOR_MAX)
    return "reduction " + std::to_string(op.mode) + " is not emulated";
  for (size_t axis = 0; axis < kRank; ++axis)
    if (op.operands[0].dims[axis] % op.result.dims[axis] != 0)
      return "the extents of a reduction do not match";
  return "";
}

std::string checkReshape(const GraphOperation &op) {
  const GraphTensor &x = op.operands[0], &y = op.result;
  if (x.elements() != y.elements() || x.reach() != y.reach())
    return "a reshape changes the number of elements";
  return "";
}

std::string checkOperation(const GraphOperation &op) {
  for (const GraphTensor &operand : op.operands)
    if (operand.dims.size() != kRank)
      return "a tensor has not four dimensions";
  if (op.result.dims.size() != kRank)
    return "a tensor has not four dimensions";
  switch (op.kind) {
  case GraphOperation::MatMul:
    return checkMatMul(op);
  case GraphOperation::Pointwise:
    return checkPointwise(op);
  case GraphOperation::Reduction:
    return checkReduction(op);
  case GraphOperation::Reshape:
    return checkReshape(op);
  }
  return "";
}

/// True if two descriptors of one number describe one tensor.
bool isSame(const GraphTensor &a, const GraphTensor &b) {
  return a.type == b.type && a.dims == b.dims && a.strides == b.strides &&
         a.alignment == b.alignment && a.isVirtual == b.isVirtual &&
         a.isByValue == b.isByValue;
}

//===----------------------------------------------------------------------===//
// Execution
//===----------------------------------------------------------------------===//

class Executor {
public:
  Executor(const std::map<int64_t, void *> &addresses, bool isOrdered)
      : addresses(addresses), isOrdered(isOrdered) {}

  void run(const GraphOperation &op);

private:
  const Values &get(const GraphTensor &tensor);
  void put(const GraphTensor &tensor, Values values);
  void multiply(const GraphOperation &op, Values &result);
  void reduce(const GraphOperation &op, Values &result);
  void apply(const GraphOperation &op, Values &result);
  void reshape(const GraphOperation &op, Values &result);

  const std::map<int64_t, void *> &addresses;
  const bool isOrdered;
  std::map<int64_t, Values> values;
};

/// Returns the elements of a tensor, which is read from memory at its first
/// use.
const Values &Executor::get(const GraphTensor &tensor) {
  auto known = values.find(tensor.id);
  if (known != values.end())
    return known->second;
  Values read(tensor);
  const void *memory = addresses.at(tensor.id);
  read.forEach([&](float &value, const Extents &at) {
    const uint64_t i = memoryOffset(tensor, at);
    value = tensor.type == CUDNN_DATA_INT32
                ? static_cast<float>(static_cast<const int32_t *>(memory)[i])
                : load<float>(memory, i, elementOf(tensor.type));
  });
  return values.emplace(tensor.id, std::move(read)).first->second;
}

/// Sets the elements of a result. Also writes a tensor in memory.
void Executor::put(const GraphTensor &tensor, Values result) {
  void *memory = tensor.isVirtual ? nullptr : addresses.at(tensor.id);
  result.forEach([&](float &value, const Extents &at) {
    value = round(value, tensor.type);
    if (memory)
      store(memory, memoryOffset(tensor, at), elementOf(tensor.type), value);
  });
  values.insert_or_assign(tensor.id, std::move(result));
}

void Executor::multiply(const GraphOperation &op, Values &result) {
  const Values &a = get(op.operands[0]), &b = get(op.operands[1]);
  const int64_t depth = a.dims[3], heads = result.dims[1] / b.dims[1];
  // Another start in each call stands for additions in any order.
  static int64_t calls = 0;
  const int64_t start = isOrdered ? 0 : calls++;
  result.forEach([&](float &sum, const Extents &at) {
    sum = 0;
    for (int64_t i = 0; i < depth; ++i) {
      const int64_t k = (start + i) % depth;
      sum += a.elements[a.offset({at[0], at[1], at[2], k})] *
             b.elements[b.offset({at[0], at[1] / heads, k, at[3]})];
    }
  });
}

void Executor::reduce(const GraphOperation &op, Values &result) {
  Values x = get(op.operands[0]);
  const bool isMax = op.mode == CUDNN_REDUCE_TENSOR_MAX;
  std::fill(result.elements.begin(), result.elements.end(),
            isMax ? -std::numeric_limits<float>::infinity() : 0.0F);
  x.forEach([&](const float &value, Extents at) {
    // Neighbours are combined: heads 0 to 3 of 8 go to the first of 2.
    for (size_t axis = 0; axis < kRank; ++axis)
      at[axis] /= x.dims[axis] / result.dims[axis];
    float &sum = result.elements[result.offset(at)];
    sum = isMax ? std::max(sum, value) : sum + value;
  });
}

float combine(int mode, float x, float b, float t) {
  switch (mode) {
  case CUDNN_POINTWISE_ADD:
    return x + b;
  case CUDNN_POINTWISE_MUL:
    return x * b;
  case CUDNN_POINTWISE_DIV:
    return x / b;
  case CUDNN_POINTWISE_SUB:
    return x - b;
  case CUDNN_POINTWISE_EXP:
    return std::exp(x);
  case CUDNN_POINTWISE_LOG:
    return std::log(x);
  case CUDNN_POINTWISE_CMP_GE:
    return x >= b ? 1.0F : 0.0F;
  default: // findFault admits no other mode than a select
    return t != 0 ? x : b;
  }
}

void Executor::apply(const GraphOperation &op, Values &result) {
  std::vector<const Values *> operands;
  for (const GraphTensor &operand : op.operands)
    operands.push_back(&get(operand));
  result.forEach([&](float &value, const Extents &at) {
    if (op.mode == CUDNN_POINTWISE_GEN_INDEX) {
      value = static_cast<float>(at[static_cast<size_t>(op.axis)]);
      return;
    }
    float read[3] = {};
    for (size_t i = 0; i < operands.size(); ++i) {
      Extents from = at;
      for (size_t axis = 0; axis < kRank; ++axis)
        if (operands[i]->dims[axis] == 1)
          from[axis] = 0;
      read[i] = operands[i]->elements[operands[i]->offset(from)];
    }
    value = combine(op.mode, read[0], read[1], read[2]);
  });
}

/// Shows the elements of x, which keep their places in memory, with other
/// extents and strides.
void Executor::reshape(const GraphOperation &op, Values &result) {
  Values x = get(op.operands[0]);
  std::map<uint64_t, float> memory;
  x.forEach([&](const float &value, const Extents &at) {
    memory[memoryOffset(op.operands[0], at)] = value;
  });
  result.forEach([&](float &value, const Extents &at) {
    value = memory.at(memoryOffset(op.result, at));
  });
}

void Executor::run(const GraphOperation &op) {
  Values result(op.result);
  switch (op.kind) {
  case GraphOperation::MatMul:
    multiply(op, result);
    break;
  case GraphOperation::Pointwise:
    apply(op, result);
    break;
  case GraphOperation::Reduction:
    reduce(op, result);
    break;
  case GraphOperation::Reshape:
    reshape(op, result);
    break;
  }
  put(op.result, std::move(result));
}

} // namespace

std::map<int64_t, GraphTensor> OperationGraph::listMemory() const {
  std::map<int64_t, GraphTensor> found;
  auto add = [&](const GraphTensor &tensor) {
    if (!tensor.isVirtual && !tensor.isByValue)
      found.emplace(tensor.id, tensor);
  };
  for (const GraphOperation &op : operations) {
    for (const GraphTensor &operand : op.operands)
      add(operand);
    add(op.result);
  }
  return found;
}

std::map<int64_t, GraphTensor> OperationGraph::listValues() const {
  std::map<int64_t, GraphTensor> found;
  for (const GraphOperation &op : operations)
    for (const GraphTensor &operand : op.operands)
      if (operand.isByValue)
        found.emplace(operand.id, operand);
  return found;
}

int64_t OperationGraph::scoreBytes() const {
  for (const GraphOperation &op : operations)
    if (op.kind == GraphOperation::Reshape)
      return op.result.elements() * 2;
  return 0;
}

std::string mpc::emulator::findFault(const OperationGraph &graph) {
  std::map<int64_t, GraphTensor> known;
  std::set<int64_t> written;
  for (const GraphOperation &op : graph.operations) {
    if (std::string fault = checkOperation(op); !fault.empty())
      return fault;
    for (const GraphTensor &operand : op.operands) {
      if (!isSame(known.emplace(operand.id, operand).first->second, operand))
        return "two tensors have the number " + std::to_string(operand.id);
      if (operand.isVirtual && !written.count(operand.id))
        return "a virtual tensor is read before it is written";
    }
    const GraphTensor &result = op.result;
    if (!isSame(known.emplace(result.id, result).first->second, result))
      return "two tensors have the number " + std::to_string(result.id);
    if (result.isByValue || !written.insert(result.id).second)
      return "a tensor is written twice, or a number is written";
    if (!result.isVirtual && !isFloat(result.type))
      return "a result in memory is no float";
  }
  return "";
}

void mpc::emulator::execute(const OperationGraph &graph,
                            const std::map<int64_t, void *> &addresses,
                            bool isOrdered) {
  Executor executor(addresses, isOrdered);
  for (const GraphOperation &op : graph.operations)
    executor.run(op);
}
