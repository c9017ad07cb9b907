// Maps a .mpc file, checks it, and loads its kernels on demand.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/Artifact.h"
#include "runtime/ArtifactFormat.h"
#include "runtime/ELFFile.h"
#include "runtime/NodesFormat.h"
#include "runtime/PerfMap.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <mutex>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

namespace mpc::runtime {

/// Owns the descriptor, the mapping and the loaded code.
struct Artifact::Impl {
  ~Impl() {
    if (library)
      dlclose(library);
    if (file)
      munmap(file, fileBytes);
    if (descriptor >= 0)
      close(descriptor);
  }

  Status map();
  Status readSections();
  Status checkDigest(const ELFSection &digest) const;
  void addToDigest(XXH3_state_t *state, size_t begin, size_t end) const;
  void releasePages(size_t begin, size_t end) const;
  Status load();
  Status showToPerf() const;

  const std::byte *bytes() const { return static_cast<std::byte *>(file); }
  Status ioError(const char *what) const {
    return Status(StatusCode::IO, "cannot " + std::string(what) + " '" + name +
                                      "': " + std::strerror(errno));
  }
  Status invalid(const std::string &why) const {
    return Status(StatusCode::InvalidInput, "'" + name + "': " + why);
  }

  std::string name;
  int descriptor = -1;
  void *file = nullptr;
  size_t fileBytes = 0;
  std::string_view textOf(const ELFSection *section) const {
    if (!section)
      return {};
    const std::byte *start = bytes() + section->offset;
    return {reinterpret_cast<const char *>(start), section->bytes};
  }

