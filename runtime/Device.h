// What a backend must do, in a handful of functions.
//
// Memory addresses are fixed when a function is prepared: state, inputs, arena
// and constants never move afterwards. A GPU backend owns its stream and
// orders upload, run and download on it; the first run of an Executable can
// therefore be captured as a graph and every later run be one replay. Nothing
// in a plan needs the host between two steps (predicates, loss scale and
// counters are buffers), so `run` may return before the work is done;
// `download` and `synchronize` wait for it.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_DEVICE_H
#define MPC_RUNTIME_DEVICE_H

#include "runtime/Artifact.h"
#include "runtime/Status.h"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace mpc::runtime {

/// A device as users name it: "cpu", "cuda" (the first GPU), "cuda:1", or
/// "auto": the one an artifact is for.
struct DeviceId {
  enum class Kind { Auto, CPU, CUDA };
  Kind kind = Kind::CPU;
  int index = 0; ///< of a GPU, as the driver numbers them

  /// Usage for any other word.
  static StatusOr<DeviceId> parse(std::string_view text);
};

/// What the GPU of `device` is compiled for, "sm_90", as the driver says.
/// Device where there is none, or the runtime cannot use it.
StatusOr<std::string> findArchitecture(const DeviceId &device);

/// Checks that the GPU and its driver are new enough for PTX of `target`; a
/// Device error with the reason if they are not.
Status checkGPU(const DeviceId &device, const Target &target);

/// Whether there is an NVIDIA driver, usable or not.
bool hasGPUDriver();

struct DeviceOptions {
  std::string device = "cpu"; ///< a DeviceId
  int threads = 0;            ///< CPU worker threads; 0 means one per core
};

/// Looks at memory between the steps of a run. Steps inside a conditional step
/// or a loop are seen one by one, it itself is not.
class StepObserver {
public:
  virtual ~StepObserver() = default;
  /// A loop moved a buffer of the function: its address is so many bytes on.
  virtual void move(size_t buffer, int64_t bytes) = 0;
  /// A failure of either ends the run.
  virtual Status before(const Step &step) = 0;
  virtual Status after(const Step &step) = 0;
};

/// A function made ready to run over memory that was fixed when it was
/// prepared.
class Executable {
public:
  virtual ~Executable() = default;

  /// Runs, or enqueues, all steps. Where it fails, state may be half written.
  virtual Status run() = 0;

  /// Runs as `run` does, and waits. `seconds[i]` becomes the time that the i-th
  /// step of the function took on the device; a loop or a condition is one
  /// step. The first run of a function also loads code: run it once before.
  virtual Status runTimed(std::vector<double> &seconds) = 0;

  /// Runs step by step, to the same bits, and shows each to `observer`.
  /// Unsupported where the device cannot stop between two steps.
  virtual Status run(StepObserver &observer) {
    return Status(StatusCode::Unsupported,
                  "this device does not stop between the steps of a function");
  }
};

/// Hands an input its next value while functions run on the one before. The
/// input and the device outlive it.
class InputStage {
public:
  virtual ~InputStage() = default;
  /// Host memory of the input's size, to write the next value to. Waits until
  /// the device has read what was sent from there before.
  virtual StatusOr<std::byte *> memory() = 0;
  /// Makes what the memory asked for last holds the input's value, in order
  /// with `run`, though it is copied while functions run. Returns at once; the
  /// memory stays as it is until it is asked for again.
  virtual Status send() = 0;
};

class Device {
public:
  virtual ~Device() = default;

  /// Opens the device for an artifact. Device where this machine cannot run the
  /// artifact, with what is needed and what to do; never another device than
  /// the one asked for.
  static StatusOr<std::unique_ptr<Device>> create(const DeviceOptions &options,
                                                  const Artifact &artifact);

  /// Device memory, zeroed, aligned to at least 64 bytes. Never null.
  virtual StatusOr<void *> allocate(size_t bytes) = 0;
  virtual void release(void *memory) = 0;

  /// Makes host memory that never changes and outlives the device readable on
  /// it: in place where the device can, else by a copy the device owns.
  virtual StatusOr<const void *> mapConstants(const void *host,
                                              size_t bytes) = 0;

  /// Copies between host and device, in order with `run`. The host memory may
  /// be reused when these return.
  virtual Status upload(void *device, const void *host, size_t bytes) = 0;
  virtual Status download(void *host, const void *device, size_t bytes) = 0;

  /// A piece of memory to download.
  struct Download {
    void *host;
    const void *device;
    size_t bytes;
  };
  /// The same for several, with one wait where each would have its own.
  virtual Status download(const std::vector<Download> &pieces) {
    for (const auto &[host, device, bytes] : pieces)
      if (Status status = download(host, device, bytes); !status.ok())
        return status;
    return Status();
  }

  /// A stage for the device memory `input`. Null where functions run while the
  /// caller waits, so that nothing can be copied meanwhile.
  virtual StatusOr<std::unique_ptr<InputStage>> openStage(void *input,
                                                          size_t bytes) {
    return std::unique_ptr<InputStage>();
  }

  /// Device memory where the host can read it in place, between runs; null
  /// where it must be downloaded.
  virtual const void *hostView(const void *device) const { return nullptr; }

  /// Prepares `function`; `buffers[i]` is the address of its i-th buffer.
  /// Artifact and function outlive the result.
  virtual StatusOr<std::unique_ptr<Executable>>
  prepare(const Artifact &artifact, const Function &function,
          std::vector<void *> buffers) = 0;

  /// Bytes of device memory in use beside what was allocated for the caller.
  virtual size_t scratchBytes() const = 0;

  /// Waits for everything enqueued and reports what went wrong in it.
  virtual Status synchronize() = 0;
};

} // namespace mpc::runtime

#endif // MPC_RUNTIME_DEVICE_H
