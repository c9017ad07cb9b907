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
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sys/file.h>
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

/// What `stat` says of a regular file; nothing of a pipe, a terminal, a device
/// or what does not exist: those have no lines of other runs.
static std::optional<struct stat> statRegular(const std::string &path) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode))
    return std::nullopt;
  return info;
}

/// The lines are another run's work, which nobody asked to lose.
static Status checkStart(const std::string &path, MetricsStart start) {
  const std::optional<struct stat> info = statRegular(path);
  if (start != MetricsStart::New || !info || info->st_size == 0)
    return Status();
  return Status(StatusCode::Usage,
                path + ": has the metrics of an earlier run; continue that "
                       "with --resume, choose another file, or replace it "
                       "with --overwrite-metrics");
}

Status MetricsFile::check(const std::string &path, MetricsStart start) {
  if (Status status = checkStart(path, start); !status.ok())
    return status;
  const std::string parent = std::filesystem::path(path).parent_path().string();
  const std::string folder = parent.empty() ? "." : parent;
  const bool exists = access(path.c_str(), F_OK) == 0;
  if (access(exists ? path.c_str() : folder.c_str(), W_OK) != 0)
    return failure(path, "cannot write");
  return Status();
}

/// One run writes a file at a time. Cuts off a line that a crash left
/// unfinished, or all of them.
static Status prepareRegular(const std::string &path, int file,
                             MetricsStart start) {
  if (flock(file, LOCK_EX | LOCK_NB) != 0)
    return errno == EWOULDBLOCK
               ? Status(StatusCode::IO,
                        path + ": in use by another training run")
               : failure(path, "cannot lock");
  const off_t end = start == MetricsStart::Append ? endOfLastLine(file) : 0;
  return ftruncate(file, end) == 0
             ? Status()
             : failure(path, "cannot cut off an unfinished line");
}

StatusOr<std::unique_ptr<MetricsFile>>
MetricsFile::open(const std::string &path, MetricsStart start) {
  if (Status status = checkStart(path, start); !status.ok())
    return status;
  // A pipe that nobody reads is refused without waiting for it. One that is
  // read slowly is waited for, which is why the flag goes.
  const bool isRegular = statRegular(path) || access(path.c_str(), F_OK) != 0;
  const int flags =
      (isRegular ? O_RDWR : O_WRONLY) | O_CREAT | O_APPEND | O_CLOEXEC;
  const int file = ::open(path.c_str(), flags | O_NONBLOCK, 0666);
  if (file < 0)
    return failure(path, "cannot open");
  std::unique_ptr<MetricsFile> metrics(new MetricsFile(path, file));
  if (fcntl(file, F_SETFL, flags & O_APPEND) != 0)
    return failure(path, "cannot open");
  if (statRegular(path))
    if (Status status = prepareRegular(path, file, start); !status.ok())
      return status;
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
