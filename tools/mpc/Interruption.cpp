// SPDX-License-Identifier: Apache-2.0
#include "tools/mpc/Interruption.h"

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <iterator>
#include <unistd.h>

static constexpr int kStopSignals[] = {SIGINT, SIGTERM, SIGHUP};

// Which of them were ignored when the process started.
static bool wasIgnored[std::size(kStopSignals)];

// The signal that asked the run to end, 0 before, and when it came.
static std::atomic<int> stopSignal = 0;
static std::atomic<int64_t> stopTime = 0;
static bool isTerminal = false;

static int64_t milliseconds() {
  timespec now = {};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t(now.tv_sec) * 1000 + now.tv_nsec / 1000000;
}

// Calls only what a signal handler may.
static void say(const char *text) {
  // Nobody can be told of a failure here.
  ssize_t written = write(STDERR_FILENO, text, strlen(text));
  static_cast<void>(written);
}

static void handleStop(int signal) {
  const int savedErrno = errno;
  constexpr int64_t oneSecond = 1000;
  const int64_t now = milliseconds();
  int64_t never = 0;
  if (stopTime.compare_exchange_strong(never, now)) {
    stopSignal = signal;
    say(isTerminal ? "\r\033[K" : "");
    say(signal == SIGINT
            ? "stopping after this batch; press Ctrl-C again to abort\n"
            : "stopping after this batch; a second signal aborts\n");
  } else if (now - stopTime > oneSecond) {
    std::signal(signal, SIG_DFL);
    raise(signal);
  }
  errno = savedErrno;
}

void mpc::tools::prepareSignals() {
  for (size_t i = 0; i < std::size(kStopSignals); ++i) {
    struct sigaction action;
    wasIgnored[i] = sigaction(kStopSignals[i], nullptr, &action) == 0 &&
                    action.sa_handler == SIG_IGN;
  }
  setenv("LLVM_DISABLE_SYMBOLIZATION", "1", /*overwrite=*/0);
}

void mpc::tools::ignoreFileSizeSignal() { std::signal(SIGXFSZ, SIG_IGN); }

const std::atomic<int> &mpc::tools::installStopHandlers() {
  isTerminal = isatty(STDERR_FILENO) != 0;
  for (size_t i = 0; i < std::size(kStopSignals); ++i)
    std::signal(kStopSignals[i], wasIgnored[i] ? SIG_IGN : handleStop);
  return stopSignal;
}
