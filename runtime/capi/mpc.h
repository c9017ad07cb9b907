/* The C API of the mpc runtime: open an artifact, train it, evaluate it, save
 * it.
 *
 * Errors. Every function that can fail returns a status: NULL for success,
 * otherwise an object with a code (the exit codes of the command line) and a
 * message. The caller frees the status. Functions write results through
 * pointers, and leave the pointers alone on failure. A required argument that
 * is NULL is MPC_USAGE. No function exits, prints or throws.
 *
 * Ownership. Handles are opaque; close or free each exactly once. NULL is
 * ignored. A session keeps its artifact and its communicator alive, and a
 * trainer or an evaluation its session, so they may be released in any order.
 *
 * Threads. Only one thread at a time may use a session, with its trainers and
 * evaluations; different sessions are independent. After fork(2) the child may
 * use and free a session on a CPU. Its functions then run on the one thread
 * that forked.
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
 * Builds. The runtime can be built without training (MPC_ENABLE_TRAIN). The
 * functions from mpc_session_load_weights to the end then return
 * MPC_UNSUPPORTED.
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
typedef struct mpc_communicator mpc_communicator;
typedef struct mpc_session mpc_session;
typedef struct mpc_trainer mpc_trainer;
typedef struct mpc_evaluation mpc_evaluation;

typedef enum mpc_status_code {
  MPC_OK = 0,
  MPC_USAGE = 2,         /* a wrong argument, name or order of calls */
  MPC_INVALID_INPUT = 3, /* a file or a value that breaks the rules */
  MPC_UNSUPPORTED = 4,   /* valid, but mpc cannot do it */
  MPC_IO = 5,            /* no access to a file, or too little memory */
  MPC_DEVICE = 6,        /* the device is missing, unsuitable or failed */
  MPC_NUMERIC = 7,       /* a loss or a weight is not finite */
  MPC_CHECKPOINT = 8,    /* a checkpoint is damaged, or of another run */
  MPC_RANK = 9,          /* another rank failed, or never came */
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
  uint64_t seed;      /* for dropout and the model's random numbers */
  /* The ranks to train with; NULL: none. By default, the ranks on a machine
   * share its cores, and "cuda" is the GPU of the rank's number there. */
  mpc_communicator *communicator;
} mpc_session_options;
#define MPC_SESSION_OPTIONS_INIT                                               \
  { sizeof(mpc_session_options), "cpu", 0, 0, NULL }

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

/* ---- Several ranks ------------------------------------------------------- */

/* A rank is a process with a device. All ranks train one model, each on samples
 * of its own. mpc starts no processes: a launcher or the program does.
 *
 * A session with a communicator of several ranks needs an artifact that was
 * compiled with --data-parallel. All ranks make equal calls, in equal order:
 *
 *   mpc_session_create with a communicator
 *   runs of the functions "step" and "update"
 *   all functions of trainers but those that free, and that return notes or the
 *   progress
 *   mpc_evaluation_create and mpc_evaluation_finish
 *
 * If the artifact was compiled with --shard-optimizer, each rank holds a share
 * of the optimizer. All ranks then make equal calls of these functions too:
 *
 *   mpc_session_get_state, mpc_session_set_state and mpc_session_derive. Each
 *   rank gets the whole variable. All ranks set equal bytes. Other calls, or
 *   other bytes, are MPC_USAGE on all ranks.
 *   mpc_session_load_weights, mpc_session_write_weights and
 *   mpc_session_write_onnx. Only rank 0 reads or writes the file.
 *
 * Batches and evaluations have other samples on each rank, and equal results on
 * all. If a call is refused on one rank, it is MPC_RANK on the others, with the
 * reason. Without a trainer, all ranks drop the same elements by dropout.
 *
 * After other errors, the other ranks may wait for this rank: call
 * mpc_communicator_abort, or end the process. Only one thread at a time may use
 * the sessions of a communicator. */

typedef struct mpc_communicator_options {
  size_t struct_size;
  int32_t ranks;       /* --ranks: 0 for as many as the launcher has started */
  double rank_timeout; /* longest wait for another rank, in seconds */
} mpc_communicator_options;
#define MPC_COMMUNICATOR_OPTIONS_INIT                                          \
  { sizeof(mpc_communicator_options), 0, 600 }

/* Connects this process with the other ranks of its launcher, such as mpirun,
 * as `mpc train` does. Initializes MPI unless the program has. Without a
 * launcher, there is a single rank, and no library is loaded. `options` may be
 * NULL, for the defaults. The caller frees *communicator.
 *
 * MPC_USAGE if the launcher's variables are impossible, or if there is another
 * number of ranks. MPC_RANK if the library is missing, or if a rank does not
 * come in time. */
