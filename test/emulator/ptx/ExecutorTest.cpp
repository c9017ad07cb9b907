// Tests control flow, warps, barriers and memory: kernels as LLVM prints them,
// and incorrect kernels.
//
// SPDX-License-Identifier: Apache-2.0
#include "test/emulator/ptx/Harness.h"

using namespace mpc::emulator::ptx;

static std::string kernel(const std::string &params, const std::string &body) {
  std::string list;
  for (size_t i = 0; i < params.size(); ++i)
    list += std::string(i ? ", " : "") + ".param .u64 .ptr .global .align 16 " +
            params[i];
  return withHeader(".shared .align 16 .b8 fixed[256];\n"
                    ".extern .shared .align 16 .b8 dynamic[];\n"
                    ".visible .entry k(" +
                    list +
                    ")\n.maxntid 256\n{\n"
                    ".reg .pred %p<10>;\n.reg .b16 %rs<10>;\n"
                    ".reg .b32 %r<40>;\n.reg .b64 %rd<20>;\n" +
                    body + "\n}\n");
}

static std::string messageOf(const std::optional<KernelFault> &fault) {
  return fault ? fault->message : "no fault";
}

TEST(Executor, SumsByShuffleAndBarrier) {
  // A row reduction: 128 threads stride over a row of floats.
  std::string text = kernel("xy", R"(
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, %ctaid.x;
  ld.param.b64 %rd1, [x];
  ld.param.b64 %rd2, [y];
  mul.wide.u32 %rd3, %r2, 1200;
  add.s64 %rd1, %rd1, %rd3;
  mov.b32 %r3, 0f00000000;
  mov.b32 %r4, %r1;
$LOOP:
  setp.ge.u32 %p1, %r4, 300;
  @%p1 bra $DONE;
  mul.wide.u32 %rd4, %r4, 4;
  add.s64 %rd5, %rd1, %rd4;
  ld.global.b32 %r5, [%rd5];
  add.rn.f32 %r3, %r3, %r5;
  add.s32 %r4, %r4, 128;
  bra.uni $LOOP;
$DONE:
  shfl.sync.bfly.b32 %r6|%p2, %r3, 16, 31, -1;
  add.rn.f32 %r3, %r3, %r6;
  shfl.sync.bfly.b32 %r6, %r3, 8, 31, -1;
  add.rn.f32 %r3, %r3, %r6;
  shfl.sync.bfly.b32 %r6, %r3, 4, 31, -1;
  add.rn.f32 %r3, %r3, %r6;
  shfl.sync.bfly.b32 %r6, %r3, 2, 31, -1;
  add.rn.f32 %r3, %r3, %r6;
  shfl.sync.bfly.b32 %r6, %r3, 1, 31, -1;
  add.rn.f32 %r3, %r3, %r6;
  and.b32 %r7, %r1, 31;
  setp.ne.b32 %p3, %r7, 0;
  shr.u32 %r8, %r1, 5;
  shl.b32 %r8, %r8, 2;
  mov.b32 %r9, fixed;
  add.s32 %r9, %r9, %r8;
  @%p3 bra $SKIP;
  st.shared.b32 [%r9], %r3;
$SKIP:
  bar.sync 0;
  setp.ne.b32 %p4, %r1, 0;
  @%p4 bra $END;
  ld.shared.v4.b32 {%r10, %r11, %r12, %r13}, [fixed];
  add.rn.f32 %r10, %r10, %r11;
  add.rn.f32 %r12, %r12, %r13;
  add.rn.f32 %r10, %r10, %r12;
  mul.wide.u32 %rd6, %r2, 4;
  add.s64 %rd6, %rd2, %rd6;
  st.global.b32 [%rd6], %r10;
$END:
  ret;)");
  Buffer<float> x(900), y(3);
  float expected[3] = {};
  for (unsigned i = 0; i < 900; ++i) {
    x[i] = static_cast<float>(i % 17);
    expected[i / 300] += x[i];
  }
  auto fault = run(text, {3}, {128}, 0, x, y);
  ASSERT_FALSE(fault) << fault->message;
  for (unsigned row = 0; row < 3; ++row)
    EXPECT_EQ(y[row], expected[row]);
}

