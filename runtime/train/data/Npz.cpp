// Reads and writes archives of arrays with libzip. Limits are checked before
// anything is decompressed.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/data/Npz.h"

#include "runtime/train/data/Npy.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <zip.h>

namespace mpc::runtime::train {

namespace {
struct ArchiveCloser {
  void operator()(zip_t *archive) const { zip_discard(archive); }
};
using ArchivePtr = std::unique_ptr<zip_t, ArchiveCloser>;

struct MemberCloser {
  void operator()(zip_file_t *member) const { zip_fclose(member); }
};
using MemberPtr = std::unique_ptr<zip_file_t, MemberCloser>;
} // namespace

static constexpr zip_int64_t kMaxMembers = 65536;
/// The best compression that deflate can reach, 1032 bytes to 1.
static constexpr uint64_t kMaxRatio = 1032;
static constexpr std::string_view kExtension = ".npy";

static bool endsWith(std::string_view text, std::string_view end) {
  return text.size() >= end.size() &&
         text.substr(text.size() - end.size()) == end;
}

bool looksLikeZip(const std::byte *data, size_t size) {
  return size >= 4 && (std::memcmp(data, "PK\x03\x04", 4) == 0 ||
                       std::memcmp(data, "PK\x05\x06", 4) == 0);
}

static StatusOr<ArchivePtr> openArchive(const std::byte *data, size_t size,
                                        const std::string &where) {
  zip_error_t error;
  zip_error_init(&error);
  zip_source_t *source =
      zip_source_buffer_create(data, size, /*freep=*/0, &error);
  ArchivePtr archive(source ? zip_open_from_source(source, ZIP_RDONLY, &error)
                            : nullptr);
  Status status;
  if (!archive) {
    if (source)
      zip_source_free(source);
    status = invalid(where, std::string("not a readable zip archive: ") +
                                zip_error_strerror(&error));
  }
  zip_error_fini(&error);
  if (!status.ok())
    return status;
  return archive;
}

namespace {

/// An open archive, which its members share and keep open.
struct OpenArchive {
  std::shared_ptr<const void> bytes; ///< outlives `zip`, which reads them
  ArchivePtr zip;
};

/// A member of an archive. Its values are decompressed when they are used.
class Member : public PackedArray {
public:
  Member(std::shared_ptr<const OpenArchive> archive, zip_uint64_t index,
         uint64_t size, std::string where)
      : archive(std::move(archive)), index(index), size(size),
        where(std::move(where)) {}

  /// Reads type and shape. Decompresses only the beginning of the member.
  StatusOr<Array> readHeader() const {
    return read(std::min<uint64_t>(size, kMaxNpyHeader));
  }
  StatusOr<Array> unpack() const override;

private:
  StatusOr<Array> read(uint64_t count) const;

