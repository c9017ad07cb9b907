// Variables that configure the emulated device:
//
//   MPC_EMULATOR_DEVICE  "sm_90,memory=80G,driver=12040,multiprocessors=132,
//                        count=2", each part optional; or "none": no device
//   MPC_EMULATOR_LOG     a file that gets a line for every call
//   MPC_EMULATOR_FAULT   "cuMemAlloc_v2:3=2,cuInit=999": the third call of
//                        cuMemAlloc_v2 returns 2, each call of cuInit 999;
//                        "f:3+=2": the third call and all later ones
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TEST_EMULATOR_CUDA_ENVIRONMENT_H
#define MPC_TEST_EMULATOR_CUDA_ENVIRONMENT_H

#include <cstdint>
#include <cstdio>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace mpc::emulator {

struct DeviceProperties {
  bool exists = true;
  int count = 1; ///< equal devices with one memory
  int major = 8, minor = 0;
  uint64_t memory = 40ull << 30;
  int driverVersion = 13000;
  int multiprocessors = 108;

  unsigned sharedOptin() const { return (major >= 9 ? 227 : 163) << 10; }
  /// The newest PTX version that the driver's compiler reads: 80 for 8.0.
  unsigned ptxVersion() const;
};

class Environment {
public:
  /// Reads the variables. An invalid variable ends the process: otherwise a
  /// test whose fault is not injected would pass.
  Environment();

  DeviceProperties device;

  /// Counts a call. Returns its error if one was requested.
  std::optional<int> fault(const std::string &function);

  void log(const std::string &line);
  bool logs() const { return file != nullptr; }

private:
  struct Fault {
    std::string function;
    unsigned first = 0, last = 0;
    int code = 0;
  };
  void parseDevice(const std::string &text);
  void parseFaults(const std::string &text);

  std::vector<Fault> faults;
  std::map<std::string, unsigned> calls;
  std::FILE *file = nullptr;
};

} // namespace mpc::emulator

#endif // MPC_TEST_EMULATOR_CUDA_ENVIRONMENT_H
