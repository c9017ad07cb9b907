// Emulates a CPU of another class for all code that uses cpuid. Loaded with
// LD_PRELOAD, this library replaces the cpuid and xgetbv instructions of mpc,
// LLVM and oneDNN by faulting ones, and answers in their place. Programs then
// detect, choose and dispatch as on that CPU. Instructions of tiles and of
// float16 arithmetic fault on a host without them, and are emulated.
//
// SPDX-License-Identifier: Apache-2.0
#include "CPUs.h"
#include "Half.h"
#include "Tiles.h"
#include "Trampolines.h"

#include <cerrno>
#include <climits>
#include <cpuid.h>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <link.h>
#include <string>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

using namespace mpc::emulator;

namespace {

/// A replaced instruction.
struct Site {
  const uint8_t *address;
  bool isCPUID; // otherwise xgetbv
};

constexpr size_t kMaxSites = 512;
constexpr uint8_t kCPUID[] = {0x0f, 0xa2}, kXGETBV[] = {0x0f, 0x01, 0xd0},
                  kUD2[] = {0x0f, 0x0b};

const CPU *emulated = nullptr;
bool machineHasTiles = false;
bool tilesGranted = false;
// The program's own actions for SIGILL and SIGTRAP.
struct sigaction programsIllegal, programsTrap;
Site sites[kMaxSites];
size_t siteCount = 0;

} // namespace

[[noreturn]] static void fail(const std::string &message) {
  std::fprintf(stderr, "mpc emulator: %s\n", message.c_str());
  std::_Exit(70);
}

// The function of this name that the program would call without this library.
template <class F>
static F *next(const char *name, F * /*ofTheSameType*/) {
  return reinterpret_cast<F *>(dlsym(RTLD_NEXT, name));
}

static int setAction(int signal, const struct sigaction *action,
                     struct sigaction *old) {
  static auto *real = next("sigaction", &sigaction);
  return real(signal, action, old);
}

// Null for signals that only the program handles.
static struct sigaction *findProgramsAction(int signal) {
  if (signal == SIGILL)
    return &programsIllegal;
  return signal == SIGTRAP ? &programsTrap : nullptr;
}

static void passOn(int signal, siginfo_t *info, void *context) {
  const struct sigaction &programs = *findProgramsAction(signal);
  if (programs.sa_flags & SA_SIGINFO) {
    programs.sa_sigaction(signal, info, context);
  } else if (programs.sa_handler != SIG_DFL && programs.sa_handler != SIG_IGN) {
    programs.sa_handler(signal);
  } else {
    // The signal kills the program.
    struct sigaction plain = {};
    setAction(signal, &plain, nullptr);
    raise(signal);
  }
}

static bool answer(SavedRegisters &registers) {
  const uint8_t *code = registers.instruction();
  for (size_t i = 0; i < siteCount; ++i) {
    if (sites[i].address != code)
      continue;
    if (sites[i].isCPUID) {
      Registers said =
          emulated->cpuid(static_cast<uint32_t>(registers.general(0)),
                          static_cast<uint32_t>(registers.general(1)));
      registers.setGeneral(0, said.eax);
      registers.setGeneral(3, said.ebx);
      registers.setGeneral(1, said.ecx);
      registers.setGeneral(2, said.edx);
      registers.setAddress(registers.address() + sizeof kCPUID);
    } else {
      uint64_t state = emulated->xgetbv();
      registers.setGeneral(0, state & 0xffffffff);
      registers.setGeneral(2, state >> 32);
      registers.setAddress(registers.address() + sizeof kXGETBV);
    }
    return true;
  }
  return false;
}

// True if the instruction was emulated.
static bool run(const Instruction &instruction, SavedRegisters &registers) {
  return (tilesGranted && runTileInstruction(instruction)) ||
         runHalfInstruction(instruction, registers);
}

static void report(const SavedRegisters &registers) {
  const uint8_t *code = registers.instruction();
  std::fprintf(stderr,
               "mpc emulator: no instruction that it knows: %02x %02x %02x "
               "%02x %02x %02x %02x %02x\n",
               code[0], code[1], code[2], code[3], code[4], code[5], code[6],
               code[7]);
}

