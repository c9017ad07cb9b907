// Prints notes and warnings on stderr: each text once, and no more than --quiet
// allows.
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

/// How much a command says about its work. Warnings and errors are always
/// printed.
enum class Verbosity { Quiet, Normal, Verbose };

/// Applies to all later notes. The default is Normal.
void setVerbosity(Verbosity verbosity);

/// Adds -q, --quiet: print only results, warnings and errors.
void addQuietFlag(CLI::App &command);
/// True if --quiet was given, on the command line or elsewhere.
bool isQuiet();

/// Prints "note: MESSAGE" as one line, unless quiet or printed before.
void note(const llvm::Twine &message, llvm::raw_ostream &os = llvm::errs());
/// Prints "warning: MESSAGE" as one line, unless printed before.
void warn(const llvm::Twine &message, llvm::raw_ostream &os = llvm::errs());

/// Standard error during a run. A stopped reader, like a terminal after Ctrl-S,
/// does not hold up the run: unwritten text is kept in order, up to 64 KiB,
/// until the reader goes on. Write whole lines.
class RunMessages : public llvm::raw_ostream {
public:
  RunMessages();
  /// Waits for the reader, at most a second.
  ~RunMessages() override;

  /// True if all text has been written. Callers may leave out progress
  /// otherwise.
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