mpc_status *
mpc_communicator_connect(const mpc_communicator_options *options,
                         mpc_communicator **communicator) MPC_NOEXCEPT;

/* A back end of the program: moves bytes between the ranks. All ranks get equal
 * calls. Each function returns 0 when its part is done, else a code for the
 * message. mpc calls one function at a time, on any thread. Memory is the
 * host's. No size exceeds 1 GiB. */
typedef struct mpc_backend {
  size_t struct_size;
  const char *name; /* for mpc_communicator_backend and for messages */
  void *context;    /* the first argument of each function */
  /* Sends block r of `from` to rank r, and receives block r of `to` from rank
   * r. Each block has `bytes`. MPI_Alltoall does this. */
  int32_t (*exchange)(void *context, const void *from, void *to, size_t bytes);
  /* Gives every rank the blocks of all ranks. Each block has `bytes`, and the
   * own block is in place. MPI_Allgather does this. */
  int32_t (*gather)(void *context, void *data, size_t bytes);
  /* Gives every rank the bytes at `data` of the rank `root`. */
  int32_t (*broadcast)(void *context, void *data, size_t bytes, int32_t root);
  /* Returns once all ranks have called. */
  int32_t (*barrier)(void *context);
  /* Ends the calls in which other ranks wait. NULL: their own limits of time
   * end them. Any thread may call it. */
  void (*abort)(void *context, const char *why);
} mpc_backend;
#define MPC_BACKEND_INIT                                                       \
  { sizeof(mpc_backend), "program", NULL, NULL, NULL, NULL, NULL, NULL }

/* Makes a communicator of the program's own functions. Copies `backend`; its
 * context must live as long as the communicator and all sessions that have it.
 * The results depend on the ranks and the order of their numbers, not on the
 * back end. MPC_USAGE unless `rank` is in [0, size), or if a function is
 * missing. The caller frees *communicator. */
mpc_status *
mpc_communicator_create(int32_t rank, int32_t size, const mpc_backend *backend,
                        mpc_communicator **communicator) MPC_NOEXCEPT;

/* The rank of this process and the number of ranks; 0 and 1 if the communicator
 * is NULL. The local rank and size count the ranks on this machine: 0 and 1 for
 * a back end of the program. */
int32_t
mpc_communicator_rank(const mpc_communicator *communicator) MPC_NOEXCEPT;
int32_t
mpc_communicator_size(const mpc_communicator *communicator) MPC_NOEXCEPT;
int32_t
mpc_communicator_local_rank(const mpc_communicator *communicator) MPC_NOEXCEPT;
int32_t
mpc_communicator_local_size(const mpc_communicator *communicator) MPC_NOEXCEPT;
/* Returns the back end: "mpi", "gloo", the program's name, or "" for a single
 * rank.
 * Lives as long as the communicator. */
const char *
mpc_communicator_backend(const mpc_communicator *communicator) MPC_NOEXCEPT;
/* Returns the bytes that this rank has sent so far. */
uint64_t
mpc_communicator_bytes_sent(const mpc_communicator *communicator) MPC_NOEXCEPT;

/* Returns once all ranks have called the function. */
mpc_status *
mpc_communicator_barrier(mpc_communicator *communicator) MPC_NOEXCEPT;
/* Ends all other ranks, with `why` as the reason. With MPI, ends this process
 * too. Does nothing for a single rank. Any thread may call it. */
void mpc_communicator_abort(mpc_communicator *communicator,
                            const char *why) MPC_NOEXCEPT;
/* Frees the handle. The last user of the communicator ends MPI if mpc has begun
 * it, which waits for all ranks. */
void mpc_communicator_free(mpc_communicator *communicator) MPC_NOEXCEPT;

/* ---- Sessions ------------------------------------------------------------ */

/* Loads the artifact's code, and gives every state variable its initial value.
 * `options` may be NULL, for the defaults. MPC_DEVICE if this machine cannot
 * run the artifact. MPC_USAGE for an unknown device, or for more than four
 * threads per processor. MPC_UNSUPPORTED for several ranks if the artifact
 * trains a single rank. The caller frees *session. */
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
 * or a class label in `bytes` is out of range. MPC_USAGE for unknown names.
 *
 * A runtime that was built without training does not check class labels of a
 * loss that `mpc compile --loss` added. */
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

/* ---- Weights in files ---------------------------------------------------- */

