// Measures the time of each stage of a compilation.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TOOLS_MPC_MODEL_COMPILETIMES_H
#define MPC_TOOLS_MPC_MODEL_COMPILETIMES_H

#include "passes/KernelCompiler.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/raw_ostream.h"

#include <chrono>
#include <string>
#include <utility>
#include <vector>

namespace mpc::tools {

/// The time in seconds that each stage of a compilation took, in order.
struct CompileTimes {
  void print(llvm::raw_ostream &os) const;

  std::vector<std::pair<std::string, double>> seconds;
  double reading = 0; ///< seconds of checking data while the model compiles
  KernelCounts kernels;
};

/// Measures the time of each stage of a compilation.
class Stopwatch {
public:
  explicit Stopwatch(CompileTimes &times) : times(times) {}

  /// Adds the time since the last lap, under `name`.
  void lap(llvm::StringRef name) {
    times.seconds.emplace_back(name.str(), lap());
  }
  /// Counts the time since the last lap as reading.
  void lapOfReading() { times.reading += lap(); }

private:
  double lap() {
    const auto now = std::chrono::steady_clock::now();
    return std::chrono::duration<double>(now - std::exchange(begin, now))
        .count();
  }

  CompileTimes &times;
  std::chrono::steady_clock::time_point begin =
      std::chrono::steady_clock::now();
};

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_MODEL_COMPILETIMES_H
