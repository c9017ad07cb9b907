// SPDX-License-Identifier: Apache-2.0
#include "tools/mpc/print/ReadProgress.h"

#include "runtime/cpu/DeferredSignals.h"
#include "tools/mpc/print/Notes.h"
#include "tools/mpc/print/PrintableStream.h"
#include "tools/mpc/print/Progress.h"

#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

#include <chrono>
#include <system_error>

using namespace mpc;
using namespace mpc::tools;

/// The time before the first line. Most data is read by then.
static constexpr std::chrono::milliseconds kSilence{1000};
static constexpr std::chrono::milliseconds kBetweenLines{200};

// Returns "reading image.npy: 2.1 of 8.0 GiB", in the unit of `total`; without
// sizes if `total` is 0.
static std::string describeReading(const std::string &source, int64_t done,
                                   int64_t total) {
  std::string line;
  llvm::raw_string_ostream os(line);
  os << "reading " << printable(source);
  if (total == 0)
    return line;
  const auto [unit, name] = total >= int64_t(1) << 30
                                ? std::pair(0x1p30, "GiB")
                                : std::pair(0x1p20, "MiB");
  os << ": "
     << llvm::format("%.1f of %.1f %s", double(done) / unit,
                     double(total) / unit, name);
  return line;
}

ReadProgress::ReadProgress() {
  if (isQuiet())
    return;
  // Signals are for the thread that waits for the data.
  const runtime::DeferredSignals deferred;
  try {
    watcher = std::thread([this] { watch(); });
  } catch (const std::system_error &) {
    // If no thread can start, the data is read without a line.
  }
}

ReadProgress::~ReadProgress() {
  if (!watcher.joinable())
    return;
  {
    const std::lock_guard<std::mutex> lock(mutex);
    isOver = true;
  }
  changed.notify_one();
  watcher.join();
}

void ReadProgress::reading(const std::string &file, int64_t bytes,
                           int64_t allBytes) {
  const std::lock_guard<std::mutex> lock(mutex);
  source = file;
  done = bytes;
  total = allBytes;
  changed.notify_one();
}

void ReadProgress::watch() {
  std::unique_lock<std::mutex> lock(mutex);
  const auto isDone = [this] { return isOver; };
  if (changed.wait_for(lock, kSilence, isDone))
    return;
  changed.wait(lock, [this] { return isOver || !source.empty(); });
  if (isOver)
    return;
  RunMessages messages;
  const bool changesInPlace = isErrTerminal();
  bool isShown = false;
  do {
    const std::string line = describeReading(source, done, total);
    if (changesInPlace)
      messages << "\r\033[K" << fitTerminal(line);
    else if (!isShown)
      messages << line << "\n";
    isShown = true;
  } while (!changed.wait_for(lock, kBetweenLines, isDone));
  if (isShown && changesInPlace)
    messages << "\r\033[K";
}
