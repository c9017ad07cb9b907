// Each replaced instruction gets a nearby piece of code:
//
//   lea rsp, [rsp - 256]     keeps a leaf function's red zone
//   push rax
//   mov rax, site
//   call [trampoline]
//   pop rax
//   lea rsp, [rsp + 256]
//   jmp behind the instruction
//
// SPDX-License-Identifier: Apache-2.0
#include "Trampolines.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <linux/membarrier.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

using namespace mpc::emulator;

namespace {

/// A replaced instruction.
struct Site {
  const uint8_t *address;
  uint8_t bytes[16];
};

/// A site with its code.
struct Piece {
  Site site;
  uint8_t code[40];
};
static_assert(sizeof(Piece) == 64);

/// Memory for pieces, within a jump's reach of the instructions that it serves.
struct Arena {
  uint8_t *memory;
  size_t used;
};

constexpr size_t kArenaBytes = 16 << 20, kMaxArenas = 64;
// The first bytes hold the address of the trampoline.
constexpr size_t kArenaHead = sizeof(Piece);
constexpr int64_t kReach = int64_t{1} << 31;
constexpr uint8_t kBreakpoint = 0xcc, kJump = 0xe9;
constexpr size_t kJumpBytes = 5;

Emulation emulate = nullptr;
bool canSynchronize = false;
std::atomic_flag replacing = ATOMIC_FLAG_INIT;
std::atomic<const uint8_t *> inWork{nullptr};
Arena arenas[kMaxArenas];
std::atomic<size_t> arenaCount{0};

} // namespace

extern "C" void mpc_emulator_trampoline();

extern "C" void mpc_emulator_emulate(const Site *site, greg_t *general,
                                     uint8_t *saved) {
  general[REG_RIP] = reinterpret_cast<greg_t>(site->address);
  SavedRegisters registers(general, saved, site->bytes);
  emulate(*Instruction::decode(registers), registers);
}

// Saves the general registers like a signal's frame, and the others by XSAVE,
// at rsp + 256.
__asm__(R"(
  .intel_syntax noprefix
  .text
  .type mpc_emulator_trampoline, @function
mpc_emulator_trampoline:
  push rbp
  mov rbp, rsp
  pushfq
  lea rsp, [rsp - 4096 - 256]
  and rsp, -64
  mov [rsp + 8*0], r8
  mov [rsp + 8*1], r9
  mov [rsp + 8*2], r10
  mov [rsp + 8*3], r11
  mov [rsp + 8*4], r12
  mov [rsp + 8*5], r13
  mov [rsp + 8*6], r14
  mov [rsp + 8*7], r15
  mov [rsp + 8*8], rdi
  mov [rsp + 8*9], rsi
  mov [rsp + 8*11], rbx
  mov [rsp + 8*12], rdx
  mov [rsp + 8*14], rcx
  mov rcx, [rbp]
  mov [rsp + 8*10], rcx
  mov rcx, [rbp + 16]
  mov [rsp + 8*13], rcx
  lea rcx, [rbp + 24 + 256]
  mov [rsp + 8*15], rcx
  mov rcx, [rbp - 8]
  mov [rsp + 8*17], rcx
  xor ecx, ecx
  mov [rsp + 256 + 512 + 8*0], rcx
  mov [rsp + 256 + 512 + 8*1], rcx
  mov [rsp + 256 + 512 + 8*2], rcx
  mov [rsp + 256 + 512 + 8*3], rcx
  mov [rsp + 256 + 512 + 8*4], rcx
  mov [rsp + 256 + 512 + 8*5], rcx
  mov [rsp + 256 + 512 + 8*6], rcx
  mov [rsp + 256 + 512 + 8*7], rcx
  mov rdi, rax
  mov rsi, rsp
  mov eax, 0xe6
  xor edx, edx
  xsave64 [rsp + 256]
  cld
  lea rdx, [rsp + 256]
  call mpc_emulator_emulate
  mov eax, 0xe6
  xor edx, edx
  xrstor64 [rsp + 256]
  mov rcx, [rsp + 8*17]
  mov [rbp - 8], rcx
  mov rcx, [rsp + 8*13]
  mov [rbp + 16], rcx
  mov rcx, [rsp + 8*10]
  mov [rbp], rcx
  mov r8, [rsp + 8*0]
  mov r9, [rsp + 8*1]
  mov r10, [rsp + 8*2]
  mov r11, [rsp + 8*3]
  mov r12, [rsp + 8*4]
  mov r13, [rsp + 8*5]
  mov r14, [rsp + 8*6]
  mov r15, [rsp + 8*7]
  mov rdi, [rsp + 8*8]
  mov rsi, [rsp + 8*9]
  mov rbx, [rsp + 8*11]
  mov rdx, [rsp + 8*12]
  mov rcx, [rsp + 8*14]
  lea rsp, [rbp - 8]
  popfq
  pop rbp
  ret
  .size mpc_emulator_trampoline, . - mpc_emulator_trampoline
  .att_syntax
)");

void mpc::emulator::prepareTrampolines(Emulation emulation) {
  emulate = emulation;
  canSynchronize =
      syscall(SYS_membarrier,
              MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE, 0, 0) == 0;
}

static bool isNear(const uint8_t *memory, const uint8_t *address) {
  int64_t distance = memory - address;
  return distance > -kReach + int64_t{kArenaBytes} * 2 &&
         distance < kReach - int64_t{kArenaBytes} * 2;
}

