// The section on the CPU and the GPUs.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Target/TargetInfo.h"
#include "runtime/cpu/Cores.h"
#include "runtime/cuda/Inventory.h"
#include "tools/mpc/doctor/Section.h"

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/ADT/StringExtras.h"

#include <sched.h>
#include <unistd.h>

using namespace mpc;
using namespace mpc::tools;
using JSONValue = nlohmann::json;

// Returns the number of processors that the process may use; 0 if unknown.
static int countAllowedProcessors() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  return sched_getaffinity(0, sizeof(allowed), &allowed) == 0
             ? CPU_COUNT(&allowed)
             : 0;
}

// Lists the element types with products at least as fast as in f32.
static std::vector<std::string> listFastTypes(const TargetInfo &target) {
  mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
  const std::pair<const char *, mlir::Type> types[] = {
      {"f32", mlir::Float32Type::get(&context)},
      {"f64", mlir::Float64Type::get(&context)},
      {"bf16", mlir::BFloat16Type::get(&context)},
      {"f16", mlir::Float16Type::get(&context)}};
  std::vector<std::string> names;
  for (const auto &[name, type] : types)
    if (target.hasNativeContraction(type))
      names.emplace_back(name);
  return names;
}

static void addCPU(Section &section) {
  const TargetInfo host = llvm::cantFail(TargetInfo::get("native"));
  const int cores = runtime::countUsableCores();
  const int allowed = countAllowedProcessors();
  const long online = sysconf(_SC_NPROCESSORS_ONLN);
  const std::vector<std::string> fast = listFastTypes(host);
  section.rows.push_back(
      {"CPU", host.getTuneCPU().str() + ": mpc uses " + std::to_string(cores) +
                  " cores; this process may run on " + std::to_string(allowed) +
                  " of " + std::to_string(online) + " processors"});
  section.rows.push_back(
      {"vectors",
       std::to_string(host.getVectorBits()) + " bits" +
           (host.hasNativeFMA() ? ", fused multiply-add" : "") +
           (host.hasNativeF16Conversion() ? ", converts f16" : "") +
           (host.hasNativeBF16Conversion() ? ", converts bf16" : "") +
           (host.hasAMX() ? ", AMX" : ", no AMX")});
  section.rows.push_back(
      {"products", "at full speed in " + llvm::join(fast, ", ")});
  section.facts["cpu"] = {{"name", host.getTuneCPU().str()},
                          {"cores", cores},
                          {"allowed_processors", allowed},
                          {"processors", online},
                          {"vector_bits", host.getVectorBits()},
                          {"fma", host.hasNativeFMA()},
                          {"converts_f16", host.hasNativeF16Conversion()},
                          {"converts_bf16", host.hasNativeBF16Conversion()},
                          {"amx", host.hasAMX()},
                          {"fast_products", fast},
                          {"features", host.getFeatures().vec()}};
}

static void addGPUs(Section &section) {
  const runtime::cuda::Inventory found = runtime::cuda::takeInventory();
  JSONValue list = JSONValue::array();
  for (const runtime::cuda::GPU &gpu : found.gpus) {
    section.rows.push_back(
        {"GPU " + std::to_string(list.size()), gpu.describe()});
    list.push_back({{"name", gpu.name}, {"architecture", gpu.architecture()}});
  }
  if (found.gpus.empty())
    section.rows.push_back({"GPU", found.driver.fault.empty()
                                       ? "none visible to the driver"
                                   : found.driver.path.empty()
                                       ? "none: no NVIDIA driver"
                                       : "none usable: " + found.driver.fault});
  section.facts["gpus"] = std::move(list);
}

Section mpc::tools::describeDevices() {
  Section section{"devices", {}, JSONValue::object()};
  addCPU(section);
  addGPUs(section);
  return section;
}
