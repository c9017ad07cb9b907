/* The C API of the mpc runtime: open an artifact, train it, read results.
 *
 * Errors. Every function that can fail returns a status: NULL for success,
 * otherwise an object with a code (the exit codes of the command line) and a
 * message. The caller frees the status. Functions write results through
 * pointers, and leave the pointers alone on failure. A required argument that
 * is NULL is MPC_USAGE. No function exits, prints or throws.
 *
 * Ownership. Handles are opaque; close or free each exactly once. NULL is
 * ignored. A session keeps its artifact alive, so the two may be released in
 * any order.
 *
 * Threads. Only one thread at a time may use a session; different sessions are
 * independent. After fork(2) the child may use and free a session on a CPU. Its
 * functions then run on the one thread that forked.
 *
 * Memory. If memory is short, or threads cannot start, a function returns
 * MPC_IO, for example "out of memory", and all existing objects stay usable. On
 * a CPU, creating a session needs at least 64 MiB of free address space, and
 * the first run of each function 64 MiB per thread. oneDNN does not check its
 * allocations, so mpc does not call oneDNN with less.
 *
 * Versions. Options and infos start with their size, so that a program compiled
 * against this header runs with a later library: fields beyond the size keep
 * their defaults. Initialise both with the macros; a size of 0 is MPC_USAGE.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef MPC_RUNTIME_MPC_H
#define MPC_RUNTIME_MPC_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#define MPC_NOEXCEPT noexcept
extern "C" {
#else
#define MPC_NOEXCEPT
#endif

typedef struct mpc_status mpc_status;
typedef struct mpc_artifact mpc_artifact;
typedef struct mpc_session mpc_session;

typedef enum mpc_status_code {
  MPC_OK = 0,
  MPC_USAGE = 2,         /* a wrong argument, name or order of calls */
  MPC_INVALID_INPUT = 3, /* a file or a value that breaks the rules */
  MPC_UNSUPPORTED = 4,   /* valid, but mpc cannot do it */
  MPC_IO = 5,            /* no access to a file, or too little memory */
  MPC_DEVICE = 6,        /* the device is missing, unsuitable or failed */
  MPC_NUMERIC = 7,       /* of the command line: a loss is not finite */
  MPC_CHECKPOINT = 8,    /* of the command line: a checkpoint does not fit */
  MPC_INTERNAL = 70      /* mpc broke its own rules */
} mpc_status_code;

/* Element types. An i1 is one byte, 0 or 1. */
typedef enum mpc_type {
  MPC_F16,
  MPC_BF16,
  MPC_F32,
  MPC_F64,
  MPC_I32,
  MPC_I64,
  MPC_I1,
  MPC_U8,
  MPC_I8,
  MPC_U16,
  MPC_I16,
  MPC_U32,
  MPC_U64
} mpc_type;

/* Describes a state variable, an input or an output. The pointers live as long
 * as the session. */
typedef struct mpc_tensor_info {
  size_t struct_size;
  const char *name;
  const char *role; /* "parameter", "data", "loss", ... */
  mpc_type type;
  size_t rank;
  const int64_t *shape;
  size_t bytes;
} mpc_tensor_info;
#define MPC_TENSOR_INFO_INIT                                                   \
  { sizeof(mpc_tensor_info), NULL, NULL, MPC_F32, 0, NULL, 0 }

typedef struct mpc_session_options {
  size_t struct_size;
  const char *device; /* "cpu", "cuda" or "auto"; never falls back */
  int32_t threads;    /* 0: one per physical core this process may use */
} mpc_session_options;
#define MPC_SESSION_OPTIONS_INIT                                               \
  { sizeof(mpc_session_options), "cpu", 0 }

/* Returns the library's version, for example "0.1.0". */
const char *mpc_version(void) MPC_NOEXCEPT;

/* The code and the message of a status: MPC_OK and "" if the status is NULL.
 * The message lives as long as the status. */
mpc_status_code mpc_status_get_code(const mpc_status *status) MPC_NOEXCEPT;
const char *mpc_status_message(const mpc_status *status) MPC_NOEXCEPT;
void mpc_status_free(mpc_status *status) MPC_NOEXCEPT;

/* Opens and checks an artifact, without executing any part of it. Untrusted
 * files are safe to open. MPC_IO if the file cannot be read, MPC_INVALID_INPUT
 * if it is no consistent artifact. The caller closes *artifact.
 *
 * mpc_artifact_open_bytes copies the bytes. mpc_artifact_open maps the file.
 * Replace an open file by rename(2) only: overwriting it in place, as cp does,
 * ends the process with SIGBUS.
 *
 * An artifact is a program: mpc_session_create loads its kernels, and then the
 * artifact's author can do whatever this process may do. The digest finds
 * damage, not malice. Create sessions only from artifacts of known origin, in
 * files that nobody else may write. */
