// The CUDA driver: its functions, its errors, and the GPU it offers.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_CUDA_DRIVER_H
#define MPC_RUNTIME_CUDA_DRIVER_H

#include "runtime/Status.h"
#include "runtime/cuda/DriverABI.h"

#include <memory>
#include <string>
#include <string_view>

namespace mpc::runtime::cuda {

/// Opened once for each device object; the functions are in `call`.
class Driver {
public:
  /// Loads and initialises the driver. Device where there is none or no GPU,
  /// with what was found.
  static StatusOr<std::shared_ptr<const Driver>> open();

  /// Whether its library can be loaded, usable or not.
  static bool isInstalled();

  DriverFunctions call;

  /// 1000 * major + 10 * minor of the newest CUDA that the driver knows.
  int version() const { return cudaVersion; }

  /// Whether MPC_CUDA_SYNCHRONIZE=1 asks to wait for each step, to learn which
  /// one fails.
  bool stepwise() const { return waitsForSteps; }

  /// Success, or Device with `what` ("allocate memory") and the driver's text.
  Status check(DriverResult result, const std::string &what) const;

  /// The driver's name and text of an error: "CUDA_ERROR_X (text)".
  std::string describe(DriverResult result) const;

private:
  int cudaVersion = 0;
  bool waitsForSteps = false;
};

/// Makes a context the calling thread's while it lives, and then that again
/// which was: other users of CUDA in this process may have one.
class ContextScope {
public:
  ContextScope(const Driver &driver, Context context)
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
  const Driver &driver;
  Status entered;
};

/// Adds a line to the file that MPC_CUDA_LOG names ("stderr" for the standard
/// error): what the libraries chose. Does nothing where it names none.
void logChoice(const std::string &line);

/// Whether an environment variable has exactly this value.
bool environmentHas(const char *variable, std::string_view value);

/// The GPU that a device object works on.
struct GPU {
  DeviceOrdinal ordinal = 0;
  std::string name;
  int major = 0, minor = 0; ///< compute capability
  int maxSharedBytes = 0;   ///< that a block can ask for

  /// Properties of the GPU that the driver shows as number `index`
  /// (CUDA_VISIBLE_DEVICES says which that is).
  static StatusOr<GPU> find(const Driver &driver, int index);

  /// "sm_90".
  std::string architecture() const;
  /// "NVIDIA H200 (sm_90)".
  std::string describe() const;
};

/// "12.4" for 12040.
std::string toCUDAVersion(int version);

} // namespace mpc::runtime::cuda

#endif // MPC_RUNTIME_CUDA_DRIVER_H
