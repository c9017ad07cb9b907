// The table of all ops, indexed by name.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Ops/Importer.h"

using namespace mlir;
using namespace mpc::onnx_frontend;

std::vector<OpEntry> mpc::onnx_frontend::getAllOps() {
  std::vector<OpEntry> all;
  for (ArrayRef<OpEntry> family :
       {getAssembledOps(),   getElementwiseOps(), getMovementOps(),
        getIndexedOps(),     getPositionOps(),    getReductionOps(),
        getResizeOps(),      getEinsumOps(),      getSequenceOps(),
        getShapeOps(),       getContractionOps(), getNormalizationOps(),
        getLayerNormOps(),   getAttentionOps(),   getLoopOps(),
        getConditionalOps(), getRecurrentOps(),   getLossOps(),
        getGradientOps(),    getTrainingOps(),    getGridOps(),
        getSampledOps(),     getTopKOps(),        getFourierOps(),
        getPoolingOps(),     getRandomOps(),      getSelectedOps(),
        getOptimizerOps()})
    for (const OpEntry &entry : family)
      if (entry.since > 0) // others are there for another entry's builder
        all.push_back(entry);
  return all;
}

// Entries by "domain:name", one per range of opsets.
using OpIndex = llvm::StringMap<std::vector<OpEntry>>;

static std::string getKey(StringRef domain, StringRef name) {
  return (domain + ":" + name).str();
}

static const OpIndex &getIndex() {
  static const OpIndex index = [] {
    OpIndex result;
    for (const OpEntry &entry : getAllOps())
      result[getKey(entry.domain, entry.name)].push_back(entry);
    return result;
  }();
  return index;
}

// Spellings found in files for a domain's real name.
static StringRef resolveAlias(StringRef domain) {
  return domain == "ai.onnx.preview" ? StringRef(kTraining) : domain;
}

bool mpc::onnx_frontend::isKnownOp(StringRef domain, StringRef name) {
  return getIndex().contains(getKey(resolveAlias(domain), name));
}

const OpEntry *mpc::onnx_frontend::findOp(StringRef domain, StringRef name,
                                          int64_t opset) {
  auto it = getIndex().find(getKey(resolveAlias(domain), name));
  if (it == getIndex().end())
    return nullptr;
  for (const OpEntry &entry : it->second)
    if (entry.since <= opset && opset <= entry.until)
      return &entry;
  return nullptr;
}
