// SPDX-License-Identifier: Apache-2.0
#include "tools/mpc/model/Interruption.h"

#include "compiler/Support/ExitCode.h"

#include "llvm/Support/Signals.h"

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <iterator>
#include <poll.h>
#include <unistd.h>

static constexpr int kStopSignals[] = {SIGINT, SIGTERM, SIGHUP, SIGXCPU};

// For each stop signal, and for SIGUSR1: true if the signal was ignored when
// mpc started.
static bool wasIgnored[std::size(kStopSignals)];
static bool wasSaveIgnored = false;

// The first signal that ends the run, and the time of the first signal after
// which a second one aborts, in milliseconds. Both are 0 before.
static std::atomic<int> stopSignal = 0;
static std::atomic<int64_t> stopTime = 0;
static std::atomic<bool> saveAsked = false;
static bool isTerminal = false;

static int64_t milliseconds() {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t(now.tv_sec) * 1000 + now.tv_nsec / 1000000;
}

// Prints text from a signal handler, so it calls only async-signal-safe
// functions. Prints nothing if stderr is not ready: a handler must not wait for
// a slow reader.
static void say(const char *text) {
  pollfd reader = {STDERR_FILENO, POLLOUT, 0};
  if (poll(&reader, 1, /*timeout=*/0) != 1)
    return;
  // If printing fails, there is no way to report it.
  ssize_t written = write(STDERR_FILENO, text, strlen(text));
  static_cast<void>(written);
}

// Notes the signal that ends the run, unless another one came before. Returns
// true for the first signal.
static bool setStopSignal(int signal) {
  int none = 0;
  return stopSignal.compare_exchange_strong(none, signal);
}

static void handleStop(int signal) {
  const int savedErrno = errno;
  constexpr int64_t oneSecond = 1000;
  const int64_t now = milliseconds();
  int64_t never = 0;
  if (stopTime.compare_exchange_strong(never, now)) {
    setStopSignal(signal);
    say(isTerminal ? "\r\033[K" : "");
    if (signal == SIGXCPU)
      say("the limit of processor time is near: ");
    say(signal == SIGINT
            ? "stopping after this batch; press Ctrl-C again to abort\n"
            : "stopping after this batch; a second signal aborts\n");
  } else if (signal != SIGXCPU && now - stopTime > oneSecond) {
    // Not for SIGXCPU: beyond the CPU limit, the system sends it every second,
    // even while the run saves.
    std::signal(signal, SIG_DFL);
    raise(signal);
  }
  errno = savedErrno;
}

static void handleSave(int) { saveAsked = true; }

static void handleRequeue(int signal) {
  const int savedErrno = errno;
  if (setStopSignal(signal))
    say("saving after this batch, to be queued again\n");
  errno = savedErrno;
}

static bool isIgnored(int signal) {
  struct sigaction action;
  return sigaction(signal, nullptr, &action) == 0 &&
         action.sa_handler == SIG_IGN;
}

void mpc::tools::prepareSignals() {
  for (size_t i = 0; i < std::size(kStopSignals); ++i)
    wasIgnored[i] = isIgnored(kStopSignals[i]);
  wasSaveIgnored = isIgnored(SIGUSR1);
  setenv("LLVM_DISABLE_SYMBOLIZATION", "1", /*overwrite=*/0);
}

// The signals by which LLVM recognizes a crash, and for each the handler that
// LLVM installed.
static constexpr int kCrashSignals[] = {SIGILL, SIGTRAP, SIGABRT, SIGFPE,
                                        SIGBUS, SIGSEGV, SIGQUIT, SIGSYS};
static struct sigaction reports[std::size(kCrashSignals)];
static volatile std::sig_atomic_t crashSignal = 0;

// Handles the timeout of a crash report: ends the process by the signal of the
// crash. A report hangs, for example, on the lock of malloc, or on stderr
// without a reader.
static void endUnreported(int) {
  std::signal(crashSignal, SIG_DFL);
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, crashSignal);
  sigprocmask(SIG_UNBLOCK, &signals, nullptr);
  raise(crashSignal);
}

