// SPDX-License-Identifier: Apache-2.0
#include "tools/mpc/print/Notes.h"

#include "tools/mpc/print/PrintableStream.h"

#include "llvm/ADT/StringSet.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

using namespace mpc::tools;

static Verbosity verbosity = Verbosity::Normal;

void mpc::tools::setVerbosity(Verbosity value) { verbosity = value; }

static int ownRank = 0;

void mpc::tools::setRank(int rank) { ownRank = rank; }

std::string mpc::tools::rankPrefix() {
  return ownRank == 0 ? "" : "rank " + std::to_string(ownRank) + ": ";
}

static bool areErrorsHeld = false;
static std::string heldErrors;

void mpc::tools::holdErrors(bool holds) { areErrorsHeld = holds; }

bool mpc::tools::holdsErrors() { return areErrorsHeld; }

void mpc::tools::keepError(llvm::StringRef line) { heldErrors += line; }

std::string mpc::tools::takeErrors() { return std::exchange(heldErrors, ""); }

void mpc::tools::addQuietFlag(CLI::App &command) {
  command.add_flag_callback(
      "-q,--quiet", [] { setVerbosity(Verbosity::Quiet); },
      "print only results, warnings and errors");
}

bool mpc::tools::isQuiet() { return verbosity == Verbosity::Quiet; }

static void say(llvm::StringRef kind, const llvm::Twine &message,
                llvm::raw_ostream &os) {
  static llvm::StringSet<> said;
  if (ownRank != 0)
    return;
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

//===----------------------------------------------------------------------===//
// RunMessages
//===----------------------------------------------------------------------===//

/// If a pipe is ready for writing, it accepts at least this many bytes at once.
static constexpr size_t kPiece = 4096;
static constexpr size_t kMostPending = size_t(1) << 16;
static constexpr int kLastWait = 1000; // milliseconds

RunMessages::RunMessages()
    : raw_ostream(/*unbuffered=*/true), file(STDERR_FILENO) {
  llvm::errs().flush();
  // Open stderr again if it is a pipe or a terminal, to write without blocking.
  // Setting O_NONBLOCK on the descriptor itself would affect other processes
  // that share it. If the system refuses, poll(2) tells when writing does not
  // block.
  struct stat info;
  if (fstat(STDERR_FILENO, &info) != 0 ||
      (!S_ISFIFO(info.st_mode) && !S_ISCHR(info.st_mode)))
    return;
  const int opened =
      open("/proc/self/fd/2", O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  isOwned = opened >= 0;
  if (isOwned)
    file = opened;
}

RunMessages::~RunMessages() {
  pollfd reader = {file, POLLOUT, 0};
  if (!pending.empty() && poll(&reader, 1, kLastWait) == 1)
    writePending();
  if (isOwned)
    close(file);
}

bool RunMessages::isRead() {
  writePending();
  pollfd reader = {file, POLLOUT, 0};
  return pending.empty() && poll(&reader, 1, /*timeout=*/0) == 1;
}

void RunMessages::write_impl(const char *text, size_t size) {
  if (pending.size() + size <= kMostPending)
    pending.append(text, size);
  writePending();
}

void RunMessages::writePending() {
  pollfd reader = {file, POLLOUT, 0};
  while (!pending.empty() && poll(&reader, 1, /*timeout=*/0) == 1) {
    const ssize_t written =
        ::write(file, pending.data(), std::min(pending.size(), kPiece));
    if (written < 0 && (errno == EINTR || errno == EAGAIN))
      return;
    // Drop the text if the reader has gone for good, so that training goes on.
    pending.erase(0, written < 0 ? pending.size() : size_t(written));
  }
}
