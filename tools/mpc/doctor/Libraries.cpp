// The section on libraries.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Artifact/GPU.h"
#include "runtime/cpu/onednn/OneDNNVersion.h"
#include "runtime/cuda/Inventory.h"
#include "runtime/distributed/GlooCommunicator.h"
#include "runtime/distributed/MPICommunicator.h"
#include "tools/mpc/commands/Version.h"
#include "tools/mpc/doctor/Section.h"

using namespace mpc;
using namespace mpc::tools;
using JSONValue = nlohmann::json;

// Adds an installed library. `version` may be unknown, and a linked library
// has no path.
static void addPresent(Section &section, const std::string &name,
                       const std::string &version, const std::string &path) {
  std::string text = version;
  if (!path.empty())
    text += (text.empty() ? "" : ", ") + path;
  section.rows.push_back({name, text});
  JSONValue entry = {{"name", name}};
  if (!version.empty())
    entry["version"] = version;
  if (!path.empty())
    entry["path"] = path;
  section.facts.push_back(std::move(entry));
}

static void addAbsent(Section &section, const std::string &name,
                      const std::string &fault) {
  section.rows.push_back({name, fault});
  section.facts.push_back({{"name", name}, {"error", fault}});
}

static void addNVIDIA(Section &section) {
  const runtime::cuda::Inventory found = runtime::cuda::takeInventory();
  const auto add = [&](const runtime::cuda::InstalledLibrary &library,
                       const std::string &name) {
    if (library.fault.empty())
      addPresent(section, name, library.version, library.path);
    else
      addAbsent(section, name, library.fault);
  };
  add(found.driver, "CUDA driver");
  for (const runtime::cuda::InstalledLibrary &library : found.libraries)
    add(library, library.name);
  if (const std::optional<std::string> assembler = findPTXAssembler())
    addPresent(section, "ptxas", "", *assembler);
  else
    addAbsent(section, "ptxas", "not found");
}

static void addMPI(Section &section) {
  const std::vector<runtime::MPILibrary> found = runtime::findMPILibraries();
  for (const runtime::MPILibrary &library : found)
    addPresent(section, "MPI", library.version, library.path);
  if (found.empty())
    addAbsent(section, "MPI", "not found");
}

static void addGloo(Section &section) {
  const runtime::StatusOr<std::string> path = runtime::findGlooLibrary();
  if (path.ok())
    addPresent(section, "Gloo", "", *path);
  else
    addAbsent(section, "Gloo", path.status().message());
}

Section mpc::tools::describeLibraries() {
  Section section{"libraries", {}, JSONValue::array()};
  addPresent(section, "LLVM", llvmVersion(), "");
  addPresent(section, "oneDNN", runtime::oneDNNVersion(), "");
  addNVIDIA(section);
  addMPI(section);
  addGloo(section);
  return section;
}