// An instruction that succeeded once may fail later: tiles may have other
// shapes.
static void runAgain(const Instruction &instruction,
                     SavedRegisters &registers) {
  if (run(instruction, registers))
    return;
  report(registers);
  std::abort();
}

static void handleIllegal(int signal, siginfo_t *info, void *context) {
  SavedRegisters registers(static_cast<ucontext_t *>(context));
  const uint8_t *address = registers.instruction();
  if (answer(registers))
    return;
  if (!emulated->hasTiles())
    return passOn(signal, info, context);
  InstructionBytes bytes;
  if (!copyInstruction(address, bytes))
    return;
  registers.readInstructionAt(bytes.data());
  std::optional<Instruction> instruction = Instruction::decode(registers);
  if (!instruction || !run(*instruction, registers)) {
    report(registers);
    return passOn(signal, info, context);
  }
  registers.setAddress(registers.address() + instruction->length);
  replaceByJump(address, *instruction);
}

// A breakpoint marks a jump that is being written. The saved address is behind
// it.
static void handleTrap(int signal, siginfo_t *info, void *context) {
  SavedRegisters registers(static_cast<ucontext_t *>(context));
  if (!isReplaced(registers.instruction() - 1))
    return passOn(signal, info, context);
  registers.setAddress(registers.address() - 1);
}

static void handle(int signal, void (*handler)(int, siginfo_t *, void *)) {
  struct sigaction action = {};
  action.sa_sigaction = handler;
  action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
  setAction(signal, &action, findProgramsAction(signal));
}