TEST(Executor, LanesPartAndMeetAgain) {
  // Odd lanes take another path. The ballot behind it sees all 32.
  std::string text = kernel("y", R"(
  mov.u32 %r1, %tid.x;
  ld.param.b64 %rd1, [y];
  mul.wide.u32 %rd2, %r1, 8;
  add.s64 %rd1, %rd1, %rd2;
  and.b32 %r2, %r1, 1;
  setp.eq.b32 %p1, %r2, 1;
  mov.b32 %r3, 0;
  @%p1 bra $ODD;
  mul.lo.s32 %r3, %r1, 10;
  bra.uni $JOIN;
$ODD:
  mov.b32 %r4, 0;
$LOOP:
  add.s32 %r3, %r3, 100;
  add.s32 %r4, %r4, 1;
  setp.lt.u32 %p2, %r4, %r1;
  @%p2 bra $LOOP;
$JOIN:
  vote.sync.ballot.b32 %r5, %p1, -1;
  st.global.v2.b32 [%rd1], {%r3, %r5};
  ret;)");
  Buffer<uint32_t> y(64);
  auto fault = run(text, {1}, {32}, 0, y);
  ASSERT_FALSE(fault) << fault->message;
  for (unsigned lane = 0; lane < 32; ++lane) {
    EXPECT_EQ(y[2 * lane], lane % 2 ? 100 * lane : 10 * lane);
    EXPECT_EQ(y[2 * lane + 1], 0xaaaaaaaau);
  }
}

TEST(Executor, ShufflesOfEveryMode) {
  std::string text = kernel("y", R"(
  mov.u32 %r1, %tid.x;
  ld.param.b64 %rd1, [y];
  mul.wide.u32 %rd2, %r1, 16;
  add.s64 %rd1, %rd1, %rd2;
  shfl.sync.up.b32 %r2, %r1, 3, 0, -1;
  shfl.sync.down.b32 %r3|%p1, %r1, 5, 31, -1;
  selp.b32 %r3, %r3, 99, %p1;
  shfl.sync.idx.b32 %r4, %r1, 2, 6175, -1;  // segments of 8
  shfl.sync.bfly.b32 %r5, %r1, 31, 31, -1;
  st.global.v4.b32 [%rd1], {%r2, %r3, %r4, %r5};
  ret;)");
  Buffer<uint32_t> y(128);
  auto fault = run(text, {1}, {32}, 0, y);
  ASSERT_FALSE(fault) << fault->message;
  for (unsigned lane = 0; lane < 32; ++lane) {
    EXPECT_EQ(y[4 * lane], lane < 3 ? lane : lane - 3);
    EXPECT_EQ(y[4 * lane + 1], lane + 5 < 32 ? lane + 5 : 99);
    EXPECT_EQ(y[4 * lane + 2], lane / 8 * 8 + 2);
    EXPECT_EQ(y[4 * lane + 3], 31 - lane);
  }
}

