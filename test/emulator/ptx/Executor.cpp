// SPDX-License-Identifier: Apache-2.0
#include "test/emulator/ptx/Executor.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <thread>

using namespace mpc::emulator::ptx;

static std::atomic<uint64_t> executed{0};

uint64_t mpc::emulator::ptx::executedInstructions() { return executed; }

//===----------------------------------------------------------------------===//
// A warp
//===----------------------------------------------------------------------===//

namespace {

/// The limit for hanging kernels, like a device's watchdog.
constexpr uint64_t kMostInstructions = 1ull << 33;

/// Lanes at the same instruction.
struct Group {
  uint32_t pc;
  uint32_t lanes;
  Flow waits = Flow::Next; ///< Barrier or Converge: not runnable
};

class RunningWarp {
public:
  RunningWarp(const Launch &launch, SharedMemory &shared,
              GlobalAccesses &accesses)
      : warp(launch, shared, accesses), code(launch.kernel->code) {
    file.resize(launch.kernel->fileBytes + kFileAlignment);
    auto begin = reinterpret_cast<uintptr_t>(file.data());
    warp.file = file.data() + (-begin & (kFileAlignment - 1));
    for (const Kernel::Constant &constant : launch.kernel->constants) {
      if (constant.bytes == 0)
        warp.predicate(constant.slot) = constant.value ? kAllLanes : 0;
      for (unsigned lane = 0; lane < kLanes; ++lane)
        std::memcpy(warp.file + constant.slot + lane * constant.bytes,
                    &constant.value, constant.bytes);
    }
  }

  void start(Dim block, unsigned firstThread) {
    unsigned threads = warp.launch.block.count() - firstThread;
    warp.firstThread = firstThread;
    warp.blockStart =
        numberOf(block) * static_cast<uint32_t>(warp.launch.block.count());
    warp.existing = threads >= kLanes ? kAllLanes : (1u << threads) - 1;
    warp.exited = ~warp.existing;
    warp.syncs = 0;
    warp.copies.clear();
    std::fill(std::begin(warp.committed), std::end(warp.committed), 0);
    // Local memory starts as NaNs, like device memory.
    warp.local.assign(size_t(warp.launch.kernel->localBytes) * kLanes, 0xff);
    for (const Kernel::Special &special : warp.launch.kernel->specials)
      fillSpecial(special, block);
    groups.assign(1, {0, warp.existing});
  }

  bool isDone() const { return groups.empty(); }
  const std::vector<Group> &waiting() const { return groups; }

  /// Runs until every lane has ended or waits at a block barrier.
  void run();

  void passBarrier() {
    for (Group &group : groups)
      group = {group.pc + 1, group.lanes};
  }

  unsigned line() const { return code[currentPC].line; }
  Warp warp;
  uint64_t instructions = 0;

private:
  static constexpr uintptr_t kFileAlignment = 64;

  uint32_t numberOf(Dim block) const {
    const Dim &grid = warp.launch.grid;
    return (block.z * grid.y + block.y) * grid.x + block.x;
  }
  void fillSpecial(const Kernel::Special &special, Dim block);
  void merge();
  Group *lowestRunnable();
  void runGroup(size_t index);
  void partGroup(size_t index, Group group, const Inst &inst, uint32_t lanes);
  bool converges(Group &group, const Inst &inst);
  [[noreturn]] void reportMissingLanes();

  const std::vector<Inst> &code;
  std::vector<uint8_t> file;
  std::vector<Group> groups;
  uint32_t currentPC = 0;
};

} // namespace

void RunningWarp::fillSpecial(const Kernel::Special &special, Dim block) {
  uint32_t *values = warp.lanes<uint32_t>(special.slot);
  for (unsigned lane = 0; lane < kLanes; ++lane)
    values[lane] = warp.special(special.which, lane, block);
}

void RunningWarp::merge() {
  for (size_t i = 0; i < groups.size(); ++i) {
    for (size_t j = groups.size() - 1; j > i; --j) {
      if (groups[j].pc != groups[i].pc)
        continue;
      groups[i].lanes |= groups[j].lanes;
      groups[i].waits = Flow::Next; // check again: more lanes have arrived
      groups.erase(groups.begin() + static_cast<long>(j));
    }
  }
}

Group *RunningWarp::lowestRunnable() {
  Group *lowest = nullptr;
  for (Group &group : groups)
    if (group.waits == Flow::Next && (!lowest || group.pc < lowest->pc))
      lowest = &group;
  return lowest;
}

