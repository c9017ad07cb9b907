// The interface of a backend.
//
// Memory addresses are fixed when a function is prepared: state, inputs, arena
// and constants never move afterwards. No step needs the host: predicates, loss
// scale and counters are buffers on the device. So a GPU backend can record a
// run of an Executable as a graph and launch the graph for later runs. It
// executes uploads, runs and downloads in the order of the calls, on one
// stream. `run` may return before the work is done; `download` and
// `synchronize` wait.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_DEVICE_H
#define MPC_RUNTIME_DEVICE_H

#include "runtime/Artifact.h"
#include "runtime/Status.h"

#include <chrono>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace mpc::runtime {

/// A device as users name it: "cpu", "cuda" (the first GPU), "cuda:1", or
/// "auto", the device that the artifact is compiled for.
struct DeviceId {
  enum class Kind { Auto, CPU, CUDA };
  Kind kind = Kind::CPU;
  int index = 0; ///< number of the GPU in the driver's order

  /// Parses a device name. A Usage error for any other text.
  static StatusOr<DeviceId> parse(std::string_view text);
};

/// Returns the architecture of the GPU `device`, for example "sm_90". A Device
/// error if there is no such GPU, or if the runtime cannot use it.
StatusOr<std::string> findArchitecture(const DeviceId &device);

/// Checks that the GPU and its driver are new enough for PTX of `target`. A
/// Device error with the reason if not.
Status checkGPU(const DeviceId &device, const Target &target);

/// Checks that cuDNN and NVRTC are installed for the GPU, and new enough for
/// all attention that the compiler leaves to cuDNN. A Device error with the
/// reason if not.
Status checkAttention(const DeviceId &device);

/// True if there is an NVIDIA driver, usable or not.
bool hasGPUDriver();

class Communicator;

struct DeviceOptions {
  std::string device = "cpu"; ///< parsed as a DeviceId
  int threads = 0;            ///< CPU worker threads; 0 means one per core
  /// Connects the ranks of a distributed run for the `all_reduce` steps of
  /// functions; null for one rank, where these steps do nothing. Must outlive
  /// the device. All ranks must then create their devices at the same time.
  Communicator *communicator = nullptr;
  /// The longest wait of a GPU for other ranks.
  std::chrono::milliseconds rankTimeout = std::chrono::minutes(10);
};

/// Gives one of the `count` ranks on a machine, by its number there, a GPU and
/// a share of the processors. Does nothing for a single rank. Keeps the number
/// of threads if the caller has chosen it, or if the launcher has bound the
/// process to some of the processors.
void divideMachine(int rank, int count, DeviceOptions &options);

/// Inspects memory between the steps of a run. Sees each step inside a
/// condition or a loop, but not the condition or the loop itself.
class StepObserver {
public:
  virtual ~StepObserver() = default;
  /// Called when a loop has changed the address of the function's buffer number
  /// `buffer` by `bytes` bytes.
  virtual void move(size_t buffer, int64_t bytes) = 0;
  /// Called before and after each step. The run ends if a call fails.
  virtual Status before(const Step &step) = 0;
  virtual Status after(const Step &step) = 0;
};

/// A function prepared to run at fixed memory addresses.
class Executable {
public:
  virtual ~Executable() = default;

  /// Runs or enqueues all steps. On failure, state may be half written.
  virtual Status run() = 0;

  /// Like `run`, but waits. `seconds[i]` becomes the device time of the
  /// function's i-th step; a loop or a condition is one step. Run the function
  /// once before, since the first run also loads code.
  virtual Status runTimed(std::vector<double> &seconds) = 0;

  /// Runs step by step, with the same results to the bit, and shows each step
  /// to `observer`. Unsupported if the device cannot stop between steps.
  virtual Status run(StepObserver &observer) {
    return Status(StatusCode::Unsupported,
                  "this device cannot stop between the steps of a function");
  }
};

/// Copies the next value of an input while functions still run on the current
/// value. The input and the device must outlive the stage.
class InputStage {
public:
  virtual ~InputStage() = default;
  /// Returns host memory of the input's size for the next value. Waits until
  /// the device has copied the value sent before.
  virtual StatusOr<std::byte *> memory() = 0;
  /// Makes the content of that memory the input's value for all later calls of
  /// `run`. The copy may overlap functions that still run. Returns at once; do
  /// not write the memory until `memory` returns it again.
  virtual Status send() = 0;
};

class Device {
public:
  virtual ~Device() = default;

  /// Opens the device for an artifact. A Device error if this machine cannot
  /// run the artifact, with the requirement and the remedy. Never falls back to
  /// another device.
  static StatusOr<std::unique_ptr<Device>> create(const DeviceOptions &options,
                                                  const Artifact &artifact);

  /// Allocates zeroed device memory, aligned to at least 64 bytes. Never null.
  virtual StatusOr<void *> allocate(size_t bytes) = 0;
  virtual void release(void *memory) = 0;

  /// Makes constant host memory, which outlives the device, readable on the
  /// device: in place if possible, else as a copy that the device owns.
  virtual StatusOr<const void *> mapConstants(const void *host,
                                              size_t bytes) = 0;

  /// `upload` and `download` copy between host and device, after all earlier
  /// calls of `run`. The caller may reuse the host memory on return.
  virtual Status upload(void *device, const void *host, size_t bytes) = 0;
  virtual Status download(void *host, const void *device, size_t bytes) = 0;

  /// A block of memory to download.
  struct Download {
    void *host;
    const void *device;
    size_t bytes;
  };
  /// Downloads several blocks, with a single wait for all.
  virtual Status download(const std::vector<Download> &blocks) {
    for (const auto &[host, device, bytes] : blocks)
      if (Status status = download(host, device, bytes); !status.ok())
        return status;
    return Status();
  }

  /// Opens a stage for the device memory `input`. Null if `run` returns only
  /// after the function has ended, since no copy can then overlap a run.
  virtual StatusOr<std::unique_ptr<InputStage>> openStage(void *input,
                                                          size_t bytes) {
    return std::unique_ptr<InputStage>();
  }

  /// Returns the host address of device memory that the host can read in place,
  /// between runs. Null if the memory must be downloaded.
  virtual const void *hostView(const void *device) const { return nullptr; }

  /// Prepares `function`. `buffers[i]` is the address of the function's i-th
  /// buffer. The artifact and the function must outlive the result.
  virtual StatusOr<std::unique_ptr<Executable>>
  prepare(const Artifact &artifact, const Function &function,
          std::vector<void *> buffers) = 0;

  /// Returns the bytes of device memory that the device uses itself, besides
  /// the memory that `allocate` returned.
  virtual size_t scratchBytes() const = 0;

  /// Waits for all enqueued work and reports its failures.
  virtual Status synchronize() = 0;
};

} // namespace mpc::runtime

#endif // MPC_RUNTIME_DEVICE_H