  std::shared_ptr<const OpenArchive> archive;
  zip_uint64_t index;
  uint64_t size;
  std::string where;
  /// The decompressed array, as long as somebody else owns its values
  /// (`values`). A second `unpack` then needs no second decompression.
  mutable Array inflated;
  mutable std::weak_ptr<const void> values;
};

} // namespace

/// Decompresses the first `count` bytes of the member. Returns the array with
/// values if these are all bytes of the member, and else only type and shape.
StatusOr<Array> Member::read(uint64_t count) const {
  MemberPtr member(zip_fopen_index(archive->zip.get(), index, 0));
  if (!member)
    return invalid(where, std::string("cannot be opened: ") +
                              zip_strerror(archive->zip.get()));
  // Allocate without zeroing: if an archive delivers less than it claims, the
  // rest of the memory is never touched.
  std::shared_ptr<std::byte[]> bytes(new std::byte[size_t(count)]);
  uint64_t present = 0;
  while (present < count) {
    const zip_int64_t some =
        zip_fread(member.get(), bytes.get() + present, count - present);
    if (some <= 0)
      break;
    present += uint64_t(some);
  }
  // Reading beyond the last byte makes libzip compare the checksum.
  std::byte extra;
  if (present != count ||
      (count == size && zip_fread(member.get(), &extra, 1) != 0))
    return invalid(where, "corrupt: its contents do not match the archive's "
                          "directory");
  const std::byte *data = bytes.get();
  return count == size
             ? parseNpy(data, size_t(size), std::move(bytes), where)
             : parseNpyHeader(data, size_t(count), size_t(size), where);
}

StatusOr<Array> Member::unpack() const {
  if (std::shared_ptr<const void> owner = values.lock()) {
    Array array = inflated;
    array.owner = std::move(owner);
    return array;
  }
  StatusOr<Array> array = read(size);
  if (!array.ok())
    return array;
  values = array->owner;
  inflated = *array;
  inflated.owner = nullptr;
  return array;
}

namespace {

/// The facts in an archive's directory: the members that are arrays, the number
/// of all entries, and if torch.save wrote the archive.
struct Directory {
  std::vector<zip_stat_t> members;
  zip_int64_t entries = 0; ///< all entries, also those that are no arrays
  bool isPyTorch = false;
};

} // namespace

/// Checks the directory's claims about a member of an archive of `size` bytes,
/// and adds the member's size to `total`. `total` may be at most `maxBytes`.
static Status checkMember(const zip_stat_t &info, size_t size,
                          const std::string &where, uint64_t maxBytes,
                          uint64_t &total) {
  const std::string member = where + ":" + info.name;
  if (info.comp_method != ZIP_CM_STORE && info.comp_method != ZIP_CM_DEFLATE)
    return Status(StatusCode::Unsupported,
                  member + ": compressed by a method other than deflate");
  if (info.comp_size > size || info.size / kMaxRatio > info.comp_size)
    return invalid(member, "claims " + std::to_string(info.size) +
                               " bytes, more than its " +
                               std::to_string(info.comp_size) +
                               " compressed bytes can hold");
  if (info.size > maxBytes || (total += info.size) > maxBytes)
    return invalid(where, "takes more than " + std::to_string(maxBytes) +
                              " bytes in memory; .npy files are read in "
                              "place, without that limit");
  return Status();
}

/// Lists the members that are arrays, without decompressing them.
static StatusOr<Directory> readDirectory(zip_t *zip, size_t size,
                                         const std::string &where,
                                         uint64_t maxBytes) {
  Directory directory;
  directory.entries = zip_get_num_entries(zip, 0);
  if (directory.entries > kMaxMembers)
    return invalid(where, "expected at most " + std::to_string(kMaxMembers) +
                              " members, found " +
                              std::to_string(directory.entries));
  // A member data.pkl identifies a file of torch.save.
  std::set<std::string> names;
  uint64_t total = 0;
  for (zip_int64_t i = 0; i < directory.entries; ++i) {
    zip_stat_t info;
    if (zip_stat_index(zip, zip_uint64_t(i), 0, &info) != 0 ||
        (~info.valid & (ZIP_STAT_NAME | ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE |
                        ZIP_STAT_COMP_METHOD)))
      return invalid(where, "corrupt archive directory");
    // Skip members that are not .npy; a file of torch.save has only such
    // members.
    const std::string_view name = info.name;
    directory.isPyTorch |= endsWith(name, "/data.pkl");
    if (!endsWith(name, kExtension))
      continue;
    if (!names.insert(info.name).second)
      return invalid(where + ":" + info.name, "occurs twice in the archive");
    if (Status status = checkMember(info, size, where, maxBytes, total);
        !status.ok())
      return status;
    directory.members.push_back(info);
  }
  return directory;
}

StatusOr<std::vector<Array>> parseNpz(const std::byte *data, size_t size,
                                      std::shared_ptr<const void> owner,
                                      const std::string &where,
                                      uint64_t maxBytes) {
  // Check the first bytes, since libzip would accept an empty buffer as an
  // archive.
  if (!looksLikeZip(data, size))
    return invalid(where, "not a zip archive");
  StatusOr<ArchivePtr> zip = openArchive(data, size, where);
  if (!zip.ok())
    return zip.status();
  auto archive = std::make_shared<const OpenArchive>(
      OpenArchive{std::move(owner), std::move(*zip)});
  StatusOr<Directory> directory =
      readDirectory(archive->zip.get(), size, where, maxBytes);
  if (!directory.ok())
    return directory.status();
  // Refuse PyTorch's files: reading a pickle can execute code.
  if (directory->members.empty() && directory->isPyTorch)
    return invalid(where,
                   "a file of torch.save, a Python pickle, which is "
                   "never read; save it with safetensors.torch.save_file("
                   "model.state_dict(), \"weights.safetensors\")");
  if (directory->members.empty() && directory->entries > 0)
    return invalid(where, "a zip archive without arrays (.npy)");

  std::vector<Array> arrays;
  for (const zip_stat_t &info : directory->members) {
    auto member = std::make_shared<const Member>(archive, info.index, info.size,
                                                 where + ":" + info.name);
    StatusOr<Array> array = member->readHeader();
    if (!array.ok())
      return array.status();
    array->data = nullptr;
    array->owner = nullptr;
    array->packed = std::move(member);
    array->name.assign(info.name, std::strlen(info.name) - kExtension.size());
    arrays.push_back(std::move(*array));
  }
  return arrays;
}

StatusOr<std::string> packNpz(const std::vector<Array> &arrays,
                              const std::vector<TextArray> &texts) {
  zip_error_t error;
  zip_error_init(&error);
  zip_source_t *target = zip_source_buffer_create(nullptr, 0, 0, &error);
  ArchivePtr archive(target ? zip_open_from_source(target, ZIP_TRUNCATE, &error)
                            : nullptr);
  const Status failed(StatusCode::Internal, "cannot build a zip archive");
  if (!archive)
    return failed;
  zip_source_keep(target); // outlives the archive, whose bytes it holds
  std::unique_ptr<zip_source_t, void (*)(zip_source_t *)> keep(target,
                                                               zip_source_free);
  // The members stay alive until the archive is closed.
  std::vector<std::string> names, members;
  for (const TextArray &array : texts) {
    names.push_back(array.name);
    members.push_back(packTexts(array.texts));
  }
  for (const Array &array : arrays) {
    StatusOr<std::string> member = npyHeader(array);
    if (!member.ok())
      return member.status();
    member->append(reinterpret_cast<const char *>(array.data),
                   size_t(array.bytes()));
    names.push_back(array.name);
    members.push_back(std::move(*member));
  }
  for (size_t i = 0; i < members.size(); ++i) {
    zip_source_t *source = zip_source_buffer(archive.get(), members[i].data(),
                                             members[i].size(), /*freep=*/0);
    const std::string name = names[i] + std::string(kExtension);
    const zip_int64_t index = source ? zip_file_add(archive.get(), name.c_str(),
                                                    source, ZIP_FL_ENC_UTF_8)
                                     : -1;
    if (index < 0) {
      zip_source_free(source);
      return Status(StatusCode::Usage,
                    "cannot add '" + name +
                        "' to a zip archive: " + zip_strerror(archive.get()));
    }
    // Use a fixed date, so that equal arrays give equal files.
    if (zip_set_file_compression(archive.get(), zip_uint64_t(index),
                                 ZIP_CM_STORE, 0) != 0 ||
        zip_file_set_dostime(archive.get(), zip_uint64_t(index), 0, 0x21, 0))
      return failed;
  }
  if (zip_close(archive.get()) != 0)
    return failed;
  archive.release(); // closing freed it

  zip_stat_t info;
  if (zip_source_stat(target, &info) != 0 || zip_source_open(target) != 0)
    return failed;
  std::string bytes(size_t(info.size), '\0');
  const zip_int64_t read = zip_source_read(target, bytes.data(), bytes.size());
  zip_source_close(target);
  if (read != zip_int64_t(bytes.size()))
    return failed;
  return bytes;
}

} // namespace mpc::runtime::train
