// Detects features with cpuid. A feature counts only if the operating system
// saves the registers it uses (XCR0).
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/CPUFeatures.h"

#include <algorithm>
#include <cerrno>
#include <cpuid.h>
#include <cstdint>
#include <cstring>
#include <sys/syscall.h>
#include <unistd.h>

namespace mpc::runtime {
namespace {

enum Register { EAX, EBX, ECX, EDX };

/// Register state that the operating system must have enabled, as XCR0 masks.
enum : uint64_t {
  kNoState = 0,
  kAVXState = 0x6,
  kAVX512State = 0xe6,
  kAMXState = 0x60000,
};

/// The place where cpuid reports a feature.
struct FeatureBit {
  const char *name;
  uint32_t leaf, subleaf;
  Register reg;
  unsigned bit;
  uint64_t state;
};

constexpr FeatureBit kFeatureBits[] = {
    {"cmov", 1, 0, EDX, 15, kNoState},
    {"cx8", 1, 0, EDX, 8, kNoState},
    {"mmx", 1, 0, EDX, 23, kNoState},
    {"fxsr", 1, 0, EDX, 24, kNoState},
    {"sse", 1, 0, EDX, 25, kNoState},
    {"sse2", 1, 0, EDX, 26, kNoState},
    {"sse3", 1, 0, ECX, 0, kNoState},
    {"pclmul", 1, 0, ECX, 1, kNoState},
    {"ssse3", 1, 0, ECX, 9, kNoState},
    {"fma", 1, 0, ECX, 12, kAVXState},
    {"cx16", 1, 0, ECX, 13, kNoState},
    {"sse4.1", 1, 0, ECX, 19, kNoState},
    {"sse4.2", 1, 0, ECX, 20, kNoState},
    {"crc32", 1, 0, ECX, 20, kNoState},
    {"movbe", 1, 0, ECX, 22, kNoState},
    {"popcnt", 1, 0, ECX, 23, kNoState},
    {"aes", 1, 0, ECX, 25, kNoState},
    {"xsave", 1, 0, ECX, 27, kNoState},
    {"avx", 1, 0, ECX, 28, kAVXState},
    {"f16c", 1, 0, ECX, 29, kAVXState},
    {"rdrnd", 1, 0, ECX, 30, kNoState},
    {"fsgsbase", 7, 0, EBX, 0, kNoState},
    {"bmi", 7, 0, EBX, 3, kNoState},
    {"avx2", 7, 0, EBX, 5, kAVXState},
    {"bmi2", 7, 0, EBX, 8, kNoState},
    {"avx512f", 7, 0, EBX, 16, kAVX512State},
    {"avx512dq", 7, 0, EBX, 17, kAVX512State},
    {"rdseed", 7, 0, EBX, 18, kNoState},
    {"adx", 7, 0, EBX, 19, kNoState},
    {"avx512ifma", 7, 0, EBX, 21, kAVX512State},
    {"clflushopt", 7, 0, EBX, 23, kNoState},
    {"clwb", 7, 0, EBX, 24, kNoState},
    {"avx512cd", 7, 0, EBX, 28, kAVX512State},
    {"sha", 7, 0, EBX, 29, kNoState},
    {"avx512bw", 7, 0, EBX, 30, kAVX512State},
    {"avx512vl", 7, 0, EBX, 31, kAVX512State},
    {"avx512vbmi", 7, 0, ECX, 1, kAVX512State},
    {"avx512vbmi2", 7, 0, ECX, 6, kAVX512State},
    {"gfni", 7, 0, ECX, 8, kNoState},
    {"vaes", 7, 0, ECX, 9, kAVXState},
    {"vpclmulqdq", 7, 0, ECX, 10, kAVXState},
    {"avx512vnni", 7, 0, ECX, 11, kAVX512State},
    {"avx512bitalg", 7, 0, ECX, 12, kAVX512State},
    {"avx512vpopcntdq", 7, 0, ECX, 14, kAVX512State},
    {"avx512vp2intersect", 7, 0, EDX, 8, kAVX512State},
    {"amx-bf16", 7, 0, EDX, 22, kAMXState},
    {"avx512fp16", 7, 0, EDX, 23, kAVX512State},
    {"amx-tile", 7, 0, EDX, 24, kAMXState},
    {"amx-int8", 7, 0, EDX, 25, kAMXState},
    {"avxvnni", 7, 1, EAX, 4, kAVXState},
    {"avx512bf16", 7, 1, EAX, 5, kAVX512State},
    {"amx-fp16", 7, 1, EAX, 21, kAMXState},
    {"avxifma", 7, 1, EAX, 23, kAVXState},
    {"sahf", 0x80000001, 0, ECX, 0, kNoState},
    {"lzcnt", 0x80000001, 0, ECX, 5, kNoState},
    {"prfchw", 0x80000001, 0, ECX, 8, kNoState},
    {"64bit", 0x80000001, 0, EDX, 29, kNoState},
};

} // namespace

/// Returns XCR0, or 0 if the operating system does not use xsave.
static uint64_t enabledState() {
  uint32_t eax, ebx, ecx, edx;
  constexpr uint32_t osxsave = 1u << 27;
  if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx) || !(ecx & osxsave))
    return 0;
  uint32_t low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (static_cast<uint64_t>(high) << 32) | low;
}

static std::vector<std::string> detect() {
  std::vector<std::string> found;
  uint64_t state = enabledState();
  // The table is sorted by leaf, so that each leaf is queried once: in a
  // virtual machine `cpuid` traps into the hypervisor.
  uint32_t regs[4] = {}, leaf = 0, subleaf = 0;
  for (const FeatureBit &feature : kFeatureBits) {
    if (feature.leaf != leaf || feature.subleaf != subleaf) {
      leaf = feature.leaf, subleaf = feature.subleaf;
      if (!__get_cpuid_count(leaf, subleaf, &regs[EAX], &regs[EBX], &regs[ECX],
                             &regs[EDX]))
        std::fill_n(regs, 4, 0);
    }
    bool enabled = (state & feature.state) == feature.state;
    if (enabled && (regs[feature.reg] >> feature.bit & 1))
      found.push_back(feature.name);
  }
  std::sort(found.begin(), found.end());
  return found;
}

const std::vector<std::string> &hostFeatures() {
  static const std::vector<std::string> features = detect();
  return features;
}

bool hostHasFeature(std::string_view feature) {
  const std::vector<std::string> &features = hostFeatures();
  return std::binary_search(features.begin(), features.end(), feature);
}

bool hostHasAVX512() {
  static const bool has =
      hostHasFeature("avx512f") && hostHasFeature("avx512bw");
  return has;
}

std::vector<std::string>
missingFeatures(const std::vector<std::string> &needed) {
  std::vector<std::string> missing;
  for (const std::string &feature : needed)
    if (!hostHasFeature(feature))
      missing.push_back(feature);
  return missing;
}

static Status askForAMX() {
  // Linux grants the 8 KiB of tile data only to processes that ask.
  constexpr long archReqXcompPerm = 0x1023;
  constexpr long xfeatureTileData = 18;
  if (syscall(SYS_arch_prctl, archReqXcompPerm, xfeatureTileData) == 0)
    return Status();
  return Status(StatusCode::Device,
                "the kernel refuses the use of AMX tiles (" +
                    std::string(std::strerror(errno)) +
                    "); compile for --target x86-64-v4 to do without");
}

Status requestAMXPermission() {
  static const Status status = askForAMX();
  return status;
}

} // namespace mpc::runtime
