// Opens the CUDA driver and finds its GPUs; reports driver errors.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_CUDA_DRIVER_H
#define MPC_RUNTIME_CUDA_DRIVER_H

#include "runtime/Status.h"
#include "runtime/cuda/DriverABI.h"

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace mpc::runtime::cuda {

/// The opened driver, one per device object. `call` has the driver's functions.
class CUDADriver {
public:
  /// Loads and initializes the driver. A Device error with the cause if there
  /// is no driver or no GPU.
  static StatusOr<std::shared_ptr<const CUDADriver>> open();

  /// True if the driver's library can be loaded, even if there is no usable
  /// GPU.
  static bool isInstalled();

  DriverFunctions call;

  /// The newest CUDA version that the driver supports, as 1000 * major + 10 *
  /// minor.
  int version() const { return cudaVersion; }

  /// True if MPC_CUDA_SYNCHRONIZE=1 is set: mpc then waits for each step, so
  /// that an error names the step that failed.
  bool stepwise() const { return waitsForSteps; }

  /// Success, or a Device error with `what` ("allocate memory") and the
  /// driver's text.
  Status check(DriverResult result, const std::string &what) const;

  /// Checks, during a wait of this duration, if the wait can still end.
  using Watch = std::function<Status(std::chrono::steady_clock::duration)>;
  /// Makes all later waits call `watch` (null: none) about once a millisecond.
  void setWatch(Watch watch) const { this->watch = std::move(watch); }

  /// Waits for all work of a stream, or for an event. A Device error with
  /// `what` if the work failed, or the failure of the watch.
  Status wait(Stream stream, const std::string &what) const;
  Status wait(Event event, const std::string &what) const;

  /// Returns the driver's name and text of an error: "CUDA_ERROR_X (text)".
  std::string describe(DriverResult result) const;

private:
  template <typename Query>
  Status wait(Query isReady, const std::string &what) const;

  int cudaVersion = 0;
  bool waitsForSteps = false;
  /// Belongs to the device object, not to the driver's functions.
  mutable Watch watch;
};

/// While alive, makes a context the calling thread's. Afterwards restores the
/// previous context, which other users of CUDA in this process may need.
class ContextScope {
public:
  ContextScope(const CUDADriver &driver, Context context)
      : driver(driver),
        entered(driver.check(driver.call.ctxPushCurrent(context),
                             "make its context current")) {}
  ~ContextScope() {
    Context own = nullptr;
    if (entered.ok())
      (void)driver.call.ctxPopCurrent(&own);
  }
  ContextScope(const ContextScope &) = delete;
  ContextScope &operator=(const ContextScope &) = delete;

  const Status &status() const { return entered; }

private:
  const CUDADriver &driver;
  Status entered;
};

/// Logs which algorithm or engine was chosen. Appends a line to the file that
/// MPC_CUDA_LOG names ("stderr" for the standard error). Does nothing if
/// MPC_CUDA_LOG is not set.
void logChoice(const std::string &line);

/// True if an environment variable has exactly this value.
bool environmentHas(const char *variable, std::string_view value);

/// A GPU, with the properties that mpc depends on.
struct GPU {
  DeviceOrdinal ordinal = 0;
  std::string name;
  int major = 0, minor = 0; ///< compute capability
  int maxSharedBytes = 0;   ///< the most shared memory per block

  /// Finds GPU `index` and its properties. CUDA_VISIBLE_DEVICES determines how
  /// GPUs are numbered.
  static StatusOr<GPU> find(const CUDADriver &driver, int index);

  /// Returns the architecture: "sm_90".
  std::string architecture() const;
  /// Returns name and architecture: "NVIDIA H200 (sm_90)".
  std::string describe() const;
};

/// Returns "12.4" for 12040.
std::string toCUDAVersion(int version);

} // namespace mpc::runtime::cuda

#endif // MPC_RUNTIME_CUDA_DRIVER_H
