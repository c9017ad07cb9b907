// SPDX-License-Identifier: Apache-2.0
#include "tools/mpc/profile/ProfilePrinter.h"

#include "compiler/Support/TextTable.h"
#include "runtime/train/support/Text.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mpc;
using namespace mpc::tools;
using namespace mpc::runtime;
using namespace mpc::runtime::train;

/// The number of rows of each table, unless the whole profile is wanted.
static constexpr size_t kTopRows = 12;

static const char *const kPhases[] = {kForwardPhase, "backward", "optimizer"};

//===----------------------------------------------------------------------===//
// Cells
//===----------------------------------------------------------------------===//

static std::string formatShare(double part, double whole) {
  return llvm::formatv("{0:F1}", whole > 0 ? 100 * part / whole : 0).str();
}

static std::string formatTime(double seconds) {
  return formatMilliseconds(seconds * 1000);
}

// Returns billions with three digits, or one after the point: "0.53", "104.2".
static std::string formatBillions(double value) {
  return llvm::formatv(value < 1e10 ? "{0:F2}" : "{0:F1}", value / 1e9).str();
}

// Names a kernel: its first node, and the number of further nodes.
static std::string nameOf(const KernelProfile &kernel) {
  size_t nodes = 0;
  if (kernel.work)
    for (const NodeShare &node : kernel.work->nodes)
      nodes += node.names.size();
  return nodes > 1 ? kernel.name + " +" + std::to_string(nodes - 1)
                   : kernel.name;
}

static std::string nameOf(const NodeProfile &node) {
  return node.names.size() > 1
             ? node.names.front() + " +" + std::to_string(node.names.size() - 1)
             : node.names.front();
}

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

static void printHead(llvm::raw_ostream &os, const Profile &profile) {
  os << profile.model << ": " << profile.precision << " on " << profile.device;
  if (profile.roof)
    os << " (" << profile.roof->cpu << "), "
       << counted(profile.threads, "thread");
  if (profile.batchSize > 0)
    os << ", " << counted(profile.batchSize, "sample") << " per step";
  os << "\n";
  const double kernels = profile.kernelSeconds();
  os << "step " << formatTime(profile.stepSeconds) << " ms, the median of "
     << counted(int64_t(profile.measuredSteps), "step") << "; kernels "
     << formatTime(kernels) << " ms; with their measurement a step takes "
     << formatTime(profile.measuredStepSeconds) << " ms\n";
  if (!profile.phases.empty()) {
    const char *separator = "";
    for (const char *phase : kPhases)
      if (auto found = profile.phases.find(phase);
          found != profile.phases.end()) {
        os << separator << phase << " " << formatTime(found->second) << " ms ("
           << formatShare(found->second, kernels) << " %)";
        separator = ", ";
      }
    os << "\n";
  }
  if (profile.epoch) {
    const EpochProfile &epoch = *profile.epoch;
    os << "epoch of " << counted(epoch.steps, "step") << ": "
       << formatDuration(epoch.total()) << ", steps "
       << formatShare(epoch.stepSeconds, epoch.total()) << " %, data "
       << formatShare(epoch.dataSeconds, epoch.total()) << " %";
    if (epoch.evaluationSeconds)
      os << ", evaluation "
         << formatShare(*epoch.evaluationSeconds, epoch.total()) << " %";
    os << "\n";
  }
}

static void printMore(llvm::raw_ostream &os, size_t all, bool isWhole) {
  if (!isWhole && all > kTopRows)
    os << "... " << all - kTopRows << " more; --verbose prints all\n";
}

static void printKernels(llvm::raw_ostream &os, const Profile &profile,
                         bool isWhole) {
  using Align = TextTable::Align;
  std::vector<Align> columns(9, Align::Right);
  columns[0] = columns[1] = Align::Left;
  std::vector<std::string> heads = {"kernel", "types",   "calls",
                                    "ms",     "%",       "MB",
                                    "GB/s",   "GFLOP/s", "% of roof"};
  if (isWhole) {
    columns.push_back(Align::Left);
    heads.push_back("code");
  }
  TextTable table(columns);
  table.addRow(heads);
  const double whole = profile.kernelSeconds();
  for (const auto &[index, kernel] : llvm::enumerate(profile.kernels)) {
    if (!isWhole && index == kTopRows)
      break;
    std::string bytes, bandwidth, flops, roof;
    if (kernel.work && kernel.seconds > 0) {
      bytes = llvm::formatv("{0:F2}", kernel.work->bytes / 1e6).str();
      bandwidth = formatBillions(kernel.work->bytes / kernel.seconds);
      flops = formatBillions(kernel.work->flops / kernel.seconds);
    }
    if (kernel.roofSeconds)
      roof = llvm::formatv("{0:F0}",
                           kernel.seconds > 0
                               ? 100 * *kernel.roofSeconds / kernel.seconds
                               : 0)
                 .str();
    std::vector<std::string> row = {nameOf(kernel),
                                    llvm::join(kernel.types, " "),
                                    llvm::formatv("{0:F0}", kernel.calls).str(),
                                    formatTime(kernel.seconds),
                                    formatShare(kernel.total(), whole),
                                    bytes,
                                    bandwidth,
                                    flops,
                                    roof};
    if (isWhole)
      row.push_back(kernel.symbol.empty() ? kernel.op : kernel.symbol);
    table.addRow(row);
  }
  os << "\n";
  table.print(os);
  printMore(os, profile.kernels.size(), isWhole);
}