/* Sets parameters, frozen parameters and running statistics to the arrays of
 * the same name in a file, converted to the state's type, and derives. `path`
 * is a file .safetensors or .npz, or the folder of a checkpoint. Ignores arrays
 * that name no state, and keeps state that the file lacks.
 *
 * MPC_IO if the file cannot be read. MPC_INVALID_INPUT if it is damaged, if no
 * array fits, or if a shape differs. MPC_CHECKPOINT if a checkpoint is damaged,
 * or of another model. State is unchanged after these errors. */
mpc_status *mpc_session_load_weights(mpc_session *session,
                                     const char *path) MPC_NOEXCEPT;
/* Writes parameters, frozen parameters and running statistics as .safetensors
 * or .npz, by the extension of `path`. The file appears whole or not at all. If
 * the artifact keeps averages of parameters (--ema), the file has the averages.
 * MPC_USAGE for another extension, MPC_IO if the file cannot be written. */
mpc_status *mpc_session_write_weights(mpc_session *session,
                                      const char *path) MPC_NOEXCEPT;
/* Writes the ONNX model that the artifact was compiled from, with the weights
 * of mpc_session_write_weights, in inference mode. The file appears whole or
 * not at all. MPC_UNSUPPORTED if the artifact does not hold its model. MPC_IO
 * if the file cannot be written. MPC_NUMERIC if a weight does not fit the
 * model's type, such as 1e6 in float16. */
mpc_status *mpc_session_write_onnx(mpc_session *session,
                                   const char *path) MPC_NOEXCEPT;

/* ---- Training ------------------------------------------------------------ */

/* The samples of one input, dense and row-major, in the input's type:
 * mpc_session_input_info tells the type and the shape. `size` is in bytes. This
 * struct never grows. */
typedef struct mpc_array {
  const char *name; /* of the input, such as "image" */
  const void *bytes;
  size_t size;
} mpc_array;

/* A field that is named like a flag of `mpc train` means what the flag means.
 * Messages name the flags. */
typedef struct mpc_trainer_options {
  size_t struct_size;
  double learning_rate;     /* --lr */
  const char *lr_scheduler; /* --lr-scheduler, such as "step:100:0.5" */
  double min_lr;            /* --min-lr */
  int64_t warmup_steps;     /* --warmup-steps */
  /* The steps of the whole run, those before a resume included. linear, cosine
   * and one-cycle need it. 0: unknown. */
  int64_t total_steps;
  int64_t steps_per_epoch;    /* 0: epochs are not counted */
  const char *checkpoint_dir; /* --checkpoint-dir; NULL: no checkpoints */
  int64_t keep_checkpoints;   /* --keep-checkpoints */
  /* --resume: NULL starts anew. "auto" continues from the newest undamaged
   * checkpoint in checkpoint_dir, or starts anew if there is none. Otherwise a
   * checkpoint, or a folder of checkpoints. */
  const char *resume;
  /* Names the data and their order. A run resumes only with the same name.
   * NULL is "". */
  const char *data;
  int32_t allow_nan; /* --allow-nan: 1 lets inputs be NaN or infinite */
  /* --best and --early-stopping, such as "accuracy" and "loss:5"; NULL: not in
   * use. Both need mpc_trainer_count_evaluation, and so does the schedule
   * "plateau". */
  const char *best;
  const char *early_stopping;
} mpc_trainer_options;
#define MPC_TRAINER_OPTIONS_INIT                                               \
  {                                                                            \
    sizeof(mpc_trainer_options), 1e-3, "constant", 0, 0, 0, 0, NULL, 3, NULL,  \
        NULL, 0, NULL, NULL                                                    \
  }

/* The place of a trainer in its run. Skipped attempts count as steps. */
typedef struct mpc_progress {
  size_t struct_size;
  int64_t step; /* update attempts */
  /* Batches run, by all ranks: to continue, leave out so many. Of the batches
   * that follow, rank r of R takes r, r + R, r + 2 R, ... */
  int64_t batches;
  int64_t samples; /* of all ranks */
  int64_t skipped; /* attempts that changed no weights */
  int64_t epoch;   /* epochs completed */
  int64_t step_in_epoch;
  int64_t
      batch_in_step;    /* batches that this rank has run for the next update */
  double learning_rate; /* of the next update */
} mpc_progress;
#define MPC_PROGRESS_INIT                                                      \
  { sizeof(mpc_progress), 0, 0, 0, 0, 0, 0, 0, 0 }

