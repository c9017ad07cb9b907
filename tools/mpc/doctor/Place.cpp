// The section on the ranks.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/Device.h"
#include "runtime/cpu/Cores.h"
#include "runtime/distributed/Connect.h"
#include "runtime/distributed/Launch.h"
#include "tools/mpc/doctor/Section.h"

#include <cstdlib>

using namespace mpc;
using namespace mpc::tools;
using JSONValue = nlohmann::json;

// Adds the variables that decided about the place, with their values.
static void addVariables(Section &section, const runtime::Launch &launch) {
  section.facts["variables"] = JSONValue::object();
  std::string text;
  for (const std::string &name : launch.variables) {
    const char *value = std::getenv(name.c_str());
    text += (text.empty() ? "" : " ") + name + "=" + (value ? value : "");
    section.facts["variables"][name] = value ? value : "";
  }
  if (!text.empty())
    section.rows.push_back({"variables", text});
}

static std::string ofAll(int number, int count) {
  return std::to_string(number) + " of " + std::to_string(count);
}

// Adds the library that would connect the ranks.
static void addConnection(Section &section, const runtime::Launch &launch) {
  if (launch.size == 1)
    return;
  const runtime::StatusOr<std::string> backend = runtime::chooseBackend(launch);
  section.rows.push_back(
      {"connected by", backend.ok() ? *backend : backend.status().message()});
  if (backend.ok())
    section.facts["backend"] = *backend;
  else
    section.facts["error"] = backend.status().message();
}

Section mpc::tools::describeRanks(int ranks, runtime::SessionOptions session) {
  Section section{"ranks", {}, JSONValue::object()};
  runtime::StatusOr<runtime::Launch> launch = runtime::Launch::find(ranks);
  if (!launch.ok()) {
    section.rows.push_back({"error", launch.status().message()});
    section.facts["error"] = launch.status().message();
    return section;
  }
  const std::string launcher(nameOf(launch->launcher));
  section.rows.push_back({"launcher", launcher});
  section.facts["launcher"] = launcher;
  addVariables(section, *launch);
  if (!launch->incomplete.empty()) {
    section.rows.push_back({"incomplete", launch->incomplete});
    section.facts["incomplete"] = launch->incomplete;
  }
  section.rows.push_back(
      {"rank", ofAll(launch->rank, launch->size) + "; on this machine " +
                   ofAll(launch->localRank, launch->localSize)});
  addConnection(section, *launch);
  runtime::divideMachine(launch->localRank, launch->localSize, session);
  const int threads =
      session.threads ? session.threads : runtime::countUsableCores();
  section.rows.push_back({"device", session.device});
  section.rows.push_back({"threads", std::to_string(threads)});
  section.facts.update(JSONValue{{"rank", launch->rank},
                                 {"size", launch->size},
                                 {"local_rank", launch->localRank},
                                 {"local_size", launch->localSize},
                                 {"device", session.device},
                                 {"threads", threads}});
  return section;
}