static Arena *makeArena(const uint8_t *address) {
  size_t count = arenaCount.load();
  if (count == kMaxArenas)
    return nullptr;
  constexpr int64_t kStep = int64_t{32} << 20;
  auto center = reinterpret_cast<int64_t>(address) / kStep * kStep;
  for (int64_t distance = kStep; distance < kReach; distance += kStep)
    for (int64_t place : {center - distance, center + distance}) {
      auto *hint = reinterpret_cast<uint8_t *>(place);
      if (place <= 0 || !isNear(hint, address))
        continue;
      void *memory =
          mmap(hint, kArenaBytes, PROT_READ | PROT_WRITE | PROT_EXEC,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
      if (memory != hint)
        continue;
      auto *target = reinterpret_cast<void *>(&mpc_emulator_trampoline);
      std::memcpy(hint, &target, sizeof target);
      arenas[count] = {hint, kArenaHead};
      arenaCount.store(count + 1);
      return &arenas[count];
    }
  return nullptr;
}

static Arena *findArena(const uint8_t *address) {
  for (size_t i = 0; i < arenaCount.load(); ++i)
    if (isNear(arenas[i].memory, address) &&
        arenas[i].used + sizeof(Piece) <= kArenaBytes)
      return &arenas[i];
  return makeArena(address);
}

static int32_t distanceTo(const uint8_t *target, const uint8_t *behind) {
  return static_cast<int32_t>(target - behind);
}

static const Piece *makePiece(Arena &arena, const uint8_t *address,
                              unsigned length) {
  auto *piece = reinterpret_cast<Piece *>(arena.memory + arena.used);
  arena.used += sizeof(Piece);
  piece->site.address = address;
  std::memcpy(piece->site.bytes, address, length);
  uint8_t *code = piece->code;
  auto emit = [&](std::initializer_list<uint8_t> bytes) {
    for (uint8_t byte : bytes)
      *code++ = byte;
  };
  auto emitDistance = [&](const uint8_t *target) {
    int32_t distance = distanceTo(target, code + 4);
    std::memcpy(code, &distance, 4);
    code += 4;
  };
  emit({0x48, 0x8d, 0xa4, 0x24, 0x00, 0xff, 0xff, 0xff, 0x50, 0x48, 0xb8});
  const Site *site = &piece->site;
  std::memcpy(code, &site, sizeof site);
  code += sizeof site;
  emit({0xff, 0x15});
  emitDistance(arena.memory);
  emit({0x58, 0x48, 0x8d, 0xa4, 0x24, 0x00, 0x01, 0x00, 0x00, kJump});
  emitDistance(address + length);
  return piece;
}

static bool allowWriting(uint8_t *address) {
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  uintptr_t start = reinterpret_cast<uintptr_t>(address) / page * page;
  size_t length = reinterpret_cast<uintptr_t>(address) + kJumpBytes - start;
  return mprotect(reinterpret_cast<void *>(start), length,
                  PROT_READ | PROT_WRITE | PROT_EXEC) == 0;
}

static void synchronizeCores() {
  syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE, 0, 0);
}

// A concurrent thread sees the instruction, a breakpoint, or the jump.
static void writeJump(uint8_t *address, const uint8_t *target) {
  int32_t distance = distanceTo(target, address + kJumpBytes);
  inWork = address;
  __atomic_store_n(address, kBreakpoint, __ATOMIC_SEQ_CST);
  synchronizeCores();
  std::memcpy(address + 1, &distance, 4);
  synchronizeCores();
  __atomic_store_n(address, kJump, __ATOMIC_SEQ_CST);
  inWork = nullptr;
}

static bool isJumpToPiece(const uint8_t *address) {
  if (*address != kJump)
    return false;
  int32_t distance;
  std::memcpy(&distance, address + 1, 4);
  const uint8_t *target = address + kJumpBytes + distance;
  for (size_t i = 0; i < arenaCount.load(); ++i)
    if (target >= arenas[i].memory && target < arenas[i].memory + kArenaBytes)
      return true;
  return false;
}

bool mpc::emulator::isReplaced(const uint8_t *address) {
  return inWork == address || isJumpToPiece(address);
}

bool mpc::emulator::copyInstruction(const uint8_t *address,
                                    InstructionBytes &bytes) {
  while (replacing.test_and_set())
    ;
  const bool isThere = !isReplaced(address);
  if (isThere) {
    // The instruction may end at its page's end, with no page behind.
    const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
    const size_t left = page - reinterpret_cast<uintptr_t>(address) % page;
    const size_t here = std::min(left, bytes.size());
    bytes = {};
    std::memcpy(bytes.data(), address, here);
    iovec rest{bytes.data() + here, bytes.size() - here};
    iovec behind{const_cast<uint8_t *>(address) + here, rest.iov_len};
    if (rest.iov_len > 0)
      process_vm_readv(getpid(), &rest, 1, &behind, 1, 0);
  }
  replacing.clear();
  return isThere;
}

void mpc::emulator::replaceByJump(const uint8_t *address,
                                  const Instruction &instruction) {
  if (!canSynchronize || instruction.length < kJumpBytes ||
      replacing.test_and_set())
    return;
  auto *code = const_cast<uint8_t *>(address);
  Arena *arena = isReplaced(address) ? nullptr : findArena(address);
  if (arena && allowWriting(code))
    writeJump(code, makePiece(*arena, address, instruction.length)->code);
  replacing.clear();
}