/* The results of a batch. Figures that were not measured are NaN. */
typedef struct mpc_batch_result {
  size_t struct_size;
  /* 1 if the batch completed an update attempt: always, unless the artifact was
   * compiled with --accumulate-grad-batches. The fields below `loss` are set
   * only then. */
  int32_t is_step;
  int32_t skipped; /* 1 if gradients were not finite: no weight changed */
  /* The batch's loss or, after an attempt, the mean over the batches of all
   * ranks. Before the update, unscaled. */
  double loss;
  double learning_rate; /* NaN if the model fixes the rate itself */
  double accuracy;      /* before the update */
  double grad_norm;
  double loss_scale;
} mpc_batch_result;
#define MPC_BATCH_RESULT_INIT                                                  \
  { sizeof(mpc_batch_result), 0, 0, 0, 0, 0, 0, 0 }

/* Creates a trainer of the session's model, which must have the functions to
 * train. Resumes if `resume` says so: state is then that of the checkpoint, and
 * the run continues with the same bits as without a break. A folder of
 * checkpoints is locked until the trainer is freed. `options` may be NULL, for
 * the defaults. The caller frees *trainer.
 *
 * Several ranks must give equal options. All start with the state of rank 0,
 * which alone reads and writes checkpoints.
 *
 * MPC_USAGE for an option that is wrong, or a folder with checkpoints of an
 * earlier run without `resume`. MPC_UNSUPPORTED if the artifact cannot train.
 * MPC_CHECKPOINT if the checkpoint is damaged or of another run. MPC_IO if a
 * folder cannot be read, written or locked. State is unchanged after errors;
 * after MPC_IO, it may be that of the checkpoint. */
mpc_status *mpc_trainer_create(mpc_session *session,
                               const mpc_trainer_options *options,
                               mpc_trainer **trainer) MPC_NOEXCEPT;
void mpc_trainer_free(mpc_trainer *trainer) MPC_NOEXCEPT;

/* Trains on one batch: the function "step", or "accumulate" and, after the last
 * batch of an update, "update". `arrays` has each input of data and labels
 * once, in any order, with exactly the artifact's batch size. Sets the learning
 * rate by the schedule. `result` may be NULL.
 *
 * MPC_INVALID_INPUT if a size is wrong, a label or an index is out of range, or
 * a value is not finite; MPC_USAGE for unknown, missing or repeated names:
 * nothing has run then. After other errors state may be half written, and each
 * later call returns the error again. */
mpc_status *mpc_trainer_run_batch(mpc_trainer *trainer, const mpc_array *arrays,
                                  size_t count,
                                  mpc_batch_result *result) MPC_NOEXCEPT;

/* Tells the trainer's place in the run. */
mpc_status *mpc_trainer_get_progress(const mpc_trainer *trainer,
                                     mpc_progress *progress) MPC_NOEXCEPT;

/* Replaces the option `learning_rate`, from the next batch on. With the
 * schedule "constant" and no warmup, this is the rate itself. MPC_USAGE if the
 * rate is negative, not finite, or below min_lr. */
mpc_status *mpc_trainer_set_learning_rate(mpc_trainer *trainer,
                                          double learning_rate) MPC_NOEXCEPT;

/* Writes a checkpoint, the folder step-N in checkpoint_dir, in the format of
 * `mpc train`, and removes all but the newest keep_checkpoints. Does nothing if
 * there is a checkpoint of this step already. If the process or the machine
 * dies meanwhile, the older checkpoints are intact.
 *
 * Several ranks first do what mpc_trainer_check_ranks does.
 *
 * MPC_USAGE without checkpoint_dir, or for several ranks within a step. MPC_IO
 * if the checkpoint cannot be written.
 * MPC_NUMERIC if the last loss or a weight is not finite: such a checkpoint
 * would replace good ones. The trainer stays usable after these errors. */
mpc_status *mpc_trainer_save(mpc_trainer *trainer) MPC_NOEXCEPT;

/* Makes the state of all ranks equal: averages running statistics, which each
 * rank takes from batches of its own, and checks that all other state has equal
 * bits. Call it before writing weights. MPC_RANK names the first variable that
 * differs. Does nothing for a single rank. */
mpc_status *mpc_trainer_check_ranks(mpc_trainer *trainer) MPC_NOEXCEPT;

/* The consequences of an evaluation. */
typedef struct mpc_verdict {
  size_t struct_size;
  int32_t is_best;     /* 1 if it is the best so far, by `best` */
  int32_t should_stop; /* 1 if `early_stopping` ends the run */
} mpc_verdict;
#define MPC_VERDICT_INIT                                                       \
  { sizeof(mpc_verdict), 0, 0 }

