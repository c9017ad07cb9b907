// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/ProductParts.h"

#include <algorithm>

namespace mpc::runtime::cuda {

/// The bytes that a kernel of the library loads or stores at once.
static constexpr int64_t kVectorBytes = 16;

static bool isWhole(int64_t elements, const DeviceOperand &operand) {
  return elements * int64_t(sizeOf(operand.type)) % kVectorBytes == 0;
}

static void advance(DeviceOperand &operand, int64_t elements) {
  operand.data = static_cast<char *>(operand.data) +
                 elements * int64_t(sizeOf(operand.type));
}

/// True if `step` may be split. It must be a single product of 16-bit operands,
/// computed by Tensor Cores, without a fused operation. All rows must start at
/// vector boundaries. The work must be at least `leastWork` operations, to be
/// worth a second call.
static bool shouldSplit(const MatMulStep &step, const MatMulAddresses &operands,
                        double leastWork) {
  const bool isLow =
      sizeOf(operands.a.type) == 2 && sizeOf(operands.b.type) == 2;
  const bool isOne =
      step.batch == 1 && step.outer.extents.empty() && !step.fused;
  const bool begins =
      isWhole(step.lda, operands.a) && isWhole(step.ldb, operands.b) &&
      isWhole(step.ldc, operands.c) && isWhole(step.offsetA, operands.a) &&
      isWhole(step.offsetB, operands.b);
  auto isAligned = [](const DeviceOperand &operand) {
    return operand.alignment(kVectorBytes) == kVectorBytes;
  };
  const double work = 2.0 * double(step.m) * double(step.n) * double(step.k);
  return isLow && isOne && begins && isAligned(operands.a) &&
         isAligned(operands.b) && isAligned(operands.c) && work >= leastWork;
}

namespace {
/// A cut along one extent of a product: m, n or k. `a`, `b` and `c` are the
/// strides of the operands along the extent, in elements; 0 if the operand
/// lacks the extent.
struct Cut {
  int64_t MatMulStep::*extent;
  int64_t a, b, c;
};
} // namespace

/// Cuts `whole` into two parts: up to the last whole vector, and the rest.
static std::pair<ProductPart, ProductPart> cutAt(const ProductPart &whole,
                                                 const Cut &cut) {
  // Eight elements of 16 bits make a vector.
  const int64_t unit = kVectorBytes / 2;
  const int64_t extent = whole.step.*cut.extent, place = extent / unit * unit;
  ProductPart front = whole, rest = whole;
  front.step.*cut.extent = place;
  rest.step.*cut.extent = extent - place;
  advance(rest.operands.a, place * cut.a);
  advance(rest.operands.b, place * cut.b);
  advance(rest.operands.c, place * cut.c);
  return {front, rest};
}

std::vector<ProductPart> splitProduct(const MatMulStep &step,
                                      const MatMulAddresses &operands,
                                      double leastWork) {
  ProductPart front{step, operands};
  if (!shouldSplit(step, operands, leastWork))
    return {front};
  // Find the extents that are row lengths in memory, but not whole vectors. n
  // is the row length of c, and of b unless transposed. m is the row length of
  // a if transposed. k is the row length of a unless transposed, and of b if
  // transposed.
  const bool hasN = !isWhole(step.n, operands.c) ||
                    (!step.transB && !isWhole(step.n, operands.b));
  const bool hasM = step.transA && !isWhole(step.m, operands.a);
  const bool hasK = (!step.transA && !isWhole(step.k, operands.a)) ||
                    (step.transB && !isWhole(step.k, operands.b));
  const Cut n{&MatMulStep::n, 0, step.transB ? step.ldb : 1, 1};
  const Cut m{&MatMulStep::m, step.transA ? 1 : step.lda, 0, step.ldc};
  const Cut k{&MatMulStep::k, step.transA ? step.lda : 1,
              step.transB ? 1 : step.ldb, 0};
  // Columns (n) and rows (m) after the last whole vector become separate
  // products.
  std::vector<ProductPart> parts;
  for (const auto &[isRagged, cut] : {std::pair(hasN, n), std::pair(hasM, m)}) {
    if (!isRagged || front.step.*cut.extent < kVectorBytes)
      continue;
    auto [next, rest] = cutAt(front, cut);
    parts.push_back(rest);
    front = next;
  }
  // The short part of the depth comes first, since the long part adds to it.
  if (hasK && step.k >= kVectorBytes) {
    auto [next, rest] = cutAt(front, k);
    parts.push_back(rest);
    front = next;
    front.adds = true;
  }
  parts.push_back(front);
  return parts;
}

} // namespace mpc::runtime::cuda
