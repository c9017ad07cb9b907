// Handles failures to allocate memory or to start a thread. The code here must
// not allocate memory before the message is written.
//
// SPDX-License-Identifier: Apache-2.0
#include "tools/mpc/model/OutOfMemory.h"

#include "compiler/Support/ExitCode.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Compiler.h"
#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/Signals.h"
#include "llvm/Support/raw_ostream.h"

#include <atomic>
#include <cstddef>
#include <cstring>
#include <exception>
#include <new>
#include <unistd.h>

using namespace mpc;

/// The number of CompilerMemory objects that exist.
static std::atomic<int> compilers{0};
static std::atomic<bool> ending{false};
/// True on the thread that is ending the process; allocations on it may fail.
static thread_local bool endsHere = false;

static void writeError(const char *text) {
  // If printing fails, there is no way to report it.
  ssize_t written = write(STDERR_FILENO, text, std::strlen(text));
  static_cast<void>(written);
}

// Prints the reason and ends the process. If several threads get here, the
// first one prints and the others wait.
[[noreturn]] static void endFor(const char *reason) {
  while (ending.exchange(true))
    pause();
  endsHere = true;
  llvm::sys::RunInterruptHandlers(); // removes temporary files
  writeError("error: ");
  writeError(reason);
  writeError("\n");
  _exit(static_cast<int>(ExitCode::IO));
}

// Handles a failed allocation that LLVM notices. LLVM itself would print a bug
// report.
static void endForMemory(void *, const char *, bool) {
  endFor("out of memory");
}

static void endForFatalError(void *, const char *reason, bool) {
  if (llvm::StringRef(reason).starts_with("pthread_create failed"))
    endFor("cannot start a thread: the limit of this user or machine is "
           "reached; --threads 1 starts none");
  llvm::errs() << "LLVM ERROR: " << reason << "\n";
}

// Handles exceptions that no function of a thread has caught; std::terminate
// calls it.
static void terminate() {
  try {
    if (std::current_exception())
      throw;
  } catch (const std::bad_alloc &) {
    endFor("out of memory");
  } catch (...) {
  }
  std::abort();
}

void tools::installMemoryHandlers() {
  // LLVM's handler of `new` aborts, so remove it: `new` then throws
  // std::bad_alloc, which `main` or `terminate` reports.
  std::set_new_handler(nullptr);
  std::set_terminate(terminate);
  llvm::install_bad_alloc_error_handler(endForMemory);
  llvm::install_fatal_error_handler(endForFatalError);
}

tools::CompilerMemory::CompilerMemory() { ++compilers; }
tools::CompilerMemory::~CompilerMemory() { --compilers; }

// Replaces malloc for all libraries of the process, and calls the C library's
// malloc. Not for sanitizers, which replace malloc too.
#if !LLVM_ADDRESS_SANITIZER_BUILD && !LLVM_MEMORY_SANITIZER_BUILD &&           \
    !LLVM_THREAD_SANITIZER_BUILD
extern "C" void *__libc_malloc(size_t bytes);
extern "C" LLVM_ATTRIBUTE_VISIBILITY_DEFAULT void *malloc(size_t bytes) {
  void *memory = __libc_malloc(bytes);
  if (!memory && compilers > 0 && !endsHere)
    endFor("out of memory");
  return memory;
}
#endif
