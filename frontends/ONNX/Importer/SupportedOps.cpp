// Prints the table of supported ops as Markdown.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Importer/SupportedOps.h"

#include "frontends/ONNX/Importer/Importer.h"

#include <map>

using namespace mlir;
using namespace mpc::onnx_frontend;

void mpc::onnx_frontend::printSupportedOps(llvm::raw_ostream &os) {
  struct Support {
    int64_t since;
    bool ofData;
  };
  std::map<std::pair<StringRef, StringRef>, Support> ops;
  for (const OpEntry &entry : getAllOps()) {
    Support support = {std::max(entry.since, getOldestOpset(entry.domain)),
                       entry.build != nullptr};
    auto [it, isNew] = ops.try_emplace({entry.domain, entry.name}, support);
    it->second.since = std::min(it->second.since, support.since);
  }
  // These ops update lists of tensors, which are no values of the IR. The
  // importer of training artifacts reads them, so the op table has no entries.
  for (StringRef name :
       {"AdamWOptimizer", "InPlaceAccumulator", "InPlaceAccumulatorV2",
        "InplaceClipGradNorm", "SGDOptimizerV2"})
    ops.try_emplace({kMicrosoft, name}, Support{1, true});
  os << "| domain | op | from opset | of |\n|---|---|---|---|\n";
  for (const auto &[key, support] : ops)
    os << "| " << (key.first.empty() ? "ai.onnx" : key.first) << " | "
       << key.second << " | " << support.since << " | "
       << (support.ofData ? "data" : "shapes") << " |\n";
}