TEST(Executor, AsynchronousCopiesArriveWhenWaitedFor) {
  // Two stages. The second is read only after a wait for all groups.
  auto body = [](const char *wait) {
    return std::string(R"(
  mov.u32 %r1, %tid.x;
  ld.param.b64 %rd1, [x];
  ld.param.b64 %rd2, [y];
  mul.wide.u32 %rd3, %r1, 16;
  add.s64 %rd1, %rd1, %rd3;
  shl.b32 %r2, %r1, 4;
  mov.b32 %r3, dynamic;
  add.s32 %r3, %r3, %r2;
  cp.async.cg.shared.global [%r3], [%rd1], 16;
  cp.async.commit_group;
  mov.b32 %r4, 8;
  cp.async.ca.shared.global [%r3+512], [%rd1+512], 16, %r4;
  cp.async.commit_group;
  cp.async.wait_group )") +
           wait + R"(;
  bar.sync 0;
  ld.shared.v4.b32 {%r5, %r6, %r7, %r8}, [%r3];
  ld.shared.v4.b32 {%r9, %r10, %r11, %r12}, [%r3+512];
  add.s64 %rd2, %rd2, %rd3;
  st.global.v4.b32 [%rd2], {%r5, %r6, %r7, %r8};
  st.global.v4.b32 [%rd2+512], {%r9, %r10, %r11, %r12};
  ret;)";
  };
  Buffer<uint32_t> x(256), y(256);
  for (unsigned i = 0; i < 256; ++i)
    x[i] = i + 1;
  auto fault = run(kernel("xy", body("0")), {1}, {32}, 1024, x, y);
  ASSERT_FALSE(fault) << fault->message;
  for (unsigned i = 0; i < 128; ++i)
    EXPECT_EQ(y[i], i + 1);
  for (unsigned i = 128; i < 256; ++i) // the upper half was not read: zeros
    EXPECT_EQ(y[i], i % 4 < 2 ? i + 1 : 0);

  // Waiting for all groups except one does not cover the second stage's data.
  fault = run(kernel("xy", body("1")), {1}, {32}, 1024, x, y);
  EXPECT_NE(messageOf(fault).find("[%r3+512];`: shared address 512 is that of "
                                  "an asynchronous copy"),
            std::string::npos)
      << messageOf(fault);
}

TEST(Executor, LocalAndConstantMemory) {
  std::string text = withHeader(R"(
.const .align 4 .b8 table[16] = {1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4};
.global .align 4 .u32 counters[2] = {7, 8};
.visible .entry k(.param .u64 y)
{
  .local .align 16 .b8 __local_depot0[32];
  .reg .b64 %SP, %SPL;
  .reg .b32 %r<10>;
  .reg .b64 %rd<10>;
  mov.b64 %SPL, __local_depot0;
  cvta.local.u64 %SP, %SPL;
  ld.param.b64 %rd1, [y];
  cvta.to.global.u64 %rd1, %rd1;
  mov.u32 %r1, %tid.x;
  mul.wide.u32 %rd2, %r1, 4;
  mov.b64 %rd3, table;
  add.s64 %rd3, %rd3, %rd2;
  ld.const.b32 %r2, [%rd3];
  st.local.b32 [%SPL+4], %r2;
  ld.b32 %r3, [%SP+4];
  ld.global.b32 %r4, [counters+4];
  add.s32 %r3, %r3, %r4;
  { .reg .b32 tmp;
    mov.b32 tmp, 100;
    add.s32 %r3, %r3, tmp; }
  add.s64 %rd1, %rd1, %rd2;
  st.global.b32 [%rd1], %r3;
  ret;
})");
  Buffer<uint32_t> y(4);
  auto fault = run(text, {1}, {4}, 0, y);
  ASSERT_FALSE(fault) << fault->message;
  for (unsigned i = 0; i < 4; ++i)
    EXPECT_EQ(y[i], 109 + i);
}

/// Kernels for several tensors select parameters by their addresses.
TEST(Executor, ParametersHaveAddresses) {
  auto body = [](const char *offset) {
    return std::string(R"(
  mov.u32 %r1, %tid.x;
  setp.eq.u32 %p1, %r1, 1;
  mov.b64 %rd1, x;
  mov.b64 %rd2, y;
  selp.b64 %rd3, %rd2, %rd1, %p1;
  ld.param.b64 %rd4, [%rd3)") +
           offset + R"(];
  st.global.b32 [%rd4], %r1;
  ret;)";
  };
  Buffer<uint32_t> x(1), y(1);
  x[0] = y[0] = 7;
  auto fault = run(kernel("xy", body("")), {1}, {2}, 0, x, y);
  ASSERT_FALSE(fault) << fault->message;
  EXPECT_EQ(x[0], 0u);
  EXPECT_EQ(y[0], 1u);
  fault = run(kernel("xy", body("+8")), {1}, {2}, 0, x, y);
  EXPECT_NE(messageOf(fault).find("at parameter address 16 of 16"),
            std::string::npos)
      << messageOf(fault);
}

