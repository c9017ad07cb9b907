// Tests that all steps of whole artifacts, kernels and library calls, access
// only their operands.
//
// MPC_GUARDED_ARTIFACTS lists artifacts for the host's CPU, separated by
// colons. Every step runs alone, and of a loop the first iteration. Each
// operand lies at the start and then at the end of pages between guard pages.
// Constants are the artifact's. Other operands are numbers between -1 and 1,
// and for integers 0, 1, 2 and so on, since a kernel may need distinct indices.
// If a step refuses these indices as out of range, all integers are 0.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/Artifact.h"
#include "runtime/Device.h"
#include "test/runtime/cpu/GuardedMemory.h"

#include <cstdlib>
#include <iostream>
#include <memory>
#include <sstream>

using namespace mpc::runtime;
using namespace mpc::runtime::test;

namespace {

/// Memory that several operands of a step share, such as views of one value.
struct SharedRange {
  Space space;
  size_t index;
  int64_t begin, end;
  DType type;
  std::unique_ptr<Guarded> memory = nullptr;

  bool meets(const Buffer &buffer) const {
    return space == buffer.space && index == buffer.index &&
           begin < buffer.offset + buffer.bytes && buffer.offset < end;
  }
  bool meets(const SharedRange &other) const {
    return space == other.space && index == other.index && begin < other.end &&
           other.begin < end;
  }
};

/// The disjoint ranges that the operands of a step take.
std::vector<SharedRange> findRanges(const Function &function,
                                    const std::vector<size_t> &operands) {
  std::vector<SharedRange> ranges;
  for (size_t operand : operands) {
    const Buffer &buffer = function.buffers[operand];
    if (buffer.space == Space::Constant || buffer.bytes == 0)
      continue;
    SharedRange added = {buffer.space, buffer.index, buffer.offset,
                         buffer.offset + buffer.bytes, buffer.type};
    for (size_t i = 0; i < ranges.size();) {
      if (!ranges[i].meets(added)) {
        ++i;
        continue;
      }
      added.begin = std::min(added.begin, ranges[i].begin);
      added.end = std::max(added.end, ranges[i].end);
      ranges.erase(ranges.begin() + static_cast<ptrdiff_t>(i));
      i = 0;
    }
    ranges.push_back(std::move(added));
  }
  return ranges;
}

/// Runs one step of a function.
class GuardedStep {
public:
  GuardedStep(Device &device, const Artifact &artifact,
              const Function &function, const Step &step)
      : device(device), artifact(artifact), alone(function) {
    alone.steps = {step};
    operands = listBuffers(step);
  }

  /// Runs the step and returns the contents of its operands.
  void run(At at, std::vector<std::byte> &results) {
    if (run(at, Integers::Distinct, results).ok())
      return;
    results.clear();
    const Status status = run(at, Integers::Zero, results);
    EXPECT_TRUE(status.ok()) << status.message();
  }

private:
  enum class Integers { Distinct, Zero };

  Status run(At at, Integers integers, std::vector<std::byte> &results) {
    std::vector<SharedRange> ranges = findRanges(alone, operands);
    for (SharedRange &range : ranges)
      allocate(range, at, integers);
    std::vector<void *> addresses(alone.buffers.size());
    for (size_t operand : operands)
      addresses[operand] = findAddress(alone.buffers[operand], ranges);
    auto executable = device.prepare(artifact, alone, addresses);
    if (!executable.ok())
      return executable.status();
    const Status status = (*executable)->run();
    for (const SharedRange &range : ranges) {
      EXPECT_TRUE(range.memory->isIntact());
      results.insert(results.end(), range.memory->data + shiftOf(range),
                     range.memory->data + range.memory->bytes);
    }
    return status;
  }

  /// A view may begin anywhere in a cache line.
  static size_t shiftOf(const SharedRange &range) {
    return static_cast<size_t>(range.begin) % kBufferAlignment;
  }

  static void allocate(SharedRange &range, At at, Integers integers) {
    const size_t bytes =
        static_cast<size_t>(range.end - range.begin) + shiftOf(range);
    range.memory = std::make_unique<Guarded>(bytes, at, std::byte{0});
    if (range.type == DType::F32 || range.type == DType::BF16 ||
        range.type == DType::F16 || range.type == DType::F64)
      fillWithNumbers(*range.memory, range.type,
                      static_cast<unsigned>(range.begin));
    else if (integers == Integers::Distinct && range.type == DType::I64)
      fillWithIndices<int64_t>(*range.memory, shiftOf(range));
    else if (integers == Integers::Distinct && range.type == DType::I32)
      fillWithIndices<int32_t>(*range.memory, shiftOf(range));
  }

  template <typename T>
  static void fillWithIndices(Guarded &memory, size_t shift) {
    T index = 0;
    for (size_t at = shift; at + sizeof(T) <= memory.bytes; at += sizeof(T)) {
      std::memcpy(memory.data + at, &index, sizeof(T));
      ++index;
    }
  }

  void *findAddress(const Buffer &buffer,
                    const std::vector<SharedRange> &ranges) const {
    if (buffer.space == Space::Constant)
      return const_cast<std::byte *>(artifact.data()) + buffer.offset;
    for (const SharedRange &range : ranges)
      if (range.meets(buffer))
        return range.memory->data + shiftOf(range) + buffer.offset -
               range.begin;
    return nullptr;
  }

  Device &device;
  const Artifact &artifact;
  Function alone;
  std::vector<size_t> operands;
};

/// Runs the steps, including those within loops and conditions. Returns their
/// number.
size_t runSteps(Device &device, const Artifact &artifact,
                const Function &function, const std::vector<Step> &steps) {
  size_t count = 0;
  for (const Step &step : steps) {
    SCOPED_TRACE("step '" + step.name + "'");
    if (const auto *loop = std::get_if<ForStep>(&step.op)) {
      count += runSteps(device, artifact, function, loop->steps);
    } else if (const auto *branches = std::get_if<IfStep>(&step.op)) {
      count += runSteps(device, artifact, function, branches->then);
      count += runSteps(device, artifact, function, branches->otherwise);
    } else {
      GuardedStep guarded(device, artifact, function, step);
      std::vector<std::byte> atStart, atEnd;
      guarded.run(At::Start, atStart);
      guarded.run(At::End, atEnd);
      EXPECT_TRUE(atStart == atEnd) << "depends on where operands are";
      ++count;
    }
  }
  return count;
}

TEST(GuardedSteps, OfArtifacts) {
  const char *paths = std::getenv("MPC_GUARDED_ARTIFACTS");
  if (!paths)
    GTEST_SKIP() << "MPC_GUARDED_ARTIFACTS names no artifact";
  std::stringstream list(paths);
  for (std::string path; std::getline(list, path, ':');) {
    SCOPED_TRACE(path);
    auto artifact = Artifact::open(path);
    ASSERT_TRUE(artifact.ok()) << artifact.status().message();
    DeviceOptions options;
    options.threads = 2;
    auto device = Device::create(options, **artifact);
    ASSERT_TRUE(device.ok()) << device.status().message();
    size_t count = 0;
    for (const auto &[name, function] : (*artifact)->plan().functions) {
      SCOPED_TRACE("function '" + name + "'");
      count += runSteps(**device, **artifact, function, function.steps);
    }
    EXPECT_GT(count, 0U);
    std::cout << path << ": " << count << " steps\n";
  }
}

} // namespace
