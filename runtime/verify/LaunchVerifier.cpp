// Verifies the kernels of a plan, and the launches and epilogues that call
// kernels.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/verify/PlanVerifier.h"

namespace mpc::runtime {

/// Checks that only a CPU has epilogues, and that an epilogue's result has no
/// negative extents. verifyCall and verifyStep compare all other fields of a
/// kernel with each step that calls the kernel.
void PlanVerifier::verifyKernel(const Kernel &kernel) {
  if (!kernel.tiled)
    return;
  expect(!plan.target.isGPU(), "a GPU's library calls no epilogue");
  expect(kernel.tiled->rows >= 0 && kernel.tiled->columns >= 0,
         "it has a negative number of rows or columns");
}

//===----------------------------------------------------------------------===//
// Arguments
//===----------------------------------------------------------------------===//

void PlanVerifier::verifyArgument(size_t number, const Buffer &buffer,
                                  const Kernel::Argument &expected) {
  if (buffer.type == expected.type && buffer.shape == expected.shape)
    return;
  fail("argument " + std::to_string(number) + " is " +
       std::string(nameOf(buffer.type)) + " " + toString(buffer.shape) +
       ", and its kernel is made for " + std::string(nameOf(expected.type)) +
       " " + toString(expected.shape));
}

/// Checks the written arguments, which follow the first `reads` arguments. Each
/// must be in the arena or the state, and overlap no other argument. A kernel
/// that works in place lists one buffer among both read and written arguments.
void PlanVerifier::verifyWrittenArgs(const std::vector<size_t> &args,
                                     size_t reads) {
  auto isSame = [](const Buffer &a, const Buffer &b) {
    return a.offset == b.offset && a.bytes == b.bytes;
  };
  for (size_t i = reads; i < args.size(); ++i) {
    const Buffer &written = function->buffers[args[i]];
    expect(written.space == Space::Arena || written.space == Space::State,
           "it writes to a constant or an input");
    for (size_t j = 0; j < i; ++j) {
      const Buffer &other = function->buffers[args[j]];
      expect(!overlap(written, other) || (j < reads && isSame(written, other)),
             "an argument that it writes overlaps another argument");
    }
  }
}

/// Checks that `args` have the types and shapes that the kernel `name` is made
/// for. Returns the kernel; null after a failure.
const Kernel *PlanVerifier::verifyCall(const std::string &name,
                                       const std::vector<size_t> &args) {
  if (!expect(!name.empty(), "the kernel has no name"))
    return nullptr;
  auto found = plan.kernels.find(name);
  if (found == plan.kernels.end()) {
    fail("the artifact does not describe the kernel '" + name + "'");
    return nullptr;
  }
  const Kernel &kernel = found->second;
  const size_t reads = kernel.reads.size();
  if (args.size() != reads + kernel.writes.size()) {
    fail("its kernel is made for " +
         std::to_string(reads + kernel.writes.size()) + " arguments, found " +
         std::to_string(args.size()));
    return nullptr;
  }
  for (size_t i = 0; i < args.size(); ++i) {
    if (!expect(args[i] < function->buffers.size(),
                "an argument names a buffer that does not exist"))
      return nullptr;
    verifyArgument(i, function->buffers[args[i]],
                   i < reads ? kernel.reads[i] : kernel.writes[i - reads]);
  }
  if (!failure.ok())
    return nullptr;
  verifyWrittenArgs(args, reads);
  return failure.ok() ? &kernel : nullptr;
}

//===----------------------------------------------------------------------===//
// Calls
//===----------------------------------------------------------------------===//

void PlanVerifier::verifyStep(const LaunchStep &step) {
  if (!expectInRange(step))
    return;
  // The CPU device adds extent and grain, so the sum must not overflow.
  if (plan.target.isGPU())
    expect(step.extent / step.grain < kMaxExtent, "there are too many blocks");
  else
    expect(!(Checked(step.extent) + step.grain).overflowed,
           "extent plus grain overflows");
  // With another extent or grain than the step's, the kernel would run past the
  // buffers.
  const Kernel *kernel = verifyCall(step.kernel, step.args);
  if (!kernel || !expect(!kernel->tiled, "its kernel is an epilogue"))
    return;
  if (step.extent != kernel->extent || step.grain != kernel->grain)
    fail("its kernel is made for extent " + std::to_string(kernel->extent) +
         " and grain " + std::to_string(kernel->grain) + ", found " +
         std::to_string(step.extent) + " and " + std::to_string(step.grain));
  if (step.threads != kernel->threads)
    fail("its kernel is made for " + std::to_string(kernel->threads) +
         " threads, found " + std::to_string(step.threads));
  expect(step.sharedBytes == kernel->sharedBytes &&
             step.scratchBytes == kernel->scratchBytes,
         "its kernel is made for more or less memory beside its arguments");
}

/// Checks the epilogue of a contraction whose result has `rows` x `columns`
/// elements. `read` are the contraction's operands. The epilogue must not write
/// them, since the library still reads them for other tiles.
void PlanVerifier::verifyTiles(const Epilogue &epilogue, Checked rows,
                               int64_t columns,
                               std::initializer_list<size_t> read) {
  const Kernel *kernel = verifyCall(epilogue.kernel, epilogue.args);
  if (!kernel ||
      !expect(kernel->tiled.has_value(), "its epilogue is a kernel to launch"))
    return;
  if (!(rows == kernel->tiled->rows) || columns != kernel->tiled->columns)
    fail("its epilogue is made for a result of " +
         std::to_string(kernel->tiled->rows) + " x " +
         std::to_string(kernel->tiled->columns) + ", found " +
         std::to_string(rows.value) + " x " + std::to_string(columns));
  for (size_t i = kernel->reads.size(); i < epilogue.args.size(); ++i)
    for (size_t operand : read)
      verifyWritten(function->buffers[epilogue.args[i]],
                    {&function->buffers[operand]});
}

} // namespace mpc::runtime