/* Counts a finished evaluation of the present weights, for `best`,
 * `early_stopping` and the schedule "plateau", which may lower the learning
 * rate. If the evaluation is the best, keeps the weights: in a checkpoint if
 * there is a checkpoint_dir, which later ones do not remove, else in memory.
 * `verdict` may be NULL. Checkpoints have the counts.
 *
 * MPC_USAGE if none of the three options is in use, if the evaluation is not
 * finished or lacks the metric, or within a step. */
mpc_status *mpc_trainer_count_evaluation(mpc_trainer *trainer,
                                         const mpc_evaluation *evaluation,
                                         mpc_verdict *verdict) MPC_NOEXCEPT;

/* Ends the training: gives the session the weights of the best evaluation, and
 * sets *step to its step; `step` may be NULL. Later calls on the trainer return
 * MPC_USAGE. MPC_USAGE without `best`, MPC_NUMERIC if no evaluation had a
 * finite value, MPC_CHECKPOINT if the checkpoint of the best is damaged. */
mpc_status *mpc_trainer_restore_best(mpc_trainer *trainer,
                                     int64_t *step) MPC_NOEXCEPT;

/* Returns remarks of the last call on the trainer that can fail, a line each:
 * settings that changed at a resume, a damaged checkpoint that was passed over,
 * an old checkpoint that cannot be removed. "" if there are none, or if the
 * trainer is NULL. Valid until the next call on the trainer. */
const char *mpc_trainer_notes(const mpc_trainer *trainer) MPC_NOEXCEPT;

/* ---- Evaluation ---------------------------------------------------------- */

typedef struct mpc_evaluation_options {
  size_t struct_size;
  const char *metrics; /* --metric, such as "f1,top5"; NULL: none */
  int32_t allow_nan;   /* --allow-nan: 1 lets inputs be NaN or infinite */
} mpc_evaluation_options;
#define MPC_EVALUATION_OPTIONS_INIT                                            \
  { sizeof(mpc_evaluation_options), NULL, 0 }

typedef struct mpc_evaluation_result {
  size_t struct_size;
  double loss;      /* mean or sum over all samples, as the artifact's loss */
  double accuracy;  /* NaN if the loss has none */
  int64_t samples;  /* that the figures are over */
  int64_t left_out; /* at the end: they fill no batch, and cannot be padded */
} mpc_evaluation_result;
#define MPC_EVALUATION_RESULT_INIT                                             \
  { sizeof(mpc_evaluation_result), 0, 0, 0, 0 }

/* Begins an evaluation of the session's model by the function "eval", as `mpc
 * eval` does. `options` may be NULL. MPC_UNSUPPORTED if the artifact has no
 * such function, MPC_USAGE for a metric that does not fit the loss. The caller
 * frees *evaluation.
 *
 * Several ranks first average their running statistics. Each adds samples of
 * its own, at least one, and gets the result over the samples of all.
 * MPC_UNSUPPORTED if the artifact was compiled with --ema and
 * --shard-optimizer, since the averages lie on single ranks. */
mpc_status *mpc_evaluation_create(mpc_session *session,
                                  const mpc_evaluation_options *options,
                                  mpc_evaluation **evaluation) MPC_NOEXCEPT;
void mpc_evaluation_free(mpc_evaluation *evaluation) MPC_NOEXCEPT;

/* Adds samples, any number of them: each of `arrays` has as many. Evaluates
 * whole batches, and keeps the rest for the next call; the result does not
 * depend on how the samples are divided among calls. Uses the averages of
 * parameters if the artifact keeps such (--ema). Errors as of
 * mpc_trainer_run_batch, and MPC_USAGE after mpc_evaluation_finish. */
mpc_status *mpc_evaluation_add(mpc_evaluation *evaluation,
                               const mpc_array *arrays,
                               size_t count) MPC_NOEXCEPT;

/* Evaluates the samples that fill no batch, filled up with other samples that
 * do not count, and sets *result. MPC_USAGE if no samples were added, or if
 * called twice. MPC_INVALID_INPUT if no sample counts. MPC_UNSUPPORTED if no
 * batch was filled and samples of a batch depend on each other. */
mpc_status *mpc_evaluation_finish(mpc_evaluation *evaluation,
                                  mpc_evaluation_result *result) MPC_NOEXCEPT;

/* Reads a figure after mpc_evaluation_finish: "loss", "accuracy", or one of the
 * options' metrics. MPC_USAGE for other names, or before. */
mpc_status *mpc_evaluation_get(const mpc_evaluation *evaluation,
                               const char *name, double *value) MPC_NOEXCEPT;

#ifdef __cplusplus
}
#endif

#endif /* MPC_RUNTIME_MPC_H */
