// Formats and appends lines of metrics.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/record/Metrics.h"
#include "runtime/BoundedJSON.h"
#include "runtime/train/support/FileSystem.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <fcntl.h>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace mpc::runtime::train {

static std::string quote(std::string_view text) { return textOf(text); }

MetricsLine::MetricsLine(std::string_view event, Digits digits)
    : digits(digits) {
  add("event", event);
}

MetricsLine &MetricsLine::addJSON(std::string_view key, std::string_view json) {
  values.push_back({std::string(key), std::string(json), false, std::nullopt});
  return *this;
}

MetricsLine &MetricsLine::add(std::string_view key, std::string_view text) {
  values.push_back({std::string(key), std::string(text), true, std::nullopt});
  return *this;
}

MetricsLine &MetricsLine::add(std::string_view key, int64_t value) {
  addJSON(key, std::to_string(value));
  values.back().number = double(value);
  return *this;
}

MetricsLine &MetricsLine::add(std::string_view key, uint64_t value) {
  addJSON(key, std::to_string(value));
  values.back().number = double(value);
  return *this;
}

MetricsLine &MetricsLine::add(std::string_view key, bool value) {
  return addJSON(key, value ? "true" : "false");
}

MetricsLine &MetricsLine::add(std::string_view key, double value) {
  if (std::isfinite(value)) {
    char text[40];
    std::snprintf(text, sizeof(text), "%.*g", int(digits), value);
    addJSON(key, text);
  } else {
    add(key, std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf");
  }
  values.back().number = value;
  return *this;
}

MetricsLine &MetricsLine::add(std::string_view key,
                              const std::optional<double> &value) {
  return value ? add(key, *value) : addJSON(key, "null");
}

MetricsLine &MetricsLine::add(std::string_view key,
                              const std::optional<int64_t> &value) {
  return value ? add(key, *value) : addJSON(key, "null");
}

const MetricsField *MetricsLine::field(std::string_view key) const {
  for (const MetricsField &field : values)
    if (field.key == key)
      return &field;
  return nullptr;
}

std::string MetricsLine::text() const {
  std::string line;
  for (const MetricsField &field : values) {
    line += line.empty() ? '{' : ',';
    line += quote(field.key) + ":" +
            (field.isString ? quote(field.text) : field.text);
  }
  return line + "}\n";
}

//===----------------------------------------------------------------------===//
// Tables
//===----------------------------------------------------------------------===//

/// Lists the columns of steps, then the columns of evaluations.
static std::vector<std::string>
columnsOf(const std::vector<std::string> &evalMetrics, bool hasAccuracy,
          const std::vector<std::string> &losses) {
  std::vector<std::string> columns = {
      "event",         "step",    "micro_step", "epoch",        "samples",
      "loss",          "lr",      "grad_norm",  "loss_scale",   "skipped",
      "skipped_total", "step_ms", "eval_loss",  "eval_accuracy"};
  if (hasAccuracy)
    columns.insert(std::find(columns.begin(), columns.end(), "lr"), "accuracy");
  const auto insert = [&](const char *before, const std::string &column) {
    columns.insert(std::find(columns.begin(), columns.end(), before), column);
  };
  for (const std::string &name : losses) {
    insert(hasAccuracy ? "accuracy" : "lr", name);
    insert("eval_accuracy", "eval_" + name);
  }
  for (const std::string &name : evalMetrics)
    if (name != "accuracy")
      columns.push_back("eval_" + name);
  columns.push_back("eval_samples");
  return columns;
}

/// Formats the line of names. Names of outputs may have characters that
/// separate cells of a table; an underscore replaces them.
static std::string joinColumns(const std::vector<std::string> &columns) {
  std::string line;
  for (std::string column : columns) {
    std::replace_if(
        column.begin(), column.end(),
        [](char c) { return c == ',' || c == '"' || c == '\n' || c == '\r'; },
        '_');
    line += (line.empty() ? "" : ",") + column;
  }
  return line + "\n";
}

/// Formats a row. Numbers, booleans and names of events need no quotes.
static std::string rowOf(const MetricsLine &line,
                         const std::vector<std::string> &columns) {
  std::string row;
  for (const std::string &column : columns) {
    if (&column != &columns.front())
      row += ',';
    const MetricsField *field = line.field(column);
    if (field && (field->isString || field->text != "null"))
      row += field->text;
  }
  return row + "\n";
}

//===----------------------------------------------------------------------===//
// MetricsFile
//===----------------------------------------------------------------------===//

static constexpr char kStandardOutput[] = "-";

static bool isTable(const std::string &path) {
  return std::filesystem::path(path).extension() == ".csv";
}

/// The length of the file up to and including its last newline.
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

/// Returns a usage error if a new run would overwrite the lines of another run.
/// Pipes, terminals and devices have no old lines.
static Status checkStart(const std::string &path, MetricsStart start) {
  StatusOr<FileKind> kind = kindOf(path);
  if (!kind.ok())
    return kind.status();
  if (start != MetricsStart::New || *kind != FileKind::Regular)
    return Status();
  std::error_code error;
  const uintmax_t size = std::filesystem::file_size(path, error);
  if (error)
    return Status(StatusCode::IO,
                  path + ": cannot tell its size: " + error.message());
  if (size == 0)
    return Status();
  return Status(StatusCode::Usage,
                path + ": has the metrics of an earlier run; continue that "
                       "with --resume, choose another file, or replace it "
                       "with --overwrite-metrics");
}

Status MetricsFile::check(const std::string &path, MetricsStart start) {
  if (path == kStandardOutput)
    return Status();
  if (Status status = checkStart(path, start); !status.ok())
    return status;
  const std::string parent = std::filesystem::path(path).parent_path().string();
  const std::string folder = parent.empty() ? "." : parent;
  StatusOr<bool> isThere = exists(path);
  if (!isThere.ok())
    return isThere.status();
  if (access(*isThere ? path.c_str() : folder.c_str(), W_OK) != 0)
    return failure(path, "cannot write");
  return Status();
}

/// Locks a file against other runs. With Append, removes a line that a crash
/// left unfinished; otherwise removes all lines.
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

/// Writes the column names to a new table. In a table of a resumed run, checks
/// that the columns are still the same.
Status MetricsFile::startTable(std::vector<std::string> given) {
  columns = std::move(given);
  const std::string names = joinColumns(columns);
  std::string found(names.size(), '\0');
  const ssize_t count =
      isRegular ? pread(file, found.data(), found.size(), 0) : 0;
  if (count < 0)
    return failure(path, "cannot read");
  if (count == 0)
    return append(names);
  if (found == names)
    return Status();
  return Status(StatusCode::Usage,
                path + ": has other columns than this run; use the flags "
                       "--metric and --train-accuracy that the run began "
                       "with, or another file");
}

StatusOr<std::unique_ptr<MetricsFile>>
MetricsFile::open(const std::string &path, MetricsStart start,
                  const std::vector<std::string> &evalMetrics, bool hasAccuracy,
                  const std::vector<std::string> &losses) {
  if (path == kStandardOutput)
    return std::unique_ptr<MetricsFile>(new MetricsFile(path, STDOUT_FILENO));
  if (Status status = checkStart(path, start); !status.ok())
    return status;
  // With O_NONBLOCK, opening a pipe without a reader fails instead of waiting.
  // Remove the flag afterwards, so that writing waits for a slow reader.
  StatusOr<FileKind> kind = kindOf(path);
  if (!kind.ok())
    return kind.status();
  const bool isFile = *kind == FileKind::Regular || *kind == FileKind::None;
  const int flags =
      (isFile ? O_RDWR : O_WRONLY) | O_CREAT | O_APPEND | O_CLOEXEC;
  const int file = ::open(path.c_str(), flags | O_NONBLOCK, 0666);
  if (file < 0)
    return failure(path, "cannot open");
  std::unique_ptr<MetricsFile> metrics(new MetricsFile(path, file));
  if (fcntl(file, F_SETFL, flags & O_APPEND) != 0)
    return failure(path, "cannot open");
  struct stat info;
  if (fstat(file, &info) != 0)
    return failure(path, "cannot stat");
  metrics->isRegular = S_ISREG(info.st_mode);
  if (metrics->isRegular)
    if (Status status = prepareRegular(path, file, start); !status.ok())
      return status;
  if (isTable(path))
    if (Status status =
            metrics->startTable(columnsOf(evalMetrics, hasAccuracy, losses));
        !status.ok())
      return status;
  return metrics;
}

MetricsFile::~MetricsFile() {
  if (file != STDOUT_FILENO)
    close(file);
}

Status MetricsFile::write(const MetricsLine &line) {
  if (columns.empty())
    return append(line.text());
  const bool isRow = line.event() == "train" || line.event() == "eval";
  return isRow ? append(rowOf(line, columns)) : Status();
}

/// Appends text whole or not at all: if the disk takes only half, that half is
/// removed.
Status MetricsFile::append(std::string_view text) {
  const off_t end = isRegular ? lseek(file, 0, SEEK_END) : -1;
  if (writeAll(file, text))
    return Status();
  Status status = failure(path == kStandardOutput ? "standard output" : path,
                          "cannot write");
  if (end >= 0)
    static_cast<void>(ftruncate(file, end) == 0);
  return status;
}

} // namespace mpc::runtime::train
