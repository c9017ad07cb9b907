// Tests mma.sync and ldmatrix against a plain product. Matrices are loaded by
// ldmatrix, as in kernels, and also by hand after the PTX ISA's tables.
//
// SPDX-License-Identifier: Apache-2.0
#include "test/emulator/ptx/Half.h"
#include "test/emulator/ptx/Harness.h"

using namespace mpc;
using namespace mpc::emulator::ptx;

/// Loads A [16][16] and B by ldmatrix, multiplies, and stores D [16][8]. B is
/// [16][8] loaded with .trans, or [8][16] loaded without.
static std::string throughLoads(const char *type, bool transposed) {
  return withHeader(std::string(R"(
.shared .align 16 .b8 a[512];
.shared .align 16 .b8 b[256];
.visible .entry k(.param .u64 pa, .param .u64 pb, .param .u64 pd)
{
  .reg .b32 %r<40>; .reg .b64 %rd<10>; .reg .pred %p<3>;
  mov.u32 %r0, %tid.x;
  ld.param.b64 %rd0, [pa];
  ld.param.b64 %rd1, [pb];
  ld.param.b64 %rd2, [pd];
  shl.b32 %r1, %r0, 4;
  cvt.u64.u32 %rd3, %r1;
  add.s64 %rd0, %rd0, %rd3;
  mov.b32 %r2, a;
  add.s32 %r3, %r2, %r1;
  cp.async.cg.shared.global [%r3], [%rd0], 16;
  shl.b32 %r1, %r0, 3;
  cvt.u64.u32 %rd3, %r1;
  add.s64 %rd1, %rd1, %rd3;
  mov.b32 %r4, b;
  add.s32 %r5, %r4, %r1;
  cp.async.ca.shared.global [%r5], [%rd1], 8;
  cp.async.wait_all;
  bar.sync 0;
  // A: lane l gives row l % 16, columns 0 or 8.
  and.b32 %r6, %r0, 15;
  shr.u32 %r7, %r0, 4;
  shl.b32 %r6, %r6, 5;
  shl.b32 %r7, %r7, 4;
  add.s32 %r6, %r6, %r7;
  add.s32 %r6, %r6, %r2;
  ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r10, %r11, %r12, %r13}, [%r6];
  )") +
                    (transposed ? R"(
  and.b32 %r8, %r0, 15;
  shl.b32 %r8, %r8, 4;
  add.s32 %r8, %r8, %r4;
  ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%r14, %r15}, [%r8];
  )"
                                : R"(
  and.b32 %r8, %r0, 7;
  shl.b32 %r8, %r8, 5;
  and.b32 %r9, %r0, 8;
  shl.b32 %r9, %r9, 1;
  add.s32 %r8, %r8, %r9;
  add.s32 %r8, %r8, %r4;
  ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r14, %r15}, [%r8];
  )") + "mma.sync.aligned.m16n8k16.row.col.f32." +
                    type + "." + type + R"(.f32
    {%r20, %r21, %r22, %r23}, {%r10, %r11, %r12, %r13}, {%r14, %r15},
    {0f3F800000, 0f3F800000, 0f40000000, 0f40000000};
  // D: rows g and g + 8, columns 2t and 2t + 1.
  shr.u32 %r24, %r0, 2;
  and.b32 %r25, %r0, 3;
  shl.b32 %r24, %r24, 5;
  shl.b32 %r25, %r25, 3;
  add.s32 %r24, %r24, %r25;
  cvt.u64.u32 %rd3, %r24;
  add.s64 %rd2, %rd2, %rd3;
  st.global.v2.b32 [%rd2], {%r20, %r21};
  st.global.v2.b32 [%rd2+256], {%r22, %r23};
  ret;
})");
}

template <class H>
static void checkThroughLoads(const char *type) {
  for (bool transposed : {false, true}) {
    Buffer<H> a(256), b(128);
    Buffer<float> d(128);
    auto value = [](unsigned i) {
      return static_cast<float>(static_cast<int>(i * 7 % 31) - 15) / 4;
    };
    for (unsigned i = 0; i < 256; ++i)
      a[i] = H::round(value(i));
    for (unsigned i = 0; i < 128; ++i)
      b[i] = H::round(value(3 * i + 1));
    auto fault = run(throughLoads(type, transposed), {1}, {32}, 0, a, b, d);
    ASSERT_FALSE(fault) << fault->message;
    for (unsigned row = 0; row < 16; ++row) {
      for (unsigned column = 0; column < 8; ++column) {
        float sum = row < 8 ? 1 : 2;
        for (unsigned k = 0; k < 16; ++k)
          sum += a[16 * row + k].value() *
                 b[transposed ? 8 * k + column : 16 * column + k].value();
        EXPECT_EQ(d[8 * row + column], sum) << row << ' ' << column;
      }
    }
  }
}

TEST(Matrix, BF16ThroughLoads) { checkThroughLoads<BF16>("bf16"); }
TEST(Matrix, F16ThroughLoads) { checkThroughLoads<F16>("f16"); }

