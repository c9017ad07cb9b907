// The table of ops as Markdown.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/SupportedOps.h"

#include "frontends/ONNX/Importer.h"

#include <map>

using namespace mlir;
using namespace mpc::onnx_frontend;

void mpc::onnx_frontend::printSupportedOps(llvm::raw_ostream &os) {
  // Domain, then op, then the opset it is read from: the oldest entry's.
  std::map<std::pair<StringRef, StringRef>, int64_t> ops;
  for (const OpEntry &entry : getAllOps()) {
    int64_t since = std::max(entry.since, getOldestOpset(entry.domain));
    auto [it, isNew] = ops.try_emplace({entry.domain, entry.name}, since);
    it->second = std::min(it->second, since);
  }
  // These update sequences, which are no values: they have no entry.
  for (StringRef name :
       {"AdamWOptimizer", "InPlaceAccumulator", "InPlaceAccumulatorV2",
        "InplaceClipGradNorm", "SGDOptimizerV2"})
    ops.try_emplace({kMicrosoft, name}, 1);
  os << "| domain | op | from opset |\n|---|---|---|\n";
  for (const auto &[key, since] : ops)
    os << "| " << (key.first.empty() ? "ai.onnx" : key.first) << " | "
       << key.second << " | " << since << " |\n";
}
