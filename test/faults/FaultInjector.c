// Makes one system call fail, or kills the process before it.
// test/e2e/commands/test_faults.py preloads this library into mpc.
//
//   MPC_FAULT        CALL,CALL:N:WHAT: of these calls, counted together from 1,
//                    the N-th fails with the errno WHAT; with `kill` the process
//                    dies, with `NUMBER+` all from then on fail
//   MPC_FAULT_UNDER  calls on paths count only below this folder
//   MPC_FAULT_COUNT  receives the number of calls when the process exits
//
// SPDX-License-Identifier: Apache-2.0
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

static char calls[256];
static long wanted;
static int what, kills, lasts;
static const char *under, *counted;
static atomic_long count;

__attribute__((constructor)) static void begin(void) {
  const char *fault = getenv("MPC_FAULT");
  const char *number = fault ? strchr(fault, ':') : NULL;
  const char *kind = number ? strchr(number + 1, ':') : NULL;
  if (!kind || (size_t)(number - fault) + 3 > sizeof(calls))
    return;
  snprintf(calls, sizeof(calls), ",%.*s,", (int)(number - fault), fault);
  wanted = atol(number + 1);
  kills = strcmp(kind + 1, "kill") == 0;
  what = atoi(kind + 1);
  lasts = strchr(kind, '+') != NULL;
  under = getenv("MPC_FAULT_UNDER");
  counted = getenv("MPC_FAULT_COUNT");
}

__attribute__((destructor)) static void end(void) {
  FILE *file = counted ? fopen(counted, "w") : NULL;
  if (file) {
    fprintf(file, "%ld\n", atomic_load(&count));
    fclose(file);
  }
}

static int isUnder(const char *path) {
  return !under || strncmp(path, under, strlen(under)) == 0;
}

/// True if the call must fail. Sets errno then.
static int fails(const char *call, const char *path) {
  char name[32];
  snprintf(name, sizeof(name), ",%s,", call);
  if (!strstr(calls, name) || (path && !isUnder(path)))
    return 0;
  const long now = atomic_fetch_add(&count, 1) + 1;
  if (now != wanted && !(lasts && now > wanted))
    return 0;
  if (kills)
    raise(SIGKILL);
  errno = what;
  return 1;
}

/// Disks fail, but neither standard streams, pipes nor events between threads.
static int failsOn(const char *call, int file) {
  static __typeof__(fstat) *look;
  if (!look)
    look = (__typeof__(fstat) *)dlsym(RTLD_NEXT, "fstat");
  struct stat status;
  return file > STDERR_FILENO && look(file, &status) == 0 &&
         S_ISREG(status.st_mode) && fails(call, NULL);
}

#define REAL(name)                                                             \
  static __typeof__(name) *real;                                               \
  if (!real)                                                                   \
  real = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)

#define ON_PATH(name, parameters, arguments, path)                             \
  int name parameters {                                                        \
    REAL(name);                                                                \
    return fails(#name, path) ? -1 : real arguments;                           \
  }

#define ON_FILE(type, name, parameters, arguments)                             \
  type name parameters {                                                       \
    REAL(name);                                                                \
    return failsOn(#name, file) ? -1 : real arguments;                         \
  }

ON_PATH(stat, (const char *path, struct stat *to), (path, to), path)
ON_PATH(lstat, (const char *path, struct stat *to), (path, to), path)
ON_PATH(rename, (const char *from, const char *to), (from, to), to)
ON_PATH(unlink, (const char *path), (path), path)
ON_PATH(rmdir, (const char *path), (path), path)
ON_PATH(mkdir, (const char *path, mode_t mode), (path, mode), path)
ON_PATH(symlink, (const char *target, const char *path), (target, path), path)
ON_FILE(ssize_t, write, (int file, const void *from, size_t size),
        (file, from, size))
ON_FILE(int, fsync, (int file), (file))
ON_FILE(int, ftruncate, (int file, off_t size), (file, size))
ON_FILE(int, flock, (int file, int how), (file, how))
ON_FILE(int, fstat, (int file, struct stat *to), (file, to))

// Receives libraries' own calls, but not those of the C library's malloc.
void *mmap(void *at, size_t size, int protection, int flags, int file,
           off_t offset) {
  REAL(mmap);
  return fails("mmap", NULL)
             ? MAP_FAILED
             : real(at, size, protection, flags, file, offset);
}

int mprotect(void *at, size_t size, int protection) {
  REAL(mprotect);
  return fails("mprotect", NULL) ? -1 : real(at, size, protection);
}

ssize_t readlink(const char *path, char *to, size_t size) {
  REAL(readlink);
  return fails("readlink", path) ? -1 : real(path, to, size);
}

int open(const char *path, int flags, ...) {
  REAL(open);
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = flags & O_CREAT ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  return fails("open", path) ? -1 : real(path, flags, mode);
}
