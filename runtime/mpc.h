/* The C API of the mpc runtime: open an artifact, train it, read results.
 *
 * Every function that can fail returns a status: NULL for success, otherwise an
 * object with a code (the exit codes of the command line) and a message, which
 * the caller frees. Results are written through pointers and left alone on
 * failure. No function exits, prints or throws.
 *
 * Handles are opaque. A session keeps its artifact alive, so the two may be
 * released in any order. One session is used by one thread at a time;
 * different sessions are independent. After fork(2) the child may use and free
 * a session on a CPU; its functions run on the one thread that forked.
 *
 * Where memory is short a function returns MPC_IO, "out of memory", and what
 * exists stays usable; so it does where threads cannot start. On a CPU,
 * creating a session takes no less than 64 MiB of free address space, and the
 * first run of each function 64 MiB a thread: oneDNN, which does not look
 * whether it gets memory, is not called with less.
 *
 * Options and infos start with their size, so that a program compiled against
 * this header runs with a later library: fields it does not know keep their
 * defaults. Initialise them with the macros: a size of 0 is refused.
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
  MPC_USAGE = 2,
  MPC_INVALID_INPUT = 3,
  MPC_UNSUPPORTED = 4,
  MPC_IO = 5,
  MPC_DEVICE = 6,
  MPC_NUMERIC = 7,
  MPC_CHECKPOINT = 8,
  MPC_INTERNAL = 70
} mpc_status_code;

/* Element types; an i1 is one byte, 0 or 1. */
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

/* What there is to know of a state variable, an input or an output. The
 * pointers live as long as the session. */
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

/* The library's version, "0.1.0". */
const char *mpc_version(void) MPC_NOEXCEPT;

/* MPC_OK and "" where the status is NULL. The message lives as long as the
 * status. */
mpc_status_code mpc_status_get_code(const mpc_status *status) MPC_NOEXCEPT;
const char *mpc_status_message(const mpc_status *status) MPC_NOEXCEPT;
void mpc_status_free(mpc_status *status) MPC_NOEXCEPT;

/* Opens and checks an artifact, whatever the file is; executes nothing of it.
 * The bytes of mpc_artifact_open_bytes are copied. A file is used where it
 * lies: replace it by rename(2). One that is overwritten in place, as by cp,
 * ends the process by SIGBUS. An artifact is a program: mpc_session_create
 * loads its kernels, and from there on its author does what this process may
 * do. The digest finds damage, not malice. Make sessions of artifacts whose
 * origin you know, in files that nobody else may write to. */
mpc_status *mpc_artifact_open(const char *path,
                              mpc_artifact **artifact) MPC_NOEXCEPT;
mpc_status *mpc_artifact_open_bytes(const void *bytes, size_t size,
                                    mpc_artifact **artifact) MPC_NOEXCEPT;
/* The plan, JSON: `size` bytes without a terminator, owned by the artifact;
 * NULL and 0 where the artifact is NULL. */
const char *mpc_artifact_plan(const mpc_artifact *artifact,
                              size_t *size) MPC_NOEXCEPT;
void mpc_artifact_close(mpc_artifact *artifact) MPC_NOEXCEPT;

/* Loads the artifact's code, and gives every state variable its initial value.
 * `options` may be NULL. MPC_USAGE where more threads are asked for than four
 * for each processor. */
mpc_status *mpc_session_create(mpc_artifact *artifact,
                               const mpc_session_options *options,
                               mpc_session **session) MPC_NOEXCEPT;
void mpc_session_free(mpc_session *session) MPC_NOEXCEPT;

/* State variables, by index below the count; MPC_USAGE above it. */
size_t mpc_session_state_count(const mpc_session *session) MPC_NOEXCEPT;
mpc_status *mpc_session_state_info(const mpc_session *session, size_t index,
                                   mpc_tensor_info *info) MPC_NOEXCEPT;
/* Copies a state variable out or in; `size` is exactly its size in bytes. After
 * replacing a parameter call mpc_session_derive before the next run. */
mpc_status *mpc_session_get_state(mpc_session *session, const char *name,
                                  void *bytes, size_t size) MPC_NOEXCEPT;
mpc_status *mpc_session_set_state(mpc_session *session, const char *name,
                                  const void *bytes, size_t size) MPC_NOEXCEPT;
mpc_status *mpc_session_derive(mpc_session *session) MPC_NOEXCEPT;

/* Inputs and outputs of a function ("step", "eval", ...), by index. */
mpc_status *mpc_session_input_info(const mpc_session *session,
                                   const char *function, size_t index,
                                   mpc_tensor_info *info) MPC_NOEXCEPT;
mpc_status *mpc_session_output_info(const mpc_session *session,
                                    const char *function, size_t index,
                                    mpc_tensor_info *info) MPC_NOEXCEPT;
/* 0 where there is no such function. */
size_t mpc_session_input_count(const mpc_session *session,
                               const char *function) MPC_NOEXCEPT;
size_t mpc_session_output_count(const mpc_session *session,
                                const char *function) MPC_NOEXCEPT;

/* Copies an input in; it keeps its value for later runs. */
mpc_status *mpc_session_set_input(mpc_session *session, const char *function,
                                  const char *name, const void *bytes,
                                  size_t size) MPC_NOEXCEPT;
mpc_status *mpc_session_run(mpc_session *session,
                            const char *function) MPC_NOEXCEPT;
/* Runs a function as mpc_session_run does, waits, and measures its steps:
 * `seconds[i]` becomes the time that the i-th entry of the function's "steps"
 * in the plan took on the device; a loop or a condition is one step. `count` is
 * mpc_session_step_count. Run the function once before: the first run also
 * loads code. */
size_t mpc_session_step_count(const mpc_session *session,
                              const char *function) MPC_NOEXCEPT;
mpc_status *mpc_session_run_timed(mpc_session *session, const char *function,
                                  double *seconds, size_t count) MPC_NOEXCEPT;
/* Copies an output of the last run out, before another function runs. */
mpc_status *mpc_session_get_output(mpc_session *session, const char *function,
                                   const char *name, void *bytes,
                                   size_t size) MPC_NOEXCEPT;

/* Bytes the session holds. */
size_t mpc_session_memory_bytes(const mpc_session *session) MPC_NOEXCEPT;

#ifdef __cplusplus
}
#endif

#endif /* MPC_RUNTIME_MPC_H */
