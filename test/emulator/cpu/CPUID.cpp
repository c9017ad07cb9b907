// A CPU of another class, for everything that asks cpuid what it runs on:
// loaded with LD_PRELOAD, this library makes the instruction fault and answers
// in its place. Programs then detect, choose and dispatch as they would there.
//
// What is hidden is only unsaid: an instruction of a hidden extension still
// works, but for AMX, whose tiles the kernel hands to nobody who has not asked.
//
// SPDX-License-Identifier: Apache-2.0
#include <asm/prctl.h>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <iterator>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

namespace {

struct Registers {
  uint32_t eax, ebx, ecx, edx;
};

/// What a CPU answers to eax = leaf, ecx = subleaf: `(real & keep) | set`.
struct Leaf {
  uint32_t leaf, subleaf;
  Registers keep, set;
};

constexpr uint32_t kAll = ~0u;
constexpr uint32_t bit(unsigned number) { return 1u << number; }

// Leaf 7.0 in edx, and 7.1 in eax: what Intel's servers alone have.
constexpr uint32_t kFP16AndTiles = bit(22) | bit(23) | bit(24) | bit(25);
constexpr uint32_t kIFMAOfAVXAndFP16Tiles = bit(21) | bit(23);
// Leaf 7.0 in ebx: what came after Haswell.
constexpr uint32_t kAVX512 = bit(16) | bit(17) | bit(21) | bit(26) | bit(27) |
                             bit(28) | bit(30) | bit(31);
constexpr uint32_t kRDSEEDAndADXAndSHA = bit(18) | bit(19) | bit(29);

/// A cache of lines of 64 bytes: data (1), instructions (2) or both (3).
constexpr Registers cache(uint32_t type, uint32_t level, uint32_t ways,
                          uint32_t sets) {
  return {type | level << 5 | bit(8), 63 | (ways - 1) << 22, sets - 1, 0};
}

/// Family 1Ah, model 02h.
constexpr Leaf kZen5[] = {
    {0x0, 0, {}, {0x10, 0x68747541, 0x444d4163, 0x69746e65}},
    {0x1, 0, {0, kAll, kAll, kAll}, {0x00b00f21, 0, 0, 0}},
    {0x2, 0, {}, {}},
    {0x4, 0, {}, {}},
    {0x4, 1, {}, {}},
    {0x4, 2, {}, {}},
    {0x4, 3, {}, {}},
    {0x7, 0, {kAll, kAll, kAll, ~kFP16AndTiles}, {}},
    {0x7, 1, {~kIFMAOfAVXAndFP16Tiles, kAll, kAll, 0}, {}},
    {0x14, 0, {}, {}},
    {0x19, 0, {}, {}},
    {0x1a, 0, {}, {}},
    {0x1d, 0, {}, {}},
    {0x1e, 0, {}, {}},
    {0x1f, 0, {}, {}},
    {0x80000000, 0, {}, {0x80000021, 0x68747541, 0x444d4163, 0x69746e65}},
    // Bit 22: leaf 8000001Dh tells of caches.
    {0x80000001, 0, {0, 0, kAll, kAll}, {0x00b00f21, 0, bit(22), 0}},
    {0x80000006, 0, {}, {0, 0, 1024u << 16 | 0x8140, 64u << 18 | 0x9140}},
    {0x80000008, 0, {0xffff, 0, 0, 0}, {0, 0, 1, 0}},
    {0x8000001d, 0, {}, cache(1, 1, 12, 64)},
    {0x8000001d, 1, {}, cache(2, 1, 8, 64)},
    {0x8000001d, 2, {}, cache(3, 2, 16, 1024)},
    {0x8000001d, 3, {}, cache(3, 3, 16, 32768)},
    {0x8000001e, 0, {}, {}},
};

/// Family 6, model 3Fh.
constexpr Leaf kHaswell[] = {
    {0x0, 0, {}, {0xd, 0x756e6547, 0x6c65746e, 0x49656e69}},
    {0x1, 0, {0, kAll, kAll, kAll}, {0x000306f2, 0, 0, 0}},
    {0x4, 0, {}, cache(1, 1, 8, 64)},
    {0x4, 1, {}, cache(2, 1, 8, 64)},
    {0x4, 2, {}, cache(3, 2, 8, 512)},
    {0x4, 3, {}, cache(3, 3, 20, 24576)},
    {0x7, 0, {0, ~(kAVX512 | kRDSEEDAndADXAndSHA), 0, 0}, {}},
    {0x7, 1, {}, {}},
};

struct CPU {
  const char *name;
  const Leaf *leaves;
  size_t leafCount;
};
constexpr CPU kCPUs[] = {
    {"zen5", kZen5, std::size(kZen5)},
    {"haswell", kHaswell, std::size(kHaswell)},
};

const CPU *emulated = nullptr;
struct sigaction programs; // what the program does about SIGSEGV

} // namespace