void RunningWarp::run() {
  uint64_t most = instructions + kMostInstructions;
  for (;;) {
    if (groups.size() > 1)
      merge();
    if (instructions > most)
      throw KernelFault{KernelFault::Timeout, "the kernel hangs", 0};
    Group *group = lowestRunnable();
    if (!group)
      break;
    runGroup(static_cast<size_t>(group - groups.data()));
  }
  for (const Group &group : groups)
    if (group.waits == Flow::Converge)
      reportMissingLanes();
}

void RunningWarp::reportMissingLanes() {
  for (const Group &group : groups)
    if (group.waits == Flow::Converge)
      currentPC = group.pc;
  throw KernelFault{KernelFault::LaunchFailed,
                    "lanes that a warp-level operation names never reach it",
                    0};
}

/// True if all lanes that a warp-level operation names have arrived.
bool RunningWarp::converges(Group &group, const Inst &inst) {
  uint32_t members = kAllLanes;
  if (inst.members != kNone) {
    const uint32_t *masks = warp.lanes<uint32_t>(inst.members);
    members = masks[__builtin_ctz(group.lanes)];
    for (unsigned lane = 0; lane < kLanes; ++lane)
      if ((group.lanes >> lane & 1) && !(masks[lane] >> lane & 1))
        throw KernelFault{KernelFault::LaunchFailed,
                          "the member mask leaves out a lane that executes",
                          lane};
  } else {
    // .aligned: all threads of the warp execute it.
    members = warp.existing;
  }
  members &= warp.existing;
  if (members & warp.exited)
    throw KernelFault{
        KernelFault::LaunchFailed,
        "a warp-level operation names a lane that has ended",
        static_cast<unsigned>(__builtin_ctz(members & warp.exited))};
  return !(members & ~group.lanes);
}

// The guard of `inst`, which ends or branches, holds for `lanes` of the group
// only. These lanes end or branch, and the others continue behind it.
void RunningWarp::partGroup(size_t index, Group group, const Inst &inst,
                            uint32_t lanes) {
  Group parted{inst.flow == Flow::Branch ? inst.target : group.pc, lanes};
  group.lanes &= ~lanes;
  ++group.pc;
  group.waits = Flow::Next;
  groups[index] = group;
  if (inst.flow == Flow::Exit)
    warp.exited |= lanes;
  else if (inst.flow == Flow::Branch)
    groups.push_back(parted);
  else
    throw KernelFault{KernelFault::LaunchFailed,
                      "a guard parts the lanes at a barrier or a "
                      "warp-level operation",
                      static_cast<unsigned>(__builtin_ctz(lanes))};
}

void RunningWarp::runGroup(size_t index) {
  Group group = groups[index];
  // If this group meets or passes another group, the scheduler decides.
  uint32_t stop = kNone;
  for (const Group &other : groups)
    if (other.pc > group.pc && other.waits != Flow::Barrier)
      stop = std::min(stop, other.pc);
  bool alone = groups.size() == 1;
  uint64_t budget = instructions + (1u << 20);
  auto leave = [&](Flow waits) {
    group.waits = waits;
    groups[index] = group;
  };
  for (;;) {
    const Inst &inst = code[group.pc];
    currentPC = group.pc;
    uint32_t lanes = group.lanes;
    if (inst.guard != kNone) {
      uint32_t guard = warp.predicate(inst.guard);
      lanes &= inst.guardNegated ? ~guard : guard;
    }
    instructions += static_cast<unsigned>(__builtin_popcount(group.lanes));
    if (inst.flow == Flow::Next) {
      if (lanes)
        inst.run(warp, inst, lanes);
      ++group.pc;
    } else if (!lanes) {
      ++group.pc;
    } else if (inst.flow == Flow::Branch && lanes == group.lanes) {
      group.pc = inst.target;
      if (!alone || instructions > budget)
        return leave(Flow::Next);
    } else if (inst.flow == Flow::Exit && lanes == group.lanes) {
      warp.exited |= lanes;
      groups.erase(groups.begin() + static_cast<long>(index));
      return;
    } else if (lanes != group.lanes) {
      return partGroup(index, group, inst, lanes);
    } else if (inst.flow == Flow::Barrier) {
      return leave(Flow::Barrier);
    } else {
      if (!converges(group, inst))
        return leave(Flow::Converge);
      inst.run(warp, inst, lanes);
      ++group.pc;
    }
    if (group.pc >= stop)
      return leave(Flow::Next);
  }
}

//===----------------------------------------------------------------------===//
// A block, a grid
//===----------------------------------------------------------------------===//

