// Tensor Core instructions: ldmatrix and mma.sync. The layout of matrices in
// the lanes' registers follows the PTX ISA ("Matrix Fragments for mma.m16n8k16"
// and similar sections). Throughout, lane = 4 * g + t.
//
// Products are exact, summed in double, and rounded once. No device is closer
// to the true value, and devices differ from each other in the last bits.
//
// SPDX-License-Identifier: Apache-2.0
#include "test/emulator/ptx/Decoder.h"
#include "test/emulator/ptx/Lanewise.h"

#include <cstring>

using namespace mpc;
using namespace mpc::emulator::ptx;

namespace {

//===----------------------------------------------------------------------===//
// ldmatrix
//===----------------------------------------------------------------------===//

/// Loads `count` matrices of 8 x 8 16-bit elements. Lane 8 * m + r holds the
/// address of row r of matrix m. Slot 0 is the address, 1... are the results.
template <bool Transposed>
void loadMatrices(Warp &warp, const Inst &i, uint32_t) {
  for (unsigned m = 0; m < i.count; ++m) {
    uint16_t matrix[8][8];
    for (unsigned row = 0; row < 8; ++row) {
      unsigned lane = 8 * m + row;
      uint64_t address = i.mode ? warp.lanes<uint32_t>(i.slots[0])[lane]
                                : warp.lanes<uint64_t>(i.slots[0])[lane];
      address += static_cast<uint64_t>(i.offset);
      if (address % 16)
        throw KernelFault{KernelFault::MisalignedAddress,
                          "ldmatrix reads a row at " + std::to_string(address) +
                              ", which is not a multiple of 16",
                          lane};
      std::memcpy(matrix[row], warp.sharedMemory(address, 16, false, lane), 16);
    }
    uint16_t *result = warp.lanes<uint16_t>(i.slots[1 + m]);
    for (unsigned lane = 0; lane < kLanes; ++lane) {
      unsigned g = lane / 4, t = lane % 4;
      for (unsigned e = 0; e < 2; ++e)
        result[2 * lane + e] =
            Transposed ? matrix[2 * t + e][g] : matrix[g][2 * t + e];
    }
  }
}

void decodeLoadMatrix(Decoder &d) {
  d.expect("sync");
  d.expect("aligned");
  d.expect("m8n8");
  unsigned count = d.take("x1") ? 1 : d.take("x2") ? 2 : 4;
  if (count == 4)
    d.expect("x4");
  bool transposed = d.take("trans");
  if (d.take("shared"))
    d.take("cta");
  else
    d.fail("expected .shared");
  d.expect("b16");
  d.operands(2);
  std::vector<Operand> results = d.operand(0).elements;
  if (d.operand(0).kind != Operand::Vector)
    results.assign(1, d.operand(0));
  if (results.size() != count)
    d.fail("expected " + std::to_string(count) + " results");
  for (unsigned m = 0; m < count; ++m)
    d.inst->slots[1 + m] = d.destination(results[m], 4);
  bool isWide;
  d.address(d.operand(1), Space::Shared, d.inst->slots[0], d.inst->offset,
            isWide);
  d.inst->mode = !isWide;
  d.inst->count = static_cast<uint8_t>(count);
  d.inst->flow = Flow::Converge;
  d.inst->run = transposed ? &loadMatrices<true> : &loadMatrices<false>;
}

//===----------------------------------------------------------------------===//
// mma.sync
//===----------------------------------------------------------------------===//

constexpr unsigned kRows = 16, kColumns = 8, kMostDepth = 16;

/// The element of a 32-bit register, as a double.
double element(uint32_t bits, unsigned half, Type::Kind kind) {
  auto bits16 = static_cast<uint16_t>(bits >> (16 * half));
  switch (kind) {
  case Type::Float:
    return F16{bits16}.value();
  case Type::BFloat:
    return BF16{bits16}.value();
  default: // tf32: ignores the low 13 bits
    return runtime::floatOf(bits & 0xffffe000);
  }
}

struct Product {
  double a[kRows][kMostDepth];
  double b[kMostDepth][kColumns];
  double c[kRows][kColumns];
};

/// Elements per register: two, or one of tf32.
unsigned perRegister(Type::Kind kind) { return kind == Type::TF32 ? 1 : 2; }

/// The position of a lane's register r in A (16 x depth): rows g and g + 8
/// alternate, then the depth's second half follows.
void readOperands(Warp &warp, const Inst &i, Type::Kind kind, unsigned depth,
                  Product &product) {
  unsigned per = perRegister(kind), aRegisters = kRows * depth / kLanes / per;
  unsigned bRegisters = aRegisters / 2;
  for (unsigned lane = 0; lane < kLanes; ++lane) {
    unsigned g = lane / 4, t = lane % 4;
    for (unsigned r = 0; r < aRegisters; ++r) {
      uint32_t bits = warp.lanes<uint32_t>(i.slots[4 + r])[lane];
      for (unsigned e = 0; e < per; ++e)
        product.a[g + r % 2 * 8][r / 2 * 4 * per + t * per + e] =
            element(bits, e, kind);
    }
    for (unsigned r = 0; r < bRegisters; ++r) {
      uint32_t bits = warp.lanes<uint32_t>(i.slots[8 + r])[lane];
      for (unsigned e = 0; e < per; ++e)
        product.b[r * 4 * per + t * per + e][g] = element(bits, e, kind);
    }
  }
}

/// Calls f(lane, register, half, row, column) for each element of C and D.
/// Halves are those of f16 accumulators; f32 ones have a register each.
template <class F>
void forAccumulators(bool isHalf, F f) {
  for (unsigned lane = 0; lane < kLanes; ++lane)
    for (unsigned e = 0; e < 4; ++e)
      f(lane, isHalf ? e / 2 : e, isHalf ? e % 2 : 0, lane / 4 + e / 2 * 8,
        lane % 4 * 2 + e % 2);
}

/// Slots 0-3: D; 4-7: A; 8-9: B; 10-13: C.
template <bool HalfSums>
void multiply(Warp &warp, const Inst &i, uint32_t lanes) {
  if (lanes != kAllLanes)
    throw KernelFault{KernelFault::LaunchFailed, "mma needs a whole warp", 0};
  Product product;
  unsigned depth = i.count;
  readOperands(warp, i, static_cast<Type::Kind>(i.mode), depth, product);
  forAccumulators(HalfSums, [&](unsigned lane, unsigned r, unsigned half,
                                unsigned row, unsigned column) {
    uint32_t bits = warp.lanes<uint32_t>(i.slots[10 + r])[lane];
    product.c[row][column] = HalfSums ? element(bits, half, Type::Float)
                                      : double(runtime::floatOf(bits));
  });
  for (unsigned row = 0; row < kRows; ++row)
    for (unsigned k = 0; k < depth; ++k)
      for (unsigned column = 0; column < kColumns; ++column)
        product.c[row][column] += product.a[row][k] * product.b[k][column];
  forAccumulators(HalfSums, [&](unsigned lane, unsigned r, unsigned half,
                                unsigned row, unsigned column) {
    double value = product.c[row][column];
    if (HalfSums)
      warp.lanes<F16>(i.slots[r])[2 * lane + half] =
          F16::round(runtime::doubleToFloatRoundToOdd(value));
    else
      warp.lanes<float>(i.slots[r])[lane] = static_cast<float>(value);
  });
}

/// Decodes the registers of a fragment.
void decodeFragment(Decoder &d, size_t operand, unsigned slot, unsigned count,
                    bool isResult) {
  const Operand &fragment = d.operand(operand);
  if (fragment.kind != Operand::Vector || fragment.elements.size() != count)
    d.fail("expected a fragment of " + std::to_string(count) + " registers");
  for (unsigned r = 0; r < count; ++r)
    d.inst->slots[slot + r] = isResult ? d.destination(fragment.elements[r], 4)
                                       : d.source(fragment.elements[r], 4);
}

void decodeMultiply(Decoder &d) {
  d.expect("sync");
  d.expect("aligned");
  unsigned depth = d.take("m16n8k16")  ? 16
                   : d.take("m16n8k8") ? 8
                   : d.take("m16n8k4") ? 4
                                       : 0;
  d.expect("row");
  d.expect("col");
  Type result = d.takeType(), a = d.takeType(), b = d.takeType(),
       sum = d.takeType();
  bool isTF32 = a.kind == Type::TF32;
  bool sixteen = a.is(Type::Float, 16) || a.is(Type::BFloat, 16);
  bool halfSums = result.is(Type::Float, 16);
  bool knownDepth =
      isTF32 ? depth == 8 || depth == 4 : depth == 16 || depth == 8;
  if (!knownDepth || !(isTF32 || sixteen) || a.kind != b.kind ||
      result.kind != sum.kind || result.bits != sum.bits ||
      (halfSums ? a.kind != Type::Float : !result.is(Type::Float, 32)))
    d.fail("no such product");
  d.operands(4);
  unsigned aRegisters = kRows * depth / kLanes / (isTF32 ? 1 : 2);
  unsigned sums = halfSums ? 2 : 4;
  decodeFragment(d, 0, 0, sums, true);
  decodeFragment(d, 1, 4, aRegisters, false);
  decodeFragment(d, 2, 8, aRegisters / 2, false);
  decodeFragment(d, 3, 10, sums, false);
  d.inst->count = static_cast<uint8_t>(depth);
  d.inst->mode = a.kind;
  d.inst->flow = Flow::Converge;
  d.inst->run = halfSums ? &multiply<true> : &multiply<false>;
}

} // namespace

void mpc::emulator::ptx::addMatrixInstructions(DecodeTable &table) {
  table["ldmatrix"] = decodeLoadMatrix;
  table["mma"] = decodeMultiply;
}
