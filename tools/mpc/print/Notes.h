// Prints notes and warnings on stderr. Prints each text once, and no notes with
// --quiet.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TOOLS_MPC_PRINT_NOTES_H
#define MPC_TOOLS_MPC_PRINT_NOTES_H

#include "llvm/ADT/Twine.h"
#include "llvm/Support/raw_ostream.h"

#include <string>

namespace CLI {
class App;
} // namespace CLI

namespace mpc::tools {

/// How much a command prints about its work. It always prints warnings and
/// errors.
enum class Verbosity { Quiet, Normal, Verbose };

/// Sets the verbosity of all later notes. The default is Normal.
void setVerbosity(Verbosity verbosity);

/// Sets the rank of this process in a distributed run. All ranks but rank 0
/// print no notes and warnings, and errors with "rank N: " in front.
void setRank(int rank);
/// Returns the text in front of errors: "rank 3: ", or empty for rank 0.
std::string rankPrefix();

/// From now on, keeps the errors of this rank until the ranks agree on a
/// failure, so that one rank can print each error once. False prints errors at
/// once, as by default.
void holdErrors(bool holds);
/// True if errors are kept.
bool holdsErrors();
/// Keeps a line of an error, without the prefix of the rank.
void keepError(llvm::StringRef line);
/// Returns the lines that are kept, and forgets them.
std::string takeErrors();

/// Adds -q, --quiet: print only results, warnings and errors.
void addQuietFlag(CLI::App &command);
/// True if --quiet is set, on the command line or elsewhere.
bool isQuiet();

/// Prints "note: MESSAGE" as one line, unless --quiet is set or the message has
/// been printed before.
void note(const llvm::Twine &message, llvm::raw_ostream &os = llvm::errs());
/// Prints "warning: MESSAGE" as one line, unless the message has been printed
/// before.
void warn(const llvm::Twine &message, llvm::raw_ostream &os = llvm::errs());

/// The stream for messages on stderr during a run. A reader that stops, like a
/// terminal after Ctrl-S, does not stop the run: text waits in a buffer of up
/// to 64 KiB until the reader goes on. Write whole lines.
class RunMessages : public llvm::raw_ostream {
public:
  RunMessages();
  /// Waits at most a second for the reader to take the rest.
  ~RunMessages() override;

  /// True if all text has been written. If not, callers may leave out further
  /// progress.
  bool isRead();

private:
  void write_impl(const char *text, size_t size) override;
  uint64_t current_pos() const override { return 0; }
  void writePending();

  int file;
  bool isOwned = false;
  std::string pending;
};

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_PRINT_NOTES_H
