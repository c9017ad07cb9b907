// SPDX-License-Identifier: Apache-2.0
#include "tools/mpc/Notes.h"

#include "tools/mpc/PrintableStream.h"

#include "llvm/ADT/StringSet.h"

using namespace mpc::tools;

static Verbosity verbosity = Verbosity::Normal;

void mpc::tools::setVerbosity(Verbosity value) { verbosity = value; }

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