  /// File offset of the first of mpc's own sections, such as the plan. dlopen
  /// needs only the bytes before.
  size_t loadedBytes = 0;
  std::string_view planText, nodesText, ptx, cubin;
  const std::byte *data = nullptr;
  size_t dataBytes = 0;
  Plan plan;
  std::mutex loading;
  void *library = nullptr;
};

Status Artifact::Impl::map() {
  struct stat info;
  if (fstat(descriptor, &info) != 0)
    return ioError("read");
  if (!S_ISREG(info.st_mode))
    return invalid("not a regular file");
  fileBytes = static_cast<size_t>(info.st_size);
  if (fileBytes == 0)
    return invalid("not a .mpc artifact: it is empty");
  void *mapping =
      mmap(nullptr, fileBytes, PROT_READ, MAP_PRIVATE, descriptor, 0);
  if (mapping == MAP_FAILED)
    return ioError("map");
  file = mapping;
  return Status();
}

/// Frees the pages that contain [begin, end). Later reads come from the file or
/// the page cache.
void Artifact::Impl::releasePages(size_t begin, size_t end) const {
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  begin = begin / page * page;
  if (begin < end)
    madvise(static_cast<std::byte *>(file) + begin, end - begin, MADV_DONTNEED);
}

/// Adds the bytes [begin, end) of the file to the digest. Reads 64 MiB at a
/// time, so that a huge file is never in memory as a whole.
void Artifact::Impl::addToDigest(XXH3_state_t *state, size_t begin,
                                 size_t end) const {
  constexpr size_t kPart = size_t(64) << 20;
  while (begin < end) {
    const size_t partEnd = begin + std::min(kPart, end - begin);
    XXH3_64bits_update(state, bytes() + begin, partEnd - begin);
    if (partEnd < end)
      releasePages(begin, partEnd);
    begin = partEnd;
  }
}

Status Artifact::Impl::checkDigest(const ELFSection &digest) const {
  if (digest.bytes != sizeof(uint64_t))
    return invalid("its digest section has " + std::to_string(digest.bytes) +
                   " bytes, expected " + std::to_string(sizeof(uint64_t)));
  uint64_t stored;
  std::memcpy(&stored, bytes() + digest.offset, sizeof(stored));

  // The digest is over the whole file, with zeros in place of the digest
  // itself.
  const uint64_t zero = 0;
  size_t end = digest.offset + sizeof(zero);
  XXH3_state_t *state = XXH3_createState();
  if (!state)
    return Status(StatusCode::IO, "out of memory");
  XXH3_64bits_reset(state);
  addToDigest(state, 0, digest.offset);
  XXH3_64bits_update(state, &zero, sizeof(zero));
  addToDigest(state, end, fileBytes);
  uint64_t computed = XXH3_64bits_digest(state);
  XXH3_freeState(state);
  if (computed != stored)
    return invalid("the artifact is corrupted: its digest does not match its "
                   "contents; compile the model again");
  return Status();
}

Status Artifact::Impl::readSections() {
  // Read the sections without dlopen, which would run code of a file that is
  // not checked yet.
  StatusOr<std::vector<ELFSection>> sections =
      readELFSections(bytes(), fileBytes);
  if (!sections.ok())
    return invalid(sections.status().message());

  const ELFSection *planSection = nullptr, *dataSection = nullptr,
                   *digestSection = nullptr, *ptxSection = nullptr,
                   *cubinSection = nullptr, *nodesSection = nullptr;
  loadedBytes = fileBytes;
  for (const ELFSection &section : *sections) {
    const ELFSection **slot =
        section.name == format::kPlanSection     ? &planSection
        : section.name == format::kDataSection   ? &dataSection
        : section.name == format::kDigestSection ? &digestSection
        : section.name == format::kPTXSection    ? &ptxSection
        : section.name == format::kCubinSection  ? &cubinSection
        : section.name == format::kNodesSection  ? &nodesSection
                                                 : nullptr;
    if (!slot)
      continue;
    if (*slot)
      return invalid("section " + std::string(section.name) + " occurs twice");
    *slot = &section;
    loadedBytes = std::min(loadedBytes, section.offset);
  }
  // Check the digest first: nothing below reads a damaged file.
  if (!planSection || !digestSection)
    return invalid("not a .mpc artifact: an ELF file without an artifact's "
                   "sections");
  if (Status status = checkDigest(*digestSection); !status.ok())
    return status;

  planText = textOf(planSection);
  nodesText = textOf(nodesSection);
  cubin = textOf(cubinSection);
  ptx = textOf(ptxSection);
  if (!ptx.empty() && ptx.back() != '\0')
    return invalid("its PTX section does not end with a zero byte");
  if (dataSection) {
    if (dataSection->offset % format::kDataAlignment != 0)
      return invalid("its data section begins at byte " +
                     std::to_string(dataSection->offset) +
                     ", expected a multiple of " +
                     std::to_string(format::kDataAlignment));
    data = bytes() + dataSection->offset;
    dataBytes = dataSection->bytes;
  }
  // parsePlan checks that constants and initial values lie within the data
  // section.
  StatusOr<Plan> parsed = parsePlan(planText, static_cast<int64_t>(dataBytes));
  if (!parsed.ok())
    return invalid(parsed.status().message());
  plan = std::move(*parsed);
  return Status();
}

/// Returns a path of the open descriptor that differs in every call, such as
/// "/proc/12/fd/./3". dlopen recognizes a library in use by its path. Under a
/// path used before, dlopen could return the old library, although the
/// descriptor now belongs to another file.
static std::string uniqueNameOf(int descriptor) {
  static std::atomic<uint64_t> count{0};
  std::string name = "/proc/" + std::to_string(getpid()) + "/fd";
  // Write the call's number in binary, "/." for 1 and "/" for 0. Neither
  // changes the file that the path names.
  for (uint64_t rest = ++count; rest != 0; rest >>= 1)
    name += rest & 1 ? "/." : "/";
  return name + "/" + std::to_string(descriptor);
}

/// Writes `size` bytes at the file's position. False, with errno, on failure.
static bool writeAll(int descriptor, const std::byte *bytes, size_t size) {
  while (size > 0) {
    ssize_t written = write(descriptor, bytes, size);
    if (written < 0 && errno == EINTR)
      continue;
    if (written < 0)
      return false;
    bytes += written;
    size -= static_cast<size_t>(written);
  }
  return true;
}

static void *loadFrom(int descriptor) {
  return dlopen(uniqueNameOf(descriptor).c_str(), RTLD_NOW | RTLD_LOCAL);
}

/// Adds the kernels to perf's map if the environment asks for a map.
Status Artifact::Impl::showToPerf() const {
  if (!isPerfMapWanted())
    return Status();
  std::vector<std::string> symbols;
  for (const auto &[symbol, kernel] : plan.kernels)
    symbols.push_back(symbol);
  return addToPerfMap(library, symbols);
}

/// Loads the file that was checked: the open descriptor, not the path, which
/// may name another file by now.
Status Artifact::Impl::load() {
  library = loadFrom(descriptor);
  if (library)
    return showToPerf();
  const char *message = dlerror();
  const std::string why = message ? message : "unknown error";

  // A file system mounted noexec prevents loading. A copy of the code in memory
  // loads even then.
  int copy = memfd_create("mpc-kernels", MFD_CLOEXEC);
  if (copy >= 0) {
    if (writeAll(copy, bytes(), loadedBytes))
      library = loadFrom(copy);
    close(copy);
  }
  return library ? showToPerf() : invalid("cannot load its code: " + why);
}

StatusOr<std::shared_ptr<const Artifact>>
Artifact::open(const std::string &path) {
  auto impl = std::make_unique<Impl>();
  impl->name = path;
  impl->descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (impl->descriptor < 0)
    return impl->ioError("open");
  return finish(std::move(impl));
}

StatusOr<std::shared_ptr<const Artifact>>
Artifact::fromDescriptor(int descriptor, std::string name) {
  auto impl = std::make_unique<Impl>();
  impl->name = std::move(name);
  impl->descriptor = descriptor;
  return finish(std::move(impl));
}

StatusOr<std::shared_ptr<const Artifact>>
Artifact::fromBytes(const void *bytes, size_t size, std::string name) {
  auto impl = std::make_unique<Impl>();
  impl->name = std::move(name);
  impl->descriptor = memfd_create("mpc-artifact", MFD_CLOEXEC);
  if (impl->descriptor < 0)
    return impl->ioError("make memory for");
  if (!writeAll(impl->descriptor, static_cast<const std::byte *>(bytes), size))
    return impl->ioError("make memory for");
  return finish(std::move(impl));
}

StatusOr<std::shared_ptr<const Artifact>>
Artifact::finish(std::unique_ptr<Impl> impl) {
  if (Status status = impl->map(); !status.ok())
    return status;
  if (Status status = impl->readSections(); !status.ok())
    return status;
  return std::shared_ptr<const Artifact>(new Artifact(std::move(impl)));
}

Artifact::Artifact(std::unique_ptr<Impl> impl) : impl(std::move(impl)) {}
Artifact::~Artifact() = default;

const std::string &Artifact::name() const { return impl->name; }
const Plan &Artifact::plan() const { return impl->plan; }
std::string_view Artifact::planText() const { return impl->planText; }
const std::byte *Artifact::data() const { return impl->data; }
size_t Artifact::dataBytes() const { return impl->dataBytes; }
void Artifact::releaseData(size_t offset, size_t bytes) const {
  const size_t begin = static_cast<size_t>(impl->data - impl->bytes()) + offset;
  impl->releasePages(begin, begin + bytes);
}
std::string_view Artifact::nodesText() const { return impl->nodesText; }
std::string_view Artifact::ptx() const { return impl->ptx; }
std::string_view Artifact::cubin() const { return impl->cubin; }
size_t Artifact::fileBytes() const { return impl->fileBytes; }

StatusOr<void *> Artifact::kernel(const std::string &symbol) const {
  std::lock_guard<std::mutex> lock(impl->loading);
  if (!impl->library)
    if (Status status = impl->load(); !status.ok())
      return status;
  if (void *address = dlsym(impl->library, symbol.c_str()))
    return address;
  return impl->invalid("its code has no kernel '" + symbol + "'");
}

} // namespace mpc::runtime
