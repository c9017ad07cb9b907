// SPDX-License-Identifier: Apache-2.0
#include "tools/mpc/Notes.h"

#include "tools/mpc/PrintableStream.h"

#include "llvm/ADT/StringSet.h"

#include <CLI/CLI.hpp>

using namespace mpc::tools;

static Verbosity verbosity = Verbosity::Normal;

void mpc::tools::setVerbosity(Verbosity value) { verbosity = value; }

void mpc::tools::addQuietFlag(CLI::App &command) {
  command.add_flag_callback(
      "-q,--quiet", [] { setVerbosity(Verbosity::Quiet); },
      "print results, warnings and errors alone");
}

bool mpc::tools::isQuiet() { return verbosity == Verbosity::Quiet; }

static void say(llvm::StringRef kind, const llvm::Twine &message,
                llvm::raw_ostream &os) {
  static llvm::StringSet<> said;
  std::string line = (kind + ": " + message).str();
  if (said.insert(line).second)
    os << printable(line) << "\n";
}

void mpc::tools::note(const llvm::Twine &message, llvm::raw_ostream &os) {
  if (verbosity != Verbosity::Quiet)
    say("note", message, os);
}

void mpc::tools::warn(const llvm::Twine &message, llvm::raw_ostream &os) {
  say("warning", message, os);
}
