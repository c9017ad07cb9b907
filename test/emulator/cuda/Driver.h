// The state of the emulated driver, and helpers of its entry points.
//
// Work runs when the host waits for its stream, in enqueued order, with as
// little of other streams' work as events require. A host that reads a result
// or changes a buffer too early therefore sees what it might see on a device.
// So does a stream that does not wait for another. Unordered copies of two
// streams that touch the same memory are a fault. The next wait reports a
// fault, and every later call does too, because a device's context is then
// lost.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TEST_EMULATOR_CUDA_DRIVER_H
#define MPC_TEST_EMULATOR_CUDA_DRIVER_H

#include "test/emulator/cuda/ABI.h"
#include "test/emulator/cuda/DeviceMemory.h"
#include "test/emulator/cuda/Environment.h"

#include <chrono>
#include <deque>
#include <functional>
#include <initializer_list>
#include <mutex>
#include <set>
#include <thread>

namespace mpc::emulator {

/// Memory that work is known to read or write.
struct TouchedMemory {
  uint64_t begin = 0, end = 0;
  bool isWritten = false;
};

/// An operation of a stream.
struct Work {
  std::string name;
  /// Returns CUDA_ERROR_NOT_READY as long as it waits for another process. The
  /// driver then calls it again.
  std::function<CUresult()> run;
  /// Set for copies and fills. The memory of other work is unknown.
  std::vector<TouchedMemory> touched = {};
};

struct Queue;
/// For each queue, the amount of its work, counted from the first ever, that
/// precedes something.
using Clock = std::map<Queue *, uint64_t>;

/// Work in execution order: of one stream, or of all that wait for the legacy
/// default stream.
struct Queue {
  struct Entry {
    Work work;
    Clock after; ///< work of other queues that must be done first
    bool hasBegun = false;
  };
  std::deque<Entry> entries; ///< not done yet
  uint64_t done = 0;
  Clock seen; ///< the clock of the next enqueued work

  uint64_t end() const { return done + entries.size(); }
};

/// The primary context of a device.
struct Context {
  CUdevice device = 0;
  unsigned users = 0;
};

/// Nodes of a graph, by their indices.
using Nodes = std::set<size_t>;

struct Node {
  Work work;
  Nodes after;           ///< earlier nodes that must be done first
  bool isForked = false; ///< of a stream that joined the capture by an event
};

struct Graph {
  std::vector<Node> nodes;
};

struct GraphExec {
  std::vector<Node> nodes;
  unsigned launches = 0;
};

struct Stream;

/// A capture of the stream that began it, and of streams that wait for its
/// events.
struct Capture {
  Stream *origin = nullptr;
  CUstreamCaptureMode mode = CUstreamCaptureMode::Global;
  std::thread::id thread; ///< that began the capture
  bool isValid = true;
  std::unique_ptr<Graph> graph = std::make_unique<Graph>();
};

struct Stream {
  Context *context =
      nullptr;          ///< its context; null: any context's default stream
  bool blocking = true; ///< waits for the legacy default stream
  std::shared_ptr<Capture> capture; ///< null unless captured
  Nodes last;  ///< the nodes that precede the next captured work
  Queue queue; ///< of a stream that does not wait for the default one
};

struct Event {
  bool hasTime = true;
  bool recorded = false;
  std::shared_ptr<Capture> capturedBy;
  Nodes nodes;  ///< the nodes that precede a captured event
  Clock before; ///< the work that precedes the event
  std::chrono::steady_clock::time_point time;
};

struct LoadedModule;

struct Function {
  std::shared_ptr<LoadedModule> module;
  const ptx::Kernel *kernel = nullptr;
  unsigned dynamicShared = 48 << 10; ///< the most that a launch may request
};

struct LoadedModule {
  ptx::Module module;
  std::map<std::string, Function> functions;
};

class Driver {
public:
  static Driver &get();

  std::recursive_mutex mutex;
  Environment environment;
  DeviceMemory memory;
  bool isInitialized = false;
  CUresult lost = CUDA_SUCCESS; ///< the error that ended the context

  std::vector<Context> contexts; ///< one for each device