//===----------------------------------------------------------------------===//
// Kernels that are wrong
//===----------------------------------------------------------------------===//

/// The message of a block of `threads` that runs `body`.
static std::string messageOfBlock(const std::string &body, unsigned threads) {
  Buffer<uint32_t> y(64);
  return messageOf(run(kernel("y", body), {1}, {threads}, 0, y));
}

static void expectFault(const std::string &body, unsigned threads,
                        const char *message) {
  std::string found = messageOfBlock(body, threads);
  EXPECT_NE(found.find(message), std::string::npos) << found;
}

TEST(ExecutorFaults, OutOfBoundsNamesThreadAndLine) {
  std::string text = kernel("y", R"(
  mov.u32 %r1, %tid.x;
  ld.param.b64 %rd1, [y];
  mul.wide.u32 %rd2, %r1, 4;
  add.s64 %rd1, %rd1, %rd2;
  st.global.b32 [%rd1], %r1;
  ret;)");
  Buffer<uint32_t> y(40);
  auto fault = run(text, {2}, {64}, 0, y);
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->kind, KernelFault::IllegalAddress);
  EXPECT_NE(fault->message.find("kernel 'k', block (0,0,0), thread 40, PTX "
                                "line 18 `st.global.b32 [%rd1], %r1;`: write "
                                "of 4 bytes"),
            std::string::npos)
      << fault->message;
}

TEST(ExecutorFaults, MisalignedVector) {
  std::string text = kernel("y", R"(
  ld.param.b64 %rd1, [y];
  ld.global.v4.b32 {%r1, %r2, %r3, %r4}, [%rd1+8];
  ret;)");
  Buffer<uint32_t> y(40);
  auto fault = run(text, {1}, {1}, 0, y);
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->kind, KernelFault::MisalignedAddress) << fault->message;
}

TEST(ExecutorFaults, RaceBetweenWarps) {
  auto body = [](const char *barrier) {
    return std::string(R"(
  mov.u32 %r1, %tid.x;
  ld.param.b64 %rd1, [y];
  shl.b32 %r2, %r1, 2;
  mov.b32 %r3, fixed;
  add.s32 %r4, %r3, %r2;
  st.shared.b32 [%r4], %r1;
  )") + barrier +
           R"(
  xor.b32 %r5, %r2, 128;
  add.s32 %r5, %r3, %r5;
  ld.shared.b32 %r6, [%r5];
  mul.wide.u32 %rd2, %r1, 4;
  add.s64 %rd1, %rd1, %rd2;
  st.global.b32 [%rd1], %r6;
  ret;)";
  };
  Buffer<uint32_t> y(64);
  auto fault = run(kernel("y", body("bar.sync 0;")), {1}, {64}, 0, y);
  ASSERT_FALSE(fault) << fault->message;
  EXPECT_EQ(y[3], 35u);
  expectFault(body(""), 64, "race in shared memory");
}

TEST(ExecutorFaults, RaceInsideAWarp) {
  auto body = [](const char *barrier) {
    return std::string(R"(
  mov.u32 %r1, %tid.x;
  shl.b32 %r2, %r1, 2;
  mov.b32 %r3, fixed;
  add.s32 %r4, %r3, %r2;
  st.shared.b32 [%r4], %r1;
  )") + barrier +
           R"(
  xor.b32 %r5, %r2, 4;
  add.s32 %r5, %r3, %r5;
  ld.shared.b32 %r6, [%r5];
  ret;)";
  };
  EXPECT_EQ(messageOfBlock(body("bar.warp.sync -1;"), 32), "no fault");
  expectFault(body(""), 32, "race in shared memory");
}