/// The program's own handlers run for instructions that are not emulated.
extern "C" __attribute__((visibility("default"))) int
sigaction(int signal, const struct sigaction *action,
          struct sigaction *old) noexcept {
  struct sigaction *programs = findProgramsAction(signal);
  if (!programs || !emulated)
    return setAction(signal, action, old);
  struct sigaction before = *programs;
  if (action)
    *programs = *action;
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

// A thread that blocks these signals would die of an emulated instruction.
static const sigset_t *withoutOurs(const sigset_t *set, sigset_t &copy) {
  if (!set || !emulated)
    return set;
  copy = *set;
  sigdelset(&copy, SIGILL);
  sigdelset(&copy, SIGTRAP);
  return &copy;
}

extern "C" __attribute__((visibility("default"))) int
pthread_sigmask(int how, const sigset_t *set, sigset_t *old) noexcept {
  static auto *real = next("pthread_sigmask", &pthread_sigmask);
  sigset_t copy;
  return real(how, how == SIG_UNBLOCK ? set : withoutOurs(set, copy), old);
}

extern "C" __attribute__((visibility("default"))) int
sigprocmask(int how, const sigset_t *set, sigset_t *old) noexcept {
  static auto *real = next("sigprocmask", &sigprocmask);
  sigset_t copy;
  return real(how, how == SIG_UNBLOCK ? set : withoutOurs(set, copy), old);
}

// Linux grants tiles to processes that request them by arch_prctl.
static bool grant(long code, long argument) {
  constexpr long kGetSupported = 0x1021, kGetPermission = 0x1022,
                 kRequestPermission = 0x1023, kTileData = 18;
  constexpr uint64_t kTileState = 0x60000;
  uint64_t state = emulated->xgetbv();
  switch (code) {
  case kGetSupported:
  case kGetPermission:
    if (code == kGetPermission && !tilesGranted)
      state &= ~kTileState;
    std::memcpy(reinterpret_cast<void *>(argument), &state, sizeof state);
    return true;
  case kRequestPermission:
    tilesGranted = tilesGranted || argument == kTileData;
    return argument == kTileData;
  default:
    return false;
  }
}

extern "C" __attribute__((visibility("default"))) long syscall(long number,
                                                               ...) noexcept {
  long arguments[6];
  va_list list;
  va_start(list, number);
  for (long &argument : arguments)
    argument = va_arg(list, long);
  va_end(list);
  if (number == SYS_arch_prctl && emulated && emulated->hasTiles() &&
      !machineHasTiles && grant(arguments[0], arguments[1]))
    return 0;
  static auto *real = next("syscall", &syscall);
  return real(number, arguments[0], arguments[1], arguments[2], arguments[3],
              arguments[4], arguments[5]);
}

// mpc drops unused pages of its code. Read from the file again, they would have
// the original instructions.
extern "C" __attribute__((visibility("default"))) int
madvise(void *memory, size_t length, int advice) noexcept {
  static auto *real = next("madvise", &madvise);
  const auto *first = static_cast<const uint8_t *>(memory);
  if (advice == MADV_DONTNEED)
    for (size_t i = 0; i < siteCount; ++i)
      if (sites[i].address >= first && sites[i].address < first + length)
        return 0;
  return real(memory, length, advice);
}

static void replace(uint8_t *address, bool isCPUID, const char *library) {
  const uint8_t *expected = isCPUID ? kCPUID : kXGETBV;
  if (std::memcmp(address, expected, isCPUID ? 2 : 3) != 0 ||
      siteCount == kMaxSites)
    fail(std::string(library) + " has changed; build mpc_emulated_cpu again");
  sites[siteCount++] = {address, isCPUID};
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  auto start = reinterpret_cast<uintptr_t>(address) / page * page;
  size_t length = reinterpret_cast<uintptr_t>(address) + sizeof kUD2 - start;
  auto *pages = reinterpret_cast<void *>(start);
  if (mprotect(pages, length, PROT_READ | PROT_WRITE | PROT_EXEC) != 0)
    fail(std::string("code cannot be changed: ") + std::strerror(errno));
  std::memcpy(address, kUD2, sizeof kUD2);
  mprotect(pages, length, PROT_READ | PROT_EXEC);
}

static std::string folderOfThisLibrary() {
  Dl_info info;
  if (!dladdr(reinterpret_cast<void *>(&handleIllegal), &info))
    fail("its own path is not known");
  std::string path = info.dli_fname;
  return path.substr(0, path.rfind('/') + 1);
}

// Has a file for each library or program that uses cpuid, with a line per
// instruction: its offset and name.
static const std::string &folderOfInstructions() {
  static const std::string folder = folderOfThisLibrary() + "cpuid/";
  return folder;
}

static int replaceInLibrary(dl_phdr_info *library, size_t, void *) {
  std::string path = library->dlpi_name;
  // The program itself comes without a name.
  if (path.empty()) {
    path.resize(PATH_MAX);
    ssize_t length = readlink("/proc/self/exe", path.data(), path.size());
    if (length < 0)
      fail(std::string("/proc/self/exe: ") + std::strerror(errno));
    path.resize(length);
  }
  const char *name = path.c_str() + path.rfind('/') + 1;
  std::FILE *file = std::fopen((folderOfInstructions() + name).c_str(), "r");
  if (!file)
    return 0;
  unsigned long offset;
  char instruction[16];
  while (std::fscanf(file, "%lx %15s", &offset, instruction) == 2)
    replace(reinterpret_cast<uint8_t *>(library->dlpi_addr + offset),
            std::strcmp(instruction, "cpuid") == 0, name);
  std::fclose(file);
  return 0;
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
  const CPU *cpu = CPU::find(name);
  if (!cpu)
    fail(std::string("MPC_EMULATOR_CPU: no CPU '") + name + "'");
  SavedRegisters::findLayout();
  Registers features, more;
  __cpuid_count(7, 0, features.eax, features.ebx, features.ecx, features.edx);
  __cpuid_count(7, 1, more.eax, more.ebx, more.ecx, more.edx);
  machineHasTiles = features.edx >> 24 & 1;
  constexpr uint32_t kAVX512F = 1u << 16, kAVX512BF16 = 1u << 5;
  if (cpu->hasTiles() && !(features.ebx & kAVX512F && more.eax & kAVX512BF16))
    fail(std::string(name) + " needs a machine with AVX-512 and bfloat16");
  // Without these files, all libraries would see the real CPU.
  if (access(folderOfInstructions().c_str(), R_OK | X_OK) != 0)
    fail(folderOfInstructions() + " cannot be read");
  handle(SIGILL, handleIllegal);
  handle(SIGTRAP, handleTrap);
  prepareTrampolines(runAgain);
  emulated = cpu;
  dl_iterate_phdr(replaceInLibrary, nullptr);
}
