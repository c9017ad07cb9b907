// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/record/EventFile.h"

#include "runtime/train/support/FileSystem.h"

#include <array>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <unistd.h>

namespace mpc::runtime::train {

namespace fs = std::filesystem;

//===----------------------------------------------------------------------===//
// Records
//===----------------------------------------------------------------------===//

/// Returns the CRC-32C (Castagnoli) of `bytes`, least significant bit first.
static uint32_t crc32c(std::string_view bytes) {
  static const std::array<uint32_t, 256> table = [] {
    std::array<uint32_t, 256> entries{};
    for (uint32_t i = 0; i < entries.size(); ++i) {
      entries[i] = i;
      for (int bit = 0; bit < 8; ++bit)
        entries[i] = (entries[i] >> 1) ^ (entries[i] & 1 ? 0x82f63b78u : 0);
    }
    return entries;
  }();
  uint32_t crc = ~0u;
  for (char byte : bytes)
    crc = (crc >> 8) ^ table[(crc ^ uint8_t(byte)) & 0xff];
  return ~crc;
}

static void putFixed(std::string &to, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i)
    to += char(value >> (8 * i));
}

/// Appends TFRecord's masked CRC of `of`. A plain CRC would detect fewer errors
/// in data that themselves contain CRCs.
static void putMaskedCRC(std::string &to, std::string_view of) {
  const uint32_t crc = crc32c(of);
  putFixed(to, ((crc >> 15) | (crc << 17)) + 0xa282ead8u, 4);
}

static std::string recordOf(std::string_view message) {
  std::string record;
  putFixed(record, message.size(), 8);
  putMaskedCRC(record, record);
  record += message;
  putMaskedCRC(record, message);
  return record;
}

//===----------------------------------------------------------------------===//
// Messages, in protobuf's encoding
//===----------------------------------------------------------------------===//

enum class Wire { Varint = 0, Fixed64 = 1, Bytes = 2, Fixed32 = 5 };

static void putVarint(std::string &to, uint64_t value) {
  for (; value >= 0x80; value >>= 7)
    to += char(value | 0x80);
  to += char(value);
}

static void putTag(std::string &to, int field, Wire wire) {
  putVarint(to, uint64_t(field) << 3 | uint64_t(wire));
}

static void putInteger(std::string &to, int field, uint64_t value) {
  putTag(to, field, Wire::Varint);
  putVarint(to, value);
}

static void putDouble(std::string &to, int field, double value) {
  uint64_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  putTag(to, field, Wire::Fixed64);
  putFixed(to, bits, 8);
}

static void putFloat(std::string &to, int field, float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  putTag(to, field, Wire::Fixed32);
  putFixed(to, bits, 4);
}

static void putBytes(std::string &to, int field, std::string_view bytes) {
  putTag(to, field, Wire::Bytes);
  putVarint(to, bytes.size());
  to += bytes;
}

/// Begins an Event, to which callers add fields.
static std::string eventAt(uint64_t step) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  std::string event;
  putDouble(event, 1, std::chrono::duration<double>(now).count()); // wall_time
  putInteger(event, 2, step);
  return event;
}

static void putScalar(std::string &summary, std::string_view tag,
                      double value) {
  std::string entry;
  putBytes(entry, 1, tag);
  putFloat(entry, 2, float(value)); // simple_value
  putBytes(summary, 1, entry);
}

//===----------------------------------------------------------------------===//
// The folder
//===----------------------------------------------------------------------===//

/// TensorBoard reads every file with kMark in its name. Files of mpc end in
/// kOurs.
static constexpr char kMark[] = "tfevents";
static constexpr char kOurs[] = ".mpc";

static StatusOr<std::vector<fs::path>> listEventFiles(const fs::path &folder) {
  std::vector<fs::path> files;
  std::error_code error;
  fs::directory_iterator entry(folder, error), end;
  for (; !error && entry != end; entry.increment(error))
    if (entry->path().filename().string().find(kMark) != std::string::npos)
      files.push_back(entry->path());
  if (!error || error == std::errc::no_such_file_or_directory)
    return files;
  return Status(StatusCode::IO,
                folder.string() + ": cannot list: " + error.message());
}

