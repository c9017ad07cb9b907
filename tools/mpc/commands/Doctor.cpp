// mpc doctor: prints what mpc finds on this machine.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/BoundedJSON.h"
#include "tools/mpc/commands/Commands.h"
#include "tools/mpc/commands/TrainFlags.h"
#include "tools/mpc/commands/Version.h"
#include "tools/mpc/doctor/Section.h"
#include "tools/mpc/flags/Options.h"
#include "tools/mpc/print/PrintableStream.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

#include <CLI/CLI.hpp>

#include <algorithm>

using namespace mpc;
using namespace mpc::tools;

namespace {
struct DoctorCommand {
  std::string format = "text";
  int ranks = 0;
  CompileOptions compile; ///< only --kernel-cache
  runtime::SessionOptions session;
};
} // namespace

static void printText(const std::vector<Section> &sections,
                      llvm::raw_ostream &os) {
  size_t width = 0;
  for (const Section &section : sections)
    for (const auto &[name, text] : section.rows)
      width = std::max(width, name.size());
  os << "mpc " MPC_VERSION << ", revision " << kRevision << "\n";
  for (const Section &section : sections) {
    os << section.title << "\n";
    for (const auto &[name, text] : section.rows)
      os << "  " << llvm::left_justify(name, unsigned(width)) << "  "
         << printable(text) << "\n";
  }
}

static void runDoctor(const DoctorCommand &command) {
  const std::vector<Section> sections = {
      describeDevices(), describeLibraries(),
      describeRanks(command.ranks, command.session),
      describeCaches(command.compile.kernelCache), describeLimits()};
  // Several ranks may share the stream, so write once.
  std::string text;
  llvm::raw_string_ostream os(text);
  if (command.format == "json") {
    nlohmann::json object = {{"version", MPC_VERSION},
                             {"revision", std::string(kRevision)}};
    for (const Section &section : sections)
      object[section.title] = section.facts;
    os << runtime::textOf(object) << "\n";
  } else {
    printText(sections, os);
  }
  llvm::outs() << text;
}

void mpc::tools::addDoctorCommand(CLI::App &program, int &exitCode) {
  auto command = std::make_shared<DoctorCommand>();
  CLI::App *app = program.add_subcommand(
      "doctor", "show what mpc finds on this machine: devices, libraries, "
                "ranks, caches and limits");
  addRanksOption(*app, command->ranks);
  addSessionOptions(*app, command->session);
  addKernelCacheOption(*app, command->compile);
  app->add_option("--format", command->format,
                  "text, or json: one object on one line")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str();
  app->callback([command, &exitCode] {
    runDoctor(*command);
    exitCode = static_cast<int>(ExitCode::Done);
  });
}