static uintptr_t fromHex(const char *&text) {
  uintptr_t value = 0;
  for (;; ++text) {
    if (*text >= '0' && *text <= '9')
      value = value * 16 + uintptr_t(*text - '0');
    else if (*text >= 'a' && *text <= 'f')
      value = value * 16 + uintptr_t(*text - 'a' + 10);
    else
      return value;
  }
}

// Prints the name of the file that is mapped at `address`. Calls only
// async-signal-safe functions, since it runs in a signal handler.
static void sayFileAt(uintptr_t address) {
  const int maps = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  static char line[8192];
  size_t size = 0;
  for (char c; maps >= 0 && read(maps, &c, 1) == 1;) {
    if (c != '\n') {
      line[size] = c;
      size += size + 1 < sizeof(line);
      continue;
    }
    // A line of /proc/self/maps reads "BEGIN-END RIGHTS OFFSET DEVICE INODE
    // PATH".
    line[size] = '\0';
    size = 0;
    const char *text = line;
    const uintptr_t begin = fromHex(text);
    const uintptr_t end = *text == '-' ? fromHex(++text) : 0;
    const char *path = strchr(text, '/');
    if (address < begin || address >= end || !path)
      continue;
    say(path);
    say(": ");
    break;
  }
  close(maps);
}

// Reports a SIGBUS in a mapped file and ends the process. Data and machine code
// are read directly from mapped files, so if another process shortens a file,
// the next access fails.
static void endForLostFile(uintptr_t address) {
  llvm::sys::RunInterruptHandlers(); // removes temporary files
  say("error: ");
  sayFileAt(address);
  say("a file in use was cut short, or its disk is full or fails\n");
  _exit(static_cast<int>(mpc::ExitCode::IO));
}

static void handleCrash(int signal, siginfo_t *info, void *context) {
  if (signal == SIGBUS && info->si_code == BUS_ADRERR)
    endForLostFile(reinterpret_cast<uintptr_t>(info->si_addr));
  constexpr unsigned secondsToReport = 5;
  crashSignal = signal;
  std::signal(SIGALRM, endUnreported);
  alarm(secondsToReport);
  for (size_t i = 0; i < std::size(kCrashSignals); ++i) {
    if (kCrashSignals[i] != signal)
      continue;
    if (reports[i].sa_flags & SA_SIGINFO)
      reports[i].sa_sigaction(signal, info, context);
    else
      reports[i].sa_handler(signal);
  }
}

void mpc::tools::limitCrashReports() {
  for (size_t i = 0; i < std::size(kCrashSignals); ++i) {
    if (sigaction(kCrashSignals[i], nullptr, &reports[i]) != 0 ||
        reports[i].sa_handler == SIG_DFL || reports[i].sa_handler == SIG_IGN)
      continue;
    struct sigaction limited = reports[i];
    limited.sa_flags |= SA_SIGINFO;
    limited.sa_sigaction = handleCrash;
    sigaction(kCrashSignals[i], &limited, nullptr);
  }
}

void mpc::tools::ignoreFileSizeSignal() { std::signal(SIGXFSZ, SIG_IGN); }

const std::atomic<int> &mpc::tools::installStopHandlers() {
  isTerminal = isatty(STDERR_FILENO) != 0;
  for (size_t i = 0; i < std::size(kStopSignals); ++i)
    std::signal(kStopSignals[i], wasIgnored[i] ? SIG_IGN : handleStop);
  return stopSignal;
}

std::atomic<bool> &mpc::tools::installSaveHandler() {
  std::signal(SIGUSR1, wasSaveIgnored ? SIG_IGN : handleSave);
  return saveAsked;
}

void mpc::tools::installRequeueHandler(int signal) {
  std::signal(signal, handleRequeue);
}