/// Returns a usage error if a new run would mix its events with an earlier
/// run's, or would replace files that mpc did not write.
static Status checkFolder(const std::string &folder, MetricsStart start) {
  StatusOr<std::vector<fs::path>> files = listEventFiles(folder);
  if (!files.ok())
    return files.status();
  for (const fs::path &file : *files) {
    if (start == MetricsStart::New)
      return Status(StatusCode::Usage,
                    folder + ": has the events of an earlier run; continue "
                             "that with --resume, choose another folder, or "
                             "replace them with --overwrite-metrics");
    if (start == MetricsStart::Replace && file.extension() != kOurs)
      return Status(StatusCode::Usage, file.string() +
                                           ": mpc did not write this file and "
                                           "does not replace it; choose "
                                           "another folder");
  }
  return Status();
}

Status EventFile::check(const std::string &folder, MetricsStart start) {
  if (Status status = requireWritable(folder); !status.ok())
    return status;
  return checkFolder(folder, start);
}

/// Returns the host name, with a '-' for each character that is unsafe in file
/// names.
static std::string hostName() {
  char name[256] = "";
  if (gethostname(name, sizeof(name) - 1) != 0 || !*name)
    return "localhost";
  std::string text(name);
  for (char &c : text)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '.' && c != '_')
      c = '-';
  return text;
}

StatusOr<std::unique_ptr<EventFile>> EventFile::open(const std::string &folder,
                                                     MetricsStart start,
                                                     int64_t firstStep) {
  if (Status status = makeDirectories(folder); !status.ok())
    return status;
  if (Status status = checkFolder(folder, start); !status.ok())
    return status;
  StatusOr<std::vector<fs::path>> old = listEventFiles(folder);
  if (!old.ok())
    return old.status();
  for (const fs::path &file : *old)
    if (start == MetricsStart::Replace && unlink(file.c_str()) != 0)
      return failure(file.string(), "cannot remove");
  // Begin the file's name with the time: TensorBoard reads the files of a
  // folder in the order of their names.
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto seconds =
      std::chrono::duration_cast<std::chrono::seconds>(now).count();
  std::string path;
  int file = -1;
  for (int count = 0; file < 0; ++count) {
    path = folder + "/events.out." + kMark + "." + std::to_string(seconds) +
           "." + hostName() + "." + std::to_string(getpid()) + "." +
           std::to_string(count) + kOurs;
    file = ::open(path.c_str(),
                  O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666);
    if (file < 0 && errno != EEXIST)
      return failure(path, "cannot create");
  }
  std::unique_ptr<EventFile> events(new EventFile(path, file));

  std::string version = eventAt(0);
  putBytes(version, 3, "brain.Event:2"); // file_version
  Status status = events->append(version);
  if (status.ok() && start == MetricsStart::Append) {
    std::string session, restart = eventAt(uint64_t(firstStep) + 1);
    putInteger(session, 1, 1); // SessionLog's status: START
    putBytes(restart, 7, session);
    status = events->append(restart);
  }
  if (!status.ok())
    return status;
  return events;
}

EventFile::~EventFile() { close(file); }

Status EventFile::append(std::string_view message) {
  // If a write fails, cut off the part that was written: a truncated record
  // would hide all later records from readers.
  const off_t end = lseek(file, 0, SEEK_END);
  if (writeAll(file, recordOf(message)))
    return Status();
  Status status = failure(path, "cannot write");
  if (end >= 0)
    static_cast<void>(ftruncate(file, end) == 0);
  return status;
}

//===----------------------------------------------------------------------===//
// Events
//===----------------------------------------------------------------------===//

/// Returns the name of the chart for a number of an event, such as
/// "train/loss". Empty for numbers without a chart.
static std::string tagOf(const std::string &event, std::string_view key) {
  constexpr std::string_view prefix = "eval_";
  for (std::string_view count :
       {"step", "micro_step", "samples", "eval_samples"})
    if (key == count)
      return "";
  if (event == "train")
    return "train/" + std::string(key);
  if (event == "eval" && key.substr(0, prefix.size()) == prefix)
    return "eval/" + std::string(key.substr(prefix.size()));
  return "";
}

Status EventFile::write(const MetricsLine &line) {
  std::string summary;
  for (const MetricsField &field : line.fields())
    if (const std::string tag = tagOf(line.event(), field.key);
        field.number && !tag.empty())
      putScalar(summary, tag, *field.number);
  const MetricsField *step = line.field("step");
  if (summary.empty() || !step || !step->number)
    return Status();
  std::string event = eventAt(uint64_t(*step->number));
  putBytes(event, 5, summary);
  return append(event);
}

} // namespace mpc::runtime::train