static void printNodes(llvm::raw_ostream &os, const Profile &profile,
                       bool isWhole) {
  using Align = TextTable::Align;
  TextTable table({Align::Left, Align::Right, Align::Right, Align::Right,
                   Align::Right, Align::Right});
  table.addRow(
      {"node", "forward ms", "backward ms", "optimizer ms", "ms", "%"});
  const double whole = profile.kernelSeconds();
  for (const auto &[index, node] : llvm::enumerate(profile.nodes)) {
    if (!isWhole && index == kTopRows)
      break;
    std::vector<std::string> row = {nameOf(node)};
    for (const char *phase : kPhases) {
      auto found = node.seconds.find(phase);
      row.push_back(found == node.seconds.end() ? ""
                                                : formatTime(found->second));
    }
    row.push_back(formatTime(node.total()));
    row.push_back(formatShare(node.total(), whole));
    table.addRow(row);
  }
  os << "\n";
  table.print(os);
  printMore(os, profile.nodes.size(), isWhole);
}

static void printRoof(llvm::raw_ostream &os, const Roof &roof) {
  const auto &memory = roof.rates.bandwidths;
  os << "\nroof, measured " << roof.measured << (roof.isKept ? " (kept)" : "")
     << (roof.rates.isBusy ? " on a busy machine" : "") << ": products "
     << formatBillions(roof.rates.products.f32) << " GFLOP/s in f32, "
     << formatBillions(roof.rates.products.bf16) << " in bf16, "
     << formatBillions(roof.rates.products.f16) << " in f16; memory "
     << formatBillions(memory.back().rate) << " GB/s, caches up to "
     << formatBillions(memory.front().rate) << "\n";
}

void mpc::tools::printProfile(llvm::raw_ostream &os, const Profile &profile,
                              bool isWhole) {
  printHead(os, profile);
  printKernels(os, profile, isWhole);
  if (!profile.nodes.empty())
    printNodes(os, profile, isWhole);
  if (profile.roof)
    printRoof(os, *profile.roof);
}

//===----------------------------------------------------------------------===//
// JSON
//===----------------------------------------------------------------------===//

static nlohmann::json toJSON(const KernelProfile &kernel, double whole) {
  nlohmann::json object{{"function", kernel.function},
                        {"name", kernel.name},
                        {"op", kernel.op},
                        {"kernel", nullptr},
                        {"types", kernel.types},
                        {"calls", kernel.calls},
                        {"seconds", kernel.seconds},
                        {"share", whole > 0 ? kernel.total() / whole : 0},
                        {"bytes", nullptr},
                        {"flops", nullptr},
                        {"compute", nullptr},
                        {"bytes_per_second", nullptr},
                        {"flops_per_second", nullptr},
                        {"roof_seconds", nullptr},
                        {"nodes", nlohmann::json::array()}};
  if (!kernel.symbol.empty())
    object["kernel"] = kernel.symbol;
  if (kernel.roofSeconds)
    object["roof_seconds"] = *kernel.roofSeconds;
  if (!kernel.work)
    return object;
  object["bytes"] = kernel.work->bytes;
  object["flops"] = kernel.work->flops;
  object["compute"] = std::string(runtime::nameOf(kernel.work->type));
  if (kernel.seconds > 0) {
    object["bytes_per_second"] = kernel.work->bytes / kernel.seconds;
    object["flops_per_second"] = kernel.work->flops / kernel.seconds;
  }
  for (const NodeShare &node : kernel.work->nodes)
    object["nodes"].push_back(
        {{"names", node.names}, {"phase", node.phase}, {"share", node.share}});
  return object;
}

nlohmann::json mpc::tools::toJSON(const Profile &profile) {
  const double whole = profile.kernelSeconds();
  nlohmann::json object{{"schema", 1},
                        {"model", profile.model},
                        {"precision", profile.precision},
                        {"target", profile.target},
                        {"device", profile.device},
                        {"threads", profile.threads},
                        {"batch_size", profile.batchSize},
                        {"inputs", profile.isRandom ? "random" : "data"},
                        {"measured_steps", profile.measuredSteps},
                        {"step_seconds", profile.stepSeconds},
                        {"measured_step_seconds", profile.measuredStepSeconds},
                        {"kernel_seconds", whole},
                        {"phases", profile.phases},
                        {"kernels", nlohmann::json::array()},
                        {"nodes", nlohmann::json::array()},
                        {"epoch", nullptr},
                        {"roof", nullptr}};
  for (const KernelProfile &kernel : profile.kernels)
    object["kernels"].push_back(::toJSON(kernel, whole));
  for (const NodeProfile &node : profile.nodes)
    object["nodes"].push_back(
        {{"names", node.names},
         {"seconds", node.seconds},
         {"share", whole > 0 ? node.total() / whole : 0}});
  if (profile.epoch) {
    const EpochProfile &epoch = *profile.epoch;
    object["epoch"] = {{"steps", epoch.steps},
                       {"step_seconds", epoch.stepSeconds},
                       {"data_seconds", epoch.dataSeconds},
                       {"evaluation_seconds", nullptr}};
    if (epoch.evaluationSeconds)
      object["epoch"]["evaluation_seconds"] = *epoch.evaluationSeconds;
  }
  if (profile.roof) {
    object["roof"] = profile.roof->toJSON();
    object["roof"]["kept"] = profile.roof->isKept;
  }
  return object;
}
