//===- ForkServer.cpp - A program that is loaded once and run often -------===//
//
// A library to preload into a program. It stops the program before main and
// forks it once for each request from a socket. The forked process has the
// request's arguments, folder, streams and variables. It shares the rest of the
// environment and the libraries' addresses with the server.
//
// Loading LLVM and MLIR takes longer than compiling and running most tests'
// models.
//
// SPDX-License-Identifier: Apache-2.0
//
//===----------------------------------------------------------------------===//

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <link.h>
#include <string>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace {

using Main = int (*)(int, char **, char **);
using StartMain = int (*)(Main, int, char **, void (*)(), void (*)(),
                          void (*)(), void *);

// Name of the variable that has the socket's number.
constexpr const char *kVariable = "MPC_FORK_SERVER";
// Linux's limit for all arguments of a program.
constexpr size_t kLongestRequest = 2 << 20;
constexpr int kStreams = 3;

Main realMain;

// Ends a process that cannot handle its request, so that the test fails.
[[noreturn]] void fail(const char *what) {
  std::fprintf(stderr, "fork server: %s: %s\n", what, std::strerror(errno));
  _exit(125);
}

// Reads a request: the folder, variables, an empty word and the arguments, each
// followed by a NUL, and the three streams. False at the end of requests.
bool receive(int socket, std::string &text, int (&streams)[kStreams]) {
  text.resize(kLongestRequest);
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(streams))];
  iovec part{text.data(), text.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  ssize_t size = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  if (size < 0)
    fail("no request");
  if (size == 0)
    return false;
  cmsghdr *header = CMSG_FIRSTHDR(&message);
  bool whole = !(message.msg_flags & (MSG_TRUNC | MSG_CTRUNC));
  if (!whole || !header || header->cmsg_len != CMSG_LEN(sizeof(streams))) {
    errno = EBADMSG;
    fail("no request");
  }
  text.resize(size);
  std::memcpy(streams, CMSG_DATA(header), sizeof(streams));
  return true;
}

// Runs the program in the forked process.
[[noreturn]] void runMain(std::string &text, const int (&streams)[kStreams]) {
  for (int i = 0; i != kStreams; ++i)
    if (dup2(streams[i], i) < 0)
      fail("no stream");
  std::vector<char *> words;
  for (size_t at = 0; at < text.size(); at += std::strlen(&text[at]) + 1)
    words.push_back(&text[at]);
  words.push_back(nullptr);
  if (chdir(words[0]) != 0)
    fail(words[0]);
  // A variable without a value is to be unset.
  size_t at = 1;
  for (; *words[at]; ++at)
    if (putenv(words[at]) != 0)
      fail(words[at]);
  ++at;
  exit(realMain(words.size() - 1 - at, words.data() + at, environ));
}

void send(int socket, int number) {
  if (write(socket, &number, sizeof(number)) != sizeof(number))
    fail("no one listens");
}

// A range of a loaded library that nobody writes.
struct Segment {
  uintptr_t begin, end;
  int protection;
};

// The size of huge pages.
constexpr uintptr_t kHuge = uintptr_t(2) << 20;

// Adds the object's large segments of code and constants to `segments`, a
// std::vector<Segment>. The libraries that run in copySegment are smaller.
int addSegments(dl_phdr_info *object, size_t, void *segments) {
  const uintptr_t page = sysconf(_SC_PAGESIZE);
  for (int i = 0; i != object->dlpi_phnum; ++i) {
    const ElfW(Phdr) &header = object->dlpi_phdr[i];
    if (header.p_type != PT_LOAD || (header.p_flags & PF_W) ||
        header.p_filesz < kHuge)
      continue;
    uintptr_t begin = object->dlpi_addr + header.p_vaddr;
    static_cast<std::vector<Segment> *>(segments)->push_back(
        {begin & -page, (begin + header.p_filesz + page - 1) & -page,
         PROT_READ | (header.p_flags & PF_X ? PROT_EXEC : 0)});
  }
  return 0;
}

// Replaces the pages of a file by a copy in huge pages, at the same address.
// Leaves them as they are if memory is short.
void copySegment(const Segment &segment) {
  const size_t size = segment.end - segment.begin;
  void *reserved = mmap(nullptr, size + kHuge, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED)
    return;
  // A huge page can only move to an address with the same rest.
  uintptr_t first = reinterpret_cast<uintptr_t>(reserved);
  void *copy =
      reinterpret_cast<void *>(first + ((segment.begin - first) & (kHuge - 1)));
  void *segmentBegin = reinterpret_cast<void *>(segment.begin);
  madvise(copy, size, MADV_HUGEPAGE);
  std::memcpy(copy, segmentBegin, size);
  if (mprotect(copy, size, segment.protection) != 0 ||
      mremap(copy, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, segmentBegin) ==
          MAP_FAILED)
    fail("no memory for libraries");
}

// Lets processes share the page tables of the libraries' code and constants. A
// forked process would otherwise fault on each page of a file again, which
// takes as long as a short run.
void copyLibraries() {
  std::vector<Segment> segments;
  dl_iterate_phdr(addSegments, &segments);
  for (const Segment &segment : segments)
    copySegment(segment);
}

// Replaces the program's main: answers each request with the number of the
// process, and after its end with its status.
int serve(int, char **, char **) {
  int socket = std::atoi(std::getenv(kVariable));
  for (const char *name : {kVariable, "LD_PRELOAD", "LD_BIND_NOW"})
    unsetenv(name);
  copyLibraries();
  std::string text;
  int streams[kStreams];
  while (receive(socket, text, streams)) {
    pid_t process = fork();
    if (process < 0)
      fail("no process");
    if (process == 0) {
      close(socket);
      runMain(text, streams);
    }
    for (int stream : streams)
      close(stream);
    send(socket, process);
    int status;
    while (waitpid(process, &status, 0) < 0)
      if (errno != EINTR)
        fail("no status");
    send(socket, status);
  }
  return 0;
}

} // namespace

// Replaces libc's function, which programs call with their main.
extern "C" int __libc_start_main(Main main, int argc, char **argv,
                                 void (*init)(), void (*fini)(),
                                 void (*finishLoader)(), void *stackEnd) {
  auto start =
      reinterpret_cast<StartMain>(dlsym(RTLD_NEXT, "__libc_start_main"));
  if (std::getenv(kVariable)) {
    realMain = main;
    main = serve;
  }
  return start(main, argc, argv, init, fini, finishLoader, stackEnd);
}