TEST(ExecutorFaults, NeighboursInAWordAreNoRace) {
  std::string body = R"(
  mov.u32 %r1, %tid.x;
  cvt.u16.u32 %rs1, %r1;
  shl.b32 %r2, %r1, 1;
  mov.b32 %r3, fixed;
  add.s32 %r4, %r3, %r2;
  st.shared.b16 [%r4], %rs1;
  ld.shared.b16 %rs2, [%r4];
  st.shared.b16 [%r4], %rs2;
  ret;)";
  EXPECT_EQ(messageOfBlock(body, 64), "no fault");
}

/// Each thread reads element tid + `apart` and writes element `index`.
static std::string moveInGlobal(const char *apart, const char *index) {
  return std::string(R"(
  mov.u32 %r1, %tid.x;
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r3, %ntid.x;
  mad.lo.s32 %r4, %r2, %r3, %r1;
  ld.param.b64 %rd1, [y];
  add.s32 %r5, %r4, )") +
         apart + R"(;
  mul.wide.u32 %rd2, %r5, 4;
  add.s64 %rd2, %rd1, %rd2;
  ld.global.b32 %r6, [%rd2];
  mul.wide.u32 %rd3, )" +
         index + R"(, 4;
  add.s64 %rd3, %rd1, %rd3;
  st.global.b32 [%rd3], %r6;
  ret;)";
}

TEST(ExecutorFaults, RaceInGlobalMemory) {
  auto messageOfGrid = [](const std::string &body, unsigned blocks,
                          unsigned threads) {
    Buffer<uint32_t> y(512);
    return messageOf(run(kernel("y", body), {blocks}, {threads}, 0, y));
  };
  const char *race = "race in global memory";
  // In place, and an element that all read and none writes.
  EXPECT_EQ(messageOfGrid(moveInGlobal("0", "%r4"), 4, 64), "no fault");
  EXPECT_EQ(messageOfGrid(moveInGlobal("256", "%r4"), 4, 64), "no fault");
  // An element that another thread of the block, or of another block, reads.
  for (const char *apart : {"1", "64"})
    EXPECT_NE(messageOfGrid(moveInGlobal(apart, "%r4"), 4, 64).find(race),
              std::string::npos)
        << apart;
  // An element that a thread of every block writes.
  EXPECT_EQ(messageOfGrid(moveInGlobal("256", "%r1"), 1, 64), "no fault");
  EXPECT_NE(messageOfGrid(moveInGlobal("256", "%r1"), 4, 64).find(race),
            std::string::npos);
  // An element that all threads write, even with the same value.
  EXPECT_NE(messageOfGrid(moveInGlobal("256", "%r3"), 1, 64).find(race),
            std::string::npos);
}

TEST(ExecutorFaults, DivergentBarrier) {
  std::string body = R"(
  mov.u32 %r1, %tid.x;
  setp.lt.u32 %p1, %r1, 32;
  @%p1 bra $FIRST;
  bar.sync 0;
  ret;
$FIRST:
  bar.sync 0;
  ret;)";
  expectFault(body, 64, "divergent barrier");
}

TEST(ExecutorFaults, ShuffleWithoutAllItsLanes) {
  std::string body = R"(
  mov.u32 %r1, %tid.x;
  setp.lt.u32 %p1, %r1, 8;
  @%p1 bra $END;
  shfl.sync.bfly.b32 %r2, %r1, 1, 31, -1;
$END:
  bar.sync 0;
  ret;)";
  expectFault(body, 32, "never reach it");
}

TEST(ExecutorFaults, UnwrittenSharedMemoryIsNaN) {
  std::string text = kernel("y", R"(
  ld.param.b64 %rd1, [y];
  ld.shared.b32 %r1, [fixed];
  st.global.b32 [%rd1], %r1;
  ret;)");
  Buffer<uint32_t> y(1);
  ASSERT_FALSE(run(text, {1}, {1}, 0, y));
  EXPECT_EQ(y[0], 0xffffffffu);
}

