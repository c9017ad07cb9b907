// Defines the known targets and detects the features of the host's CPU.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Target/TargetInfo.h"

#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/TargetParser/Host.h"

using namespace mlir;
using namespace mpc;

// The CPU levels. Each level adds features to the level before. Lists only
// features that generated code uses, so that an artifact requires no other
// features.
static constexpr llvm::StringLiteral baseline[] = {"cmov", "cx8", "fxsr",
                                                   "mmx",  "sse", "sse2"};
static constexpr llvm::StringLiteral levelV3[] = {
    "avx",  "avx2",   "bmi",    "bmi2",  "crc32",  "cx16",
    "f16c", "fma",    "lzcnt",  "movbe", "popcnt", "sahf",
    "sse3", "sse4.1", "sse4.2", "ssse3", "xsave"};
static constexpr llvm::StringLiteral levelV4[] = {
    "avx512bw", "avx512cd", "avx512dq", "avx512f", "avx512vl"};
static constexpr llvm::StringLiteral bf16Servers[] = {
    "avx512bf16",  "avx512bitalg", "avx512ifma",      "avx512vbmi",
    "avx512vbmi2", "avx512vnni",   "avx512vpopcntdq", "gfni"};
// Generated code does not use AMX tiles. Contraction libraries do, if the
// artifact's features include them.
static constexpr llvm::StringLiteral sapphireRapids[] = {"amx-bf16", "amx-tile",
                                                         "avx512fp16"};

static constexpr llvm::ArrayRef<llvm::StringLiteral> levels[] = {
    baseline, levelV3, levelV4, bf16Servers, sapphireRapids};

namespace {
/// A GPU architecture, and the rates of its usual GPU in data centres.
struct KnownGPU {
  llvm::StringLiteral name;
  /// The oldest version of PTX, from 8.0 on, that knows the architecture. An
  /// older driver refuses newer PTX.
  llvm::StringLiteral ptx;
  double memory; ///< bytes a nanosecond, by the data sheet
  /// Operations a nanosecond on numbers of 16 bits, with sums in f32: with rows
  /// that are multiples of 16 bytes, and with other rows.
  double aligned, unaligned;
};
struct KnownTarget {
  llvm::StringLiteral name;
  llvm::StringLiteral tuneCPU;
  /// The number of `levels` that the target has.
  unsigned levelCount;
};
} // namespace

static constexpr KnownTarget knownTargets[] = {
    {"x86-64", "x86-64", 1},
    {"x86-64-v3", "haswell", 2},
    {"x86-64-v4", "skylake-avx512", 3},
    {"zen5", "znver5", 4},
    {"sapphirerapids", "sapphirerapids", 5},
};

// The H100's rates of products were measured. An A100 reaches 250 thousand of
// the 312 thousand in its data sheet. For unaligned rows, an H100 falls back to
// the A100's kernels, and is no slower than an A100. Nothing else was measured:
// the other GPUs count with four fifths of their data sheet's dense rate for
// bf16, the B200 with three fifths, like the H100.
static constexpr KnownGPU knownGPUs[] = {
    {"sm_80", "ptx80", 1555, 250e3, 95e3},   // A100
    {"sm_86", "ptx80", 600, 100e3, 95e3},    // A10
    {"sm_89", "ptx80", 864, 290e3, 95e3},    // L40S
    {"sm_90", "ptx80", 3350, 600e3, 95e3},   // H100
    {"sm_100", "ptx86", 8000, 1350e3, 95e3}, // B200
    {"sm_120", "ptx87", 1792, 400e3, 95e3},  // RTX PRO 6000
};

// Returns null if `name` is not a GPU.
static const KnownGPU *findGPU(llvm::StringRef name) {
  const KnownGPU *gpu = llvm::find_if(
      knownGPUs, [&](const KnownGPU &each) { return each.name == name; });
  return gpu == std::end(knownGPUs) ? nullptr : gpu;
}