  Stream defaultStream;
  std::map<CUstream, std::unique_ptr<Stream>> streams;
  std::map<CUevent, std::unique_ptr<Event>> events;
  std::map<CUgraph, std::unique_ptr<Graph>> graphs;
  std::map<CUgraphExec, std::unique_ptr<GraphExec>> executables;
  std::map<CUmodule, std::shared_ptr<LoadedModule>> modules;
  std::map<void *, std::unique_ptr<uint8_t[]>> hostMemory;

  /// The stream behind a handle; null if there is none.
  Stream *find(CUstream handle);

  /// Adds work to a stream, or to its graph during a capture.
  CUresult enqueue(CUstream stream, Work work);

  /// The queue of a stream's work.
  Queue &queueOf(Stream &stream);

  /// Adds `clock` to the clock of `queue`'s next work.
  static void merge(const Clock &clock, Queue &queue);
  /// Drops a queue whose work is done.
  void forget(Queue &queue);

  /// Executes all enqueued work, or a queue's with its dependencies, or the
  /// work before an event. Waits for other processes; a minute without result
  /// is a fault.
  CUresult finish();
  CUresult finish(Queue &queue);
  CUresult finish(const Clock &clock);
  /// Like `finish`, but returns CUDA_ERROR_NOT_READY rather than wait.
  CUresult proceed(Queue &queue);
  CUresult proceed(const Clock &clock);

  /// The result of a call that may wait: CUDA_SUCCESS, or an error that
  /// invalidates a capture.
  CUresult checkWait(Stream &stream);
  CUresult checkUnsafe();

  /// Runs `work`. Logs the first attempt only.
  CUresult run(const Work &work, bool &hasBegun);

private:
  std::vector<Queue *> queues();
  bool isOrdered(const Queue &queue, const Work &work);
  CUresult proceed(Queue &queue, uint64_t end);
  CUresult wait(const std::function<CUresult()> &attempt);
};

/// The thread's stack of contexts. The last is current.
std::vector<Context *> &contextStack();
/// Null if there is none.
Context *currentContext();

/// An argument of a call, for the log.
struct Argument {
  template <class T>
  Argument(const char *name, T value) : name(name) {
    if constexpr (std::is_pointer_v<T>) {
      char buffer[32];
      std::snprintf(buffer, sizeof(buffer), "%p",
                    reinterpret_cast<const void *>(value));
      text = buffer;
    } else {
      text = std::to_string(value);
    }
  }
  Argument(const char *name, const std::string &text)
      : name(name), text(text) {}
  const char *name;
  std::string text;
};

/// The state that a call requires.
enum class Needs { Nothing, Init, Context };

/// The frame of every entry point: locks, injects faults, checks the state,
/// logs. `f` does the work and never sees a lost context.
template <class F>
CUresult call(const char *name, std::initializer_list<Argument> arguments,
              Needs needs, F f) {
  Driver &driver = Driver::get();
  std::lock_guard<std::recursive_mutex> lock(driver.mutex);
  CUresult result = CUDA_SUCCESS;
  if (std::optional<int> fault = driver.environment.fault(name)) {
    result = static_cast<CUresult>(*fault);
    // Errors in this range end the context.
    if (result >= CUDA_ERROR_ILLEGAL_ADDRESS && result < 720)
      driver.lost = result;
  } else if (needs != Needs::Nothing && !driver.isInitialized) {
    result = CUDA_ERROR_NOT_INITIALIZED;
  } else if (needs == Needs::Context && !currentContext()) {
    result = CUDA_ERROR_INVALID_CONTEXT;
  } else if (needs == Needs::Context && driver.lost) {
    result = driver.lost;
  } else {
    result = f(driver);
  }
  if (driver.environment.logs()) {
    std::string line = name;
    const char *separator = "(";
    for (const Argument &argument : arguments) {
      line += std::string(separator) + argument.name + "=" + argument.text;
      separator = ", ";
    }
    line += separator[0] == '(' ? "() = " : ") = ";
    driver.environment.log(line + std::to_string(result));
  }
  return result;
}

} // namespace mpc::emulator

#endif // MPC_TEST_EMULATOR_CUDA_DRIVER_H