mpc_status *mpc_artifact_open(const char *path,
                              mpc_artifact **artifact) MPC_NOEXCEPT;
mpc_status *mpc_artifact_open_bytes(const void *bytes, size_t size,
                                    mpc_artifact **artifact) MPC_NOEXCEPT;
/* Returns the plan as JSON: *size bytes without a terminator, owned by the
 * artifact. NULL and 0 if the artifact is NULL; `size` may be NULL. */
const char *mpc_artifact_plan(const mpc_artifact *artifact,
                              size_t *size) MPC_NOEXCEPT;
void mpc_artifact_close(mpc_artifact *artifact) MPC_NOEXCEPT;

/* Loads the artifact's code, and gives every state variable its initial value.
 * `options` may be NULL, for the defaults. MPC_DEVICE if this machine cannot
 * run the artifact. MPC_USAGE for an unknown device, or for more than four
 * threads per processor. The caller frees *session. */
mpc_status *mpc_session_create(mpc_artifact *artifact,
                               const mpc_session_options *options,
                               mpc_session **session) MPC_NOEXCEPT;
void mpc_session_free(mpc_session *session) MPC_NOEXCEPT;

/* State variables, by index. The count is 0 if the session is NULL. MPC_USAGE
 * if `index` is not below the count. */
size_t mpc_session_state_count(const mpc_session *session) MPC_NOEXCEPT;
mpc_status *mpc_session_state_info(const mpc_session *session, size_t index,
                                   mpc_tensor_info *info) MPC_NOEXCEPT;
/* Copies a state variable to or from `bytes`. `size` must be the variable's
 * size in bytes, else MPC_INVALID_INPUT. MPC_USAGE if there is no such
 * variable. After setting a parameter, call mpc_session_derive before the next
 * run: mpc_session_derive recomputes the state that depends on parameters, and
 * does nothing if there is no such state. */
mpc_status *mpc_session_get_state(mpc_session *session, const char *name,
                                  void *bytes, size_t size) MPC_NOEXCEPT;
mpc_status *mpc_session_set_state(mpc_session *session, const char *name,
                                  const void *bytes, size_t size) MPC_NOEXCEPT;
mpc_status *mpc_session_derive(mpc_session *session) MPC_NOEXCEPT;

/* Inputs and outputs of a function ("step", "eval", ...), by index. MPC_USAGE
 * if there is no such function or index. */
mpc_status *mpc_session_input_info(const mpc_session *session,
                                   const char *function, size_t index,
                                   mpc_tensor_info *info) MPC_NOEXCEPT;
mpc_status *mpc_session_output_info(const mpc_session *session,
                                    const char *function, size_t index,
                                    mpc_tensor_info *info) MPC_NOEXCEPT;
/* 0 if there is no such function. */
size_t mpc_session_input_count(const mpc_session *session,
                               const char *function) MPC_NOEXCEPT;
size_t mpc_session_output_count(const mpc_session *session,
                                const char *function) MPC_NOEXCEPT;

/* Copies `bytes` into an input, which keeps the value for later runs.
 * MPC_INVALID_INPUT if `size` is not the input's size in bytes, or if an index
 * or a label in `bytes` is out of range. MPC_USAGE for unknown names. */
mpc_status *mpc_session_set_input(mpc_session *session, const char *function,
                                  const char *name, const void *bytes,
                                  size_t size) MPC_NOEXCEPT;
/* Runs a function on its inputs and the state. May return before a GPU is done.
 * MPC_USAGE if an input was not set. After other errors, state may be half
 * written. */
mpc_status *mpc_session_run(mpc_session *session,
                            const char *function) MPC_NOEXCEPT;
/* Runs like mpc_session_run, waits, and measures the steps. `seconds[i]`
 * becomes the device time of entry i of the function's "steps" in the plan; a
 * loop or a condition is one step. `count` must be mpc_session_step_count, else
 * MPC_USAGE. Run the function once before, as the first run also loads code. */
size_t mpc_session_step_count(const mpc_session *session,
                              const char *function) MPC_NOEXCEPT;
mpc_status *mpc_session_run_timed(mpc_session *session, const char *function,
                                  double *seconds, size_t count) MPC_NOEXCEPT;
/* Copies an output of the last run to `bytes`. `size` must be the output's size
 * in bytes, else MPC_INVALID_INPUT. MPC_USAGE if the function has not run. All
 * functions share memory: MPC_USAGE too if another function has run since,
 * unless the output is state. */
mpc_status *mpc_session_get_output(mpc_session *session, const char *function,
                                   const char *name, void *bytes,
                                   size_t size) MPC_NOEXCEPT;

/* Returns the bytes that the session holds; 0 if the session is NULL. */
size_t mpc_session_memory_bytes(const mpc_session *session) MPC_NOEXCEPT;

#ifdef __cplusplus
}
#endif

#endif /* MPC_RUNTIME_MPC_H */