/// Each lane loads its registers from memory: A, B, then C. D goes to memory.
static std::string byHand(const char *shape, const char *types, unsigned a,
                          unsigned b, unsigned c) {
  auto list = [](char name, unsigned count) {
    std::string text = "{";
    for (unsigned i = 0; i < count; ++i)
      text += std::string(i ? ", %" : "%") + name + std::to_string(i);
    return text + "}";
  };
  std::string loads, stores;
  unsigned at = 0;
  for (auto [name, count] : {std::pair('a', a), {'b', b}, {'c', c}})
    for (unsigned i = 0; i < count; ++i)
      loads += std::string("ld.global.b32 %") + name + std::to_string(i) +
               ", [%rd0+" + std::to_string(4 * at++) + "];\n";
  for (unsigned i = 0; i < c; ++i)
    stores += "st.global.b32 [%rd1+" + std::to_string(4 * i) + "], %d" +
              std::to_string(i) + ";\n";
  return withHeader(R"(
.visible .entry k(.param .u64 x, .param .u64 y)
{
  .reg .b32 %r<4>, %a<4>, %b<4>, %c<4>, %d<4>; .reg .b64 %rd<10>;
  mov.u32 %r0, %tid.x;
  ld.param.b64 %rd0, [x];
  ld.param.b64 %rd1, [y];
  mul.wide.u32 %rd2, %r0, )" +
                    std::to_string(4 * (a + b + c)) + R"(;
  add.s64 %rd0, %rd0, %rd2;
  mul.wide.u32 %rd2, %r0, )" +
                    std::to_string(4 * c) + R"(;
  add.s64 %rd1, %rd1, %rd2;
)" + loads + "mma.sync.aligned." +
                    shape + ".row.col." + types + "\n" + list('d', c) + ", " +
                    list('a', a) + ", " + list('b', b) + ", " + list('c', c) +
                    ";\n" + stores + "ret;\n}");
}

/// Checks that D, of which a lane holds rows g and g + 8 at columns 2t and 2t +
/// 1, is the product of `a` and `b`, eight deep, plus `c`.
template <class A, class B>
static void expectProduct(Buffer<float> &d, A a, B b, float c) {
  for (unsigned lane = 0; lane < 32; ++lane)
    for (unsigned e = 0; e < 4; ++e) {
      unsigned row = lane / 4 + e / 2 * 8, column = lane % 4 * 2 + e % 2;
      float sum = c;
      for (unsigned k = 0; k < 8; ++k)
        sum += a(row, k) * b(k, column);
      EXPECT_EQ(d[4 * lane + e], sum);
    }
}

TEST(Matrix, HalfDepthBF16) {
  // m16n8k8: a0 a1 hold (g, 2t..), (g + 8, 2t..); b0 holds (2t.., g).
  Buffer<uint32_t> x(32 * 7);
  Buffer<float> y(32 * 4);
  auto a = [](unsigned row, unsigned k) { return float(row) - float(k); };
  auto b = [](unsigned k, unsigned column) { return float(k + 3 * column); };
  auto pack = [](float low, float high) {
    return runtime::floatToBF16(low) |
           static_cast<uint32_t>(runtime::floatToBF16(high)) << 16;
  };
  for (unsigned lane = 0; lane < 32; ++lane) {
    unsigned g = lane / 4, t = lane % 4;
    x[7 * lane] = pack(a(g, 2 * t), a(g, 2 * t + 1));
    x[7 * lane + 1] = pack(a(g + 8, 2 * t), a(g + 8, 2 * t + 1));
    x[7 * lane + 2] = pack(b(2 * t, g), b(2 * t + 1, g));
    for (unsigned e = 0; e < 4; ++e)
      x[7 * lane + 3 + e] = runtime::bitsOf(0.5f);
  }
  auto fault =
      run(byHand("m16n8k8", "f32.bf16.bf16.f32", 2, 1, 4), {1}, {32}, 0, x, y);
  ASSERT_FALSE(fault) << fault->message;
  expectProduct(y, a, b, 0.5f);
}

TEST(Matrix, TF32IgnoresLowBits) {
  // m16n8k8: a0..a3 hold (g, t), (g+8, t), (g, t+4), (g+8, t+4); b0, b1 hold
  // (t, g), (t+4, g).
  Buffer<uint32_t> x(32 * 10);
  Buffer<float> y(32 * 4);
  auto a = [](unsigned row, unsigned k) { return float(row * 2) + float(k); };
  auto b = [](unsigned k, unsigned column) { return float(k) - float(column); };
  auto noisy = [](float value) { return runtime::bitsOf(value) | 0x1fff; };
  for (unsigned lane = 0; lane < 32; ++lane) {
    unsigned g = lane / 4, t = lane % 4;
    for (unsigned r = 0; r < 4; ++r)
      x[10 * lane + r] = noisy(a(g + r % 2 * 8, t + r / 2 * 4));
    for (unsigned r = 0; r < 2; ++r)
      x[10 * lane + 4 + r] = noisy(b(t + r * 4, g));
    for (unsigned e = 0; e < 4; ++e)
      x[10 * lane + 6 + e] = 0;
  }
  auto fault =
      run(byHand("m16n8k8", "f32.tf32.tf32.f32", 4, 2, 4), {1}, {32}, 0, x, y);
  ASSERT_FALSE(fault) << fault->message;
  expectProduct(y, a, b, 0);
}
