// SPDX-License-Identifier: Apache-2.0
#include "tools/mpc/model/CompileTimes.h"

#include "llvm/Support/Format.h"

using namespace mpc;
using namespace mpc::tools;

void CompileTimes::print(llvm::raw_ostream &os) const {
  double sum = 0;
  for (const auto &[name, time] : seconds)
    sum += time;
  if (reading > 0)
    os << "read data in " << llvm::format("%.2f s\n", reading);
  os << "compiled in " << llvm::format("%.2f s:", sum);
  for (const auto &[name, time] : seconds)
    os << " " << name << llvm::format(" %.2f", time)
       << (&name == &seconds.back().first ? "" : ",");
  os << "; " << kernels.kept << " of " << kernels.all
     << " kernels from the cache\n";
}
