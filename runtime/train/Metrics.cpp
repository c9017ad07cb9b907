// Formatting and appending metrics lines.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/Metrics.h"
#include "runtime/train/FileSystem.h"

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>
#include <unistd.h>

namespace mpc::runtime::train {

static std::string quoted(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', /*ensure_ascii=*/false,
                                   nlohmann::json::error_handler_t::replace);
}

MetricsLine::MetricsLine(std::string_view event, Digits digits)
    : digits(digits) {
  add("event", event);
}

MetricsLine &MetricsLine::addRaw(std::string_view key, std::string_view json) {
  if (line.size() > 1)
    line += ',';
  line += quoted(key);
  line += ':';
  line += json;
  return *this;
}

MetricsLine &MetricsLine::add(std::string_view key, std::string_view text) {
  return addRaw(key, quoted(text));
}

MetricsLine &MetricsLine::add(std::string_view key, int64_t value) {
  return addRaw(key, std::to_string(value));
}

MetricsLine &MetricsLine::add(std::string_view key, uint64_t value) {
  return addRaw(key, std::to_string(value));
}

MetricsLine &MetricsLine::add(std::string_view key, bool value) {
  return addRaw(key, value ? "true" : "false");
}

MetricsLine &MetricsLine::add(std::string_view key, double value) {
  if (std::isnan(value))
    return add(key, "nan");
  if (std::isinf(value))
    return add(key, value > 0 ? "inf" : "-inf");
  char text[40];
  std::snprintf(text, sizeof(text), "%.*g", int(digits), value);
  return addRaw(key, text);
}

MetricsLine &MetricsLine::add(std::string_view key,
                              const std::optional<double> &value) {
  return value ? add(key, *value) : addRaw(key, "null");
}

MetricsLine &MetricsLine::add(std::string_view key,
                              const std::optional<int64_t> &value) {
  return value ? add(key, *value) : addRaw(key, "null");
}

//===----------------------------------------------------------------------===//
// MetricsFile
//===----------------------------------------------------------------------===//

/// The length of the file up to and with its last new line.
static off_t endOfLastLine(int file) {
  off_t end = lseek(file, 0, SEEK_END);
  char block[4096];
  while (end > 0) {
    const off_t start = std::max<off_t>(0, end - off_t(sizeof(block)));
    const ssize_t count = pread(file, block, size_t(end - start), start);
    if (count <= 0)
      return end;
    for (ssize_t i = count; i-- > 0;)
      if (block[i] == '\n')
        return start + i + 1;
    end = start;
  }
  return 0;
}

/// Cuts off a line that a crash left unfinished. A pipe, a terminal or a device
/// has none.
static Status repair(const std::string &path) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode))
    return Status();
  const int file = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0)
    return failure(path, "cannot open");
  Status status;
  if (ftruncate(file, endOfLastLine(file)) != 0)
    status = failure(path, "cannot cut off an unfinished line");
  close(file);
  return status;
}

StatusOr<std::unique_ptr<MetricsFile>>
MetricsFile::open(const std::string &path, bool append) {
  if (append)
    if (Status status = repair(path); !status.ok())
      return status;
  // A pipe that nobody reads is refused without waiting for it. One that is
  // read slowly is waited for, which is why the flag goes.
  const int flags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC;
  const int file =
      ::open(path.c_str(), flags | O_NONBLOCK | (append ? 0 : O_TRUNC), 0666);
  if (file < 0)
    return failure(path, "cannot open");
  std::unique_ptr<MetricsFile> metrics(new MetricsFile(path, file));
  if (fcntl(file, F_SETFL, flags & O_APPEND) != 0)
    return failure(path, "cannot open");
  return metrics;
}

MetricsFile::~MetricsFile() { close(file); }

Status MetricsFile::write(const MetricsLine &line) {
  const std::string text = line.text();
  std::string_view rest = text;
  while (!rest.empty()) {
    const ssize_t written = ::write(file, rest.data(), rest.size());
    if (written < 0 && errno == EINTR)
      continue;
    if (written < 0)
      return failure(path, "cannot write");
    rest.remove_prefix(size_t(written));
  }
  return Status();
}

} // namespace mpc::runtime::train