namespace {

/// Runs blocks one after another, with reusable state.
class BlockRunner {
public:
  explicit BlockRunner(const Launch &launch) : launch(launch) {
    unsigned threads = static_cast<unsigned>(launch.block.count());
    for (unsigned first = 0; first < threads; first += kLanes)
      warps.push_back(std::make_unique<RunningWarp>(launch, shared, accesses));
  }

  ~BlockRunner() {
    for (const auto &warp : warps)
      executed += warp->instructions;
  }

  /// The accesses to global memory of the blocks that it ran.
  const GlobalAccesses &globalAccesses() const { return accesses; }

  std::optional<KernelFault> run(Dim block) {
    shared.reset(launch.kernel->sharedBytes + launch.dynamicShared);
    for (size_t i = 0; i < warps.size(); ++i)
      warps[i]->start(block, static_cast<unsigned>(i) * kLanes);
    RunningWarp *current = warps.front().get();
    try {
      for (;;) {
        for (const auto &warp : warps) {
          current = warp.get();
          warp->run();
        }
        if (!passBarrier(current))
          return std::nullopt;
      }
    } catch (const KernelFault &fault) {
      return locate(fault, block, *current);
    }
  }

private:
  /// Handles the state in which all warps have ended or wait. False if all have
  /// ended.
  bool passBarrier(RunningWarp *&current) {
    uint32_t pc = kNone;
    for (const auto &warp : warps) {
      for (const Group &group : warp->waiting()) {
        current = warp.get();
        if (pc == kNone)
          pc = group.pc;
        if (pc != group.pc)
          throw KernelFault{
              KernelFault::LaunchFailed,
              "divergent barrier: threads wait in lines " +
                  std::to_string(launch.kernel->code[pc].line) + " and " +
                  std::to_string(launch.kernel->code[group.pc].line),
              static_cast<unsigned>(__builtin_ctz(group.lanes))};
      }
    }
    if (pc == kNone)
      return false;
    for (const auto &warp : warps)
      warp->passBarrier();
    shared.passBarrier();
    return true;
  }

  KernelFault locate(const KernelFault &fault, Dim block,
                     const RunningWarp &warp) const {
    unsigned line = warp.line();
    const std::vector<std::string> &lines = launch.module->lines;
    std::string text = line && line <= lines.size() ? lines[line - 1] : "";
    text.erase(0, text.find_first_not_of(" \t"));
    std::replace(text.begin(), text.end(), '\t', ' ');
    KernelFault located = fault;
    located.message = "kernel '" + launch.kernel->name + "', block (" +
                      std::to_string(block.x) + "," + std::to_string(block.y) +
                      "," + std::to_string(block.z) + "), thread " +
                      std::to_string(warp.warp.firstThread + fault.lane) +
                      ", PTX line " + std::to_string(line) + " `" + text +
                      "`: " + fault.message;
    return located;
  }

  const Launch &launch;
  SharedMemory shared;
  GlobalAccesses accesses;
  std::vector<std::unique_ptr<RunningWarp>> warps;
};

} // namespace

std::optional<KernelFault> mpc::emulator::ptx::execute(const Launch &launch) {
  uint64_t blocks = launch.grid.count();
  std::atomic<uint64_t> nextBlock{0}, faultBlock{blocks};
  std::mutex mutex;
  std::optional<KernelFault> fault;
  GlobalAccesses accesses;
  auto work = [&] {
    BlockRunner runner(launch);
    for (uint64_t i; (i = nextBlock++) < faultBlock;) {
      Dim block{static_cast<unsigned>(i % launch.grid.x),
                static_cast<unsigned>(i / launch.grid.x % launch.grid.y),
                static_cast<unsigned>(i / launch.grid.x / launch.grid.y)};
      std::optional<KernelFault> found = runner.run(block);
      if (!found)
        continue;
      std::lock_guard<std::mutex> lock(mutex);
      if (i < faultBlock) {
        faultBlock = i;
        fault = std::move(found);
      }
    }
    std::lock_guard<std::mutex> lock(mutex);
    if (fault)
      return;
    if (auto race = accesses.add(runner.globalAccesses()))
      fault = KernelFault{KernelFault::LaunchFailed,
                          "kernel '" + launch.kernel->name + "': " + *race};
  };
  unsigned cores = std::max(1u, std::thread::hardware_concurrency());
  std::vector<std::thread> threads;
  for (uint64_t i = 1; i < std::min<uint64_t>(cores, blocks); ++i)
    threads.emplace_back(work);
  work();
  for (std::thread &thread : threads)
    thread.join();
  return fault;
}