llvm::ArrayRef<llvm::StringLiteral> TargetInfo::getNames() {
  static const std::vector<llvm::StringLiteral> names = [] {
    std::vector<llvm::StringLiteral> all = {"native"};
    for (const KnownTarget &cpu : knownTargets)
      all.push_back(cpu.name);
    for (const KnownGPU &gpu : knownGPUs)
      all.push_back(gpu.name);
    return all;
  }();
  return names;
}

llvm::Expected<TargetInfo> TargetInfo::get(llvm::StringRef name) {
  // "native" has the features of `levels` that the host's CPU has. Detect the
  // features only once: passes ask often, and in a virtual machine each `cpuid`
  // instruction goes through the hypervisor and takes about 7 microseconds.
  if (name == "native") {
    static const TargetInfo native = [] {
      TargetInfo target;
      target.name = "native";
      target.tuneCPU = llvm::sys::getHostCPUName().str();
      llvm::StringMap<bool> host = llvm::sys::getHostCPUFeatures();
      for (llvm::ArrayRef<llvm::StringLiteral> level : levels)
        for (llvm::StringRef feature : level)
          if (host.lookup(feature))
            target.features.push_back(feature.str());
      llvm::sort(target.features);
      return target;
    }();
    return native;
  }
  TargetInfo target;
  target.name = name.str();
  if (const KnownGPU *gpu = findGPU(name)) {
    // The name of a GPU is its architecture, such as sm_90. The name of a CPU
    // is its level.
    target.gpu = true;
    target.tuneCPU = name.str();
    target.features.push_back(gpu->ptx.str());
  } else {
    const KnownTarget *known = llvm::find_if(
        knownTargets, [&](const KnownTarget &t) { return t.name == name; });
    if (known == std::end(knownTargets))
      return llvm::createStringError("unknown target '%s', expected one of %s",
                                     name.str().c_str(),
                                     llvm::join(getNames(), ", ").c_str());
    // A level includes all lower levels: x86-64-v4 is v3 plus AVX-512.
    target.tuneCPU = known->tuneCPU.str();
    for (llvm::ArrayRef<llvm::StringLiteral> level :
         llvm::ArrayRef(levels).take_front(known->levelCount))
      for (llvm::StringRef feature : level)
        target.features.push_back(feature.str());
  }
  // Sort, so that targets with the same features compare equal.
  llvm::sort(target.features);
  return target;
}

bool TargetInfo::hasFeature(llvm::StringRef feature) const {
  return llvm::is_contained(features, feature);
}

std::string TargetInfo::getFeatureString() const {
  std::string text;
  for (const std::string &feature : features)
    text += (text.empty() ? "+" : ",+") + feature;
  return text;
}

unsigned TargetInfo::getVectorBits() const {
  if (hasFeature("avx512f"))
    return 512;
  return hasFeature("avx2") ? 256 : 128;
}

double TargetInfo::getMemoryTime(int64_t bytes) const {
  return gpu ? static_cast<double>(bytes) / findGPU(name)->memory : 0;
}

double TargetInfo::getTensorCoreTime(double operations, bool aligned) const {
  if (!gpu)
    return 0;
  const KnownGPU *known = findGPU(name);
  return operations / (aligned ? known->aligned : known->unaligned);
}

bool TargetInfo::hasNativeBF16Conversion() const {
  return gpu || hasFeature("avx512bf16");
}

bool TargetInfo::hasNativeF16Conversion() const {
  return gpu || hasFeature("f16c");
}

bool TargetInfo::hasNativeFMA() const { return gpu || hasFeature("fma"); }

bool TargetInfo::hasNativeContraction(Type elementType) const {
  if (elementType.isF32() || elementType.isF64())
    return true;
  if (gpu)
    return elementType.isF16() || elementType.isBF16() || elementType.isTF32();
  if (elementType.isF16())
    return hasAMX();
  return elementType.isBF16() && hasFeature("avx512bf16");
}