static void letCPUIDFault(bool faults) {
  if (syscall(SYS_arch_prctl, ARCH_SET_CPUID, faults ? 0 : 1) == 0)
    return;
  std::fprintf(stderr, "mpc emulator: cpuid cannot be made to fault here\n");
  std::_Exit(70);
}

static Registers askCPU(uint32_t leaf, uint32_t subleaf) {
  Registers said;
  letCPUIDFault(false);
  __asm__ volatile("cpuid"
                   : "=a"(said.eax), "=b"(said.ebx), "=c"(said.ecx),
                     "=d"(said.edx)
                   : "a"(leaf), "c"(subleaf));
  letCPUIDFault(true);
  return said;
}

// Leaves without subleaves answer alike whatever ecx is.
static bool hasSubleaves(uint32_t leaf) {
  return leaf == 0x4 || leaf == 0x7 || leaf == 0x8000001d;
}

static const Leaf *findLeaf(uint32_t leaf, uint32_t subleaf) {
  for (size_t i = 0; i < emulated->leafCount; ++i) {
    const Leaf &known = emulated->leaves[i];
    if (known.leaf == leaf && (!hasSubleaves(leaf) || known.subleaf == subleaf))
      return &known;
  }
  return nullptr;
}

static Registers answer(uint32_t leaf, uint32_t subleaf) {
  Registers real = askCPU(leaf, subleaf);
  const Leaf *known = findLeaf(leaf, subleaf);
  if (!known)
    return real;
  const Registers &keep = known->keep, &set = known->set;
  return {(real.eax & keep.eax) | set.eax, (real.ebx & keep.ebx) | set.ebx,
          (real.ecx & keep.ecx) | set.ecx, (real.edx & keep.edx) | set.edx};
}

// libc's sigaction.
static int setAction(int signal, const struct sigaction *action,
                     struct sigaction *old) {
  static auto *real =
      reinterpret_cast<decltype(&sigaction)>(dlsym(RTLD_NEXT, "sigaction"));
  return real(signal, action, old);
}

static void passOn(int signal, siginfo_t *info, void *context) {
  if (programs.sa_flags & SA_SIGINFO) {
    programs.sa_sigaction(signal, info, context);
  } else if (programs.sa_handler != SIG_DFL && programs.sa_handler != SIG_IGN) {
    programs.sa_handler(signal);
  } else {
    // The instruction runs again, and the program dies of it.
    struct sigaction plain = {};
    setAction(SIGSEGV, &plain, nullptr);
  }
}

static void handleFault(int signal, siginfo_t *info, void *context) {
  greg_t *registers = static_cast<ucontext_t *>(context)->uc_mcontext.gregs;
  auto *code = reinterpret_cast<const unsigned char *>(registers[REG_RIP]);
  // An access to an absent page has another code, and where the instruction is
  // there is a page, or it would not have been run.
  if (info->si_code != SI_KERNEL || code[0] != 0x0f || code[1] != 0xa2)
    return passOn(signal, info, context);
  Registers said = answer(static_cast<uint32_t>(registers[REG_RAX]),
                          static_cast<uint32_t>(registers[REG_RCX]));
  registers[REG_RAX] = said.eax;
  registers[REG_RBX] = said.ebx;
  registers[REG_RCX] = said.ecx;
  registers[REG_RDX] = said.edx;
  registers[REG_RIP] += 2;
}

/// A program's own handler for SIGSEGV is called for its own faults only.
extern "C" __attribute__((visibility("default"))) int
sigaction(int signal, const struct sigaction *action,
          struct sigaction *old) noexcept {
  if (signal != SIGSEGV || !emulated)
    return setAction(signal, action, old);
  struct sigaction before = programs;
  if (action)
    programs = *action;
  if (old)
    *old = before;
  return 0;
}

extern "C" __attribute__((visibility("default"))) sighandler_t
signal(int number, sighandler_t handler) noexcept {
  struct sigaction action = {}, old;
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  return sigaction(number, &action, &old) == 0 ? old.sa_handler : SIG_ERR;
}

static const char *findVariable(char **environment, const char *name) {
  size_t length = std::strlen(name);
  for (; *environment; ++environment)
    if (std::strncmp(*environment, name, length) == 0 &&
        (*environment)[length] == '=')
      return *environment + length + 1;
  return "";
}

// Runs before any other library's constructor, libc's included, so that none of
// them sees the real CPU.
__attribute__((constructor)) static void start(int, char **,
                                               char **environment) {
  const char *name = findVariable(environment, "MPC_EMULATOR_CPU");
  if (!*name)
    return;
  struct sigaction action = {};
  action.sa_sigaction = handleFault;
  action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
  setAction(SIGSEGV, &action, &programs);
  for (const CPU &cpu : kCPUs)
    if (std::strcmp(cpu.name, name) == 0)
      emulated = &cpu;
  if (!emulated) {
    std::fprintf(stderr, "mpc emulator: MPC_EMULATOR_CPU: no CPU '%s'\n", name);
    std::_Exit(70);
  }
  letCPUIDFault(true);
}
