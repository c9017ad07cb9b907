// SPDX-License-Identifier: Apache-2.0
#include "tools/mpc/profile/Roof.h"

#include "compiler/Artifact/CodeCache.h"
#include "runtime/BoundedJSON.h"

#include "llvm/ADT/StringExtras.h"

#include <cmath>
#include <ctime>

using namespace mpc;
using namespace mpc::tools;
using namespace mpc::runtime;

double Roof::bandwidthAt(double distance) const {
  for (const Bandwidth &bandwidth : rates.bandwidths)
    if (distance <= double(bandwidth.bytes))
      return bandwidth.rate;
  return rates.bandwidths.back().rate;
}

double Roof::flopsOf(DType type) const {
  switch (type) {
  case DType::BF16:
    return rates.products.bf16;
  case DType::F16:
    return rates.products.f16;
  case DType::F64:
    return rates.products.f32 / 2;
  default:
    return rates.products.f32;
  }
}

//===----------------------------------------------------------------------===//
// JSON
//===----------------------------------------------------------------------===//

nlohmann::json Roof::toJSON() const {
  nlohmann::json bandwidths = nlohmann::json::array();
  for (const Bandwidth &bandwidth : rates.bandwidths)
    bandwidths.push_back(
        {{"bytes", bandwidth.bytes}, {"bytes_per_second", bandwidth.rate}});
  return {{"cpu", cpu},
          {"threads", threads},
          {"measured", measured},
          {"busy", rates.isBusy},
          {"measurements", measurements},
          {"bandwidth", std::move(bandwidths)},
          {"flops_per_second",
           {{"f32", rates.products.f32},
            {"bf16", rates.products.bf16},
            {"f16", rates.products.f16}}}};
}

static bool readRate(const nlohmann::json &object, const char *key,
                     double &rate) {
  if (!object.contains(key) || !object[key].is_number())
    return false;
  rate = object[key].get<double>();
  return std::isfinite(rate) && rate > 0;
}

// Reads the rates that Roof::toJSON wrote. False if the text is of another
// form.
static bool readRoof(const std::string &text, Roof &roof) {
  const nlohmann::json object = parseBoundedJSON(text);
  if (!object.is_object() || !object.contains("measured") ||
      !object["measured"].is_string() || !object.contains("busy") ||
      !object["busy"].is_boolean() || !object.contains("measurements") ||
      !object["measurements"].is_number_integer() ||
      !object.contains("bandwidth") || !object["bandwidth"].is_array() ||
      object["bandwidth"].empty() || !object.contains("flops_per_second") ||
      !object["flops_per_second"].is_object())
    return false;
  roof.measured = object["measured"].get<std::string>();
  roof.rates.isBusy = object["busy"].get<bool>();
  roof.measurements = object["measurements"].get<int64_t>();
  for (const nlohmann::json &entry : object["bandwidth"]) {
    Bandwidth bandwidth;
    double bytes = 0;
    if (!entry.is_object() || !readRate(entry, "bytes", bytes) ||
        !readRate(entry, "bytes_per_second", bandwidth.rate))
      return false;
    bandwidth.bytes = int64_t(bytes);
    roof.rates.bandwidths.push_back(bandwidth);
  }
  const nlohmann::json &flops = object["flops_per_second"];
  return readRate(flops, "f32", roof.rates.products.f32) &&
         readRate(flops, "bf16", roof.rates.products.bf16) &&
         readRate(flops, "f16", roof.rates.products.f16);
}

//===----------------------------------------------------------------------===//
// The cache
//===----------------------------------------------------------------------===//

static std::string formatNow() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

// Opens the cache; nullopt if there is none, and each process measures.
static std::optional<CodeCache> openRoofCache(const std::string &name) {
  const std::string folder = CodeCache::findFolder(name);
  if (folder.empty())
    return std::nullopt;
  auto cache = CodeCache::open(folder);
  if (cache)
    return std::move(*cache);
  llvm::consumeError(cache.takeError());
  return std::nullopt;
}

StatusOr<Roof> mpc::tools::findRoof(const Target &target, int threads,
                                    const std::string &folder, KeptRoof use) {
  Roof roof;
  roof.cpu = hostCPUName();
  roof.threads = threads;
  const std::string key = "mpc roof 2\n" + roof.cpu + "\n" +
                          std::to_string(threads) + "\n" +
                          llvm::join(target.features, ",");
  const std::optional<CodeCache> cache = openRoofCache(folder);
  std::optional<Roof> kept;
  if (cache && use != KeptRoof::Replace)
    if (std::optional<std::string> text = cache->lookup(key)) {
      kept = roof;
      kept->isKept = true;
      if (!readRoof(*text, *kept))
        kept.reset();
    }
  constexpr int64_t kMostMeasurements = 4;
  if (kept && ((use == KeptRoof::Take && !kept->rates.isBusy) ||
               kept->measurements >= kMostMeasurements))
    return *kept;
  StatusOr<MachineRoof> rates = measureRoof(target.features, threads);
  if (!rates.ok())
    return rates.status();
  roof.rates = kept ? joinRoofs(std::move(*rates), kept->rates) : *rates;
  roof.measurements = kept ? kept->measurements + 1 : 1;
  roof.measured = formatNow();
  if (cache)
    cache->store(key, textOf(roof.toJSON()));
  return roof;
}