// Each lane branches by its index. An index without a target is a fault.
TEST(Executor, BranchesByIndex) {
  auto body = [](const char *guard) {
    return std::string(R"(
  mov.u32 %r1, %tid.x;
  ld.param.b64 %rd1, [y];
  mul.wide.u32 %rd2, %r1, 4;
  add.s64 %rd1, %rd1, %rd2;
  and.b32 %r2, %r1, 3;
  mov.b32 %r3, 40;
  setp.lt.u32 %p1, %r1, 16;
$TABLE: .branchtargets
  $A,
  $B,
  $C;
  )") + guard +
           R"( brx.idx %r2, $TABLE;
  bra.uni $END;
$A:
  mov.b32 %r3, 10;
  bra.uni $END;
$B:
  mov.b32 %r3, 20;
  bra.uni $END;
$C:
  mov.b32 %r3, 30;
$END:
  st.global.b32 [%rd1], %r3;
  ret;)";
  };
  // Lanes of index 3 do not branch.
  std::string text = kernel("y", body("setp.lt.u32 %p1, %r2, 3; @%p1"));
  Buffer<uint32_t> y(64);
  ASSERT_FALSE(run(text, {1}, {64}, 0, y));
  for (unsigned i = 0; i < 64; ++i)
    EXPECT_EQ(y[i], 10 * (i % 4 + 1)) << i;
  expectFault(body(""), 64, "trap");
  EXPECT_THROW(loadModule(kernel("y", "brx.idx %r1, $NONE;")), ModuleError);
}

// Each kernel numbers its lists from 0.
TEST(Executor, ListsOfBranchesAreAKernelsOwn) {
  auto entry = [](const char *name, const char *targets) {
    return std::string(".visible .entry ") + name +
           "()\n{\n.reg .b32 %r<4>;\nmov.u32 %r1, %tid.x;\n$TABLE: "
           ".branchtargets " +
           targets + ";\nbrx.idx %r1, $TABLE;\n$A:\n$B:\n$C:\n  ret;\n}\n";
  };
  std::string first = entry("first", "$A, $B, $C"), second = entry("k", "$B");
  Module both = loadModule(withHeader(first + second));
  Module alone = loadModule(withHeader(second));
  EXPECT_EQ(both.kernels[1].code.size(), alone.kernels[0].code.size());
}

//===----------------------------------------------------------------------===//
// Modules that cannot be run
//===----------------------------------------------------------------------===//

static std::string loadError(const std::string &text) {
  try {
    loadModule(text);
  } catch (const ModuleError &error) {
    return error.what();
  }
  return "loaded";
}

TEST(LoadModule, RefusesWhatItDoesNotKnow) {
  EXPECT_EQ(loadError(kernel("y", "frobnicate.b32 %r1, %r2;")),
            "line 13: 'frobnicate.b32': unknown instruction");
  EXPECT_EQ(loadError(kernel("y", "add.rn.ftz.f64 %rd1, %rd2, %rd3;")),
            "line 13: 'add.rn.ftz.f64': only f32 has these modifiers here");
  EXPECT_EQ(loadError(kernel("y", "add.s32 %rd1, %r2, %r3;")),
            "line 13: 'add.s32': '%rd1' does not hold 4 bytes");
  EXPECT_EQ(loadError(kernel("y", "bra $NOWHERE;")),
            "line 13: unknown label '$NOWHERE'");
  EXPECT_EQ(loadError(kernel("y", "mov.b32 %r1, nothing;")),
            "line 13: 'mov.b32': unknown name 'nothing'");
  EXPECT_EQ(loadError(kernel("y", "cvt.bf16.f32 %rs1, %r1;")),
            "line 13: 'cvt.bf16.f32': this conversion needs a rounding");
  EXPECT_EQ(loadError(".target sm_80\n"), "line 2: the module has no .version");
}
