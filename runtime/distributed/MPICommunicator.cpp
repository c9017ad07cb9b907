// SPDX-License-Identifier: Apache-2.0
#include "runtime/distributed/MPICommunicator.h"

#include "runtime/distributed/HostCommunicator.h"
#include "runtime/distributed/MPIABI.h"
#include "runtime/distributed/RankErrors.h"

#include <csignal>
#include <cstdlib>
#include <dlfcn.h>
#include <future>
#include <sched.h>
#include <system_error>
#include <thread>
#include <unistd.h>

namespace mpc::runtime {

using Clock = std::chrono::steady_clock;

/// The libraries of MPI. A name ends with the version of the ABI.
static constexpr const char *kOpenMPINames[] = {"libmpi.so.40"};
static constexpr const char *kMPICHNames[] = {"libmpich.so.12", "libmpi.so.12"};

static constexpr std::chrono::seconds kLongestAbort(2);

//===----------------------------------------------------------------------===//
// Loading
//===----------------------------------------------------------------------===//

/// Sets the members to the functions of a library.
template <typename Handle>
static Status findFunctions(void *library, MPIFunctions<Handle> &call) {
#define MPC_FIND(member, symbol, ...)                                          \
  call.member =                                                                \
      reinterpret_cast<decltype(call.member)>(dlsym(library, #symbol));        \
  if (!call.member)                                                            \
    return rankError("the MPI library has no function " #symbol                \
                     ": it is older than MPI 3, which mpc needs");
  MPC_MPI_FUNCTIONS(MPC_FIND, Handle)
#undef MPC_FIND
  return Status();
}

static bool isOpenMPI(void *library) { return dlsym(library, kOpenMPIWorld); }

static MPIConstants<OpenMPIHandle> openMPIConstants(void *library) {
  return {dlsym(library, kOpenMPIWorld), dlsym(library, kOpenMPIByte),
          dlsym(library, kOpenMPIErrorsReturn),
          reinterpret_cast<void *>(kOpenMPIInPlace),
          reinterpret_cast<void *>(kOpenMPIStatusIgnore)};
}

static MPIConstants<MPICHHandle> mpichConstants() {
  return {kMPICHWorld, kMPICHByte, kMPICHErrorsReturn,
          reinterpret_cast<void *>(kMPICHInPlace),
          reinterpret_cast<void *>(kMPICHStatusIgnore)};
}

static bool servesOpenMPI(const Launch &launch, const VariableLookup &lookup) {
  return launch.launcher == Launcher::OpenMPI ||
         (launch.launcher == Launcher::Slurm && lookup("PMIX_RANK"));
}

bool servesMPI(const Launch &launch, const VariableLookup &lookup) {
  return launch.launcher == Launcher::OpenMPI ||
         launch.launcher == Launcher::PMI ||
         (launch.launcher == Launcher::Slurm &&
          (lookup("PMIX_RANK") || lookup("PMI_RANK")));
}

/// Loads the library of the launcher. With another library, each process would
/// see a single rank.
static StatusOr<void *> loadMPI(const Launch &launch) {
  const VariableLookup lookup = [](const char *name) {
    return std::getenv(name);
  };
  const bool isOpen = servesOpenMPI(launch, lookup);
  std::vector<const char *> names;
  if (const char *named = lookup("MPC_MPI_LIBRARY"))
    names = {named};
  else if (isOpen)
    names.assign(std::begin(kOpenMPINames), std::end(kOpenMPINames));
  else
    names.assign(std::begin(kMPICHNames), std::end(kMPICHNames));
  std::string tried;
  for (const char *name : names) {
    // Open MPI's plugins find the library's symbols among the global ones.
    if (void *library = dlopen(name, RTLD_NOW | RTLD_GLOBAL))
      return library;
    const char *why = dlerror();
    tried += (tried.empty() ? "" : "; ") + std::string(why ? why : name);
  }
  return rankError(
      std::string(nameOf(launch.launcher)) + " has started " +
      std::to_string(launch.size) +
      " ranks, which need its MPI library: " + tried +
      "; install Debian's package " + (isOpen ? "libopenmpi3" : "libmpich12") +
      ", or name the library's file by the variable MPC_MPI_LIBRARY");
}

//===----------------------------------------------------------------------===//
// Threads beside the program's
//===----------------------------------------------------------------------===//

/// Starts a thread that nothing waits for.
template <typename Function>
static void startThread(Function function) {
  // The program's handlers of signals run on the program's threads.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread(std::move(function)).detach();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

namespace {

/// Initializes and finalizes MPI on the same thread, as the standard demands.
/// Both calls wait for all ranks and cannot be cancelled. So the caller waits
/// for a limited time, and abandons the thread if a rank does not come.
class MPIThread {
public:
  MPIThread(std::function<int()> initialize, std::function<void()> finalize)
      : state(std::make_shared<State>()) {
    startThread([state = state, initialize = std::move(initialize),
                 finalize = std::move(finalize)] {
      state->initialized.set_value(initialize());
      if (state->ending.get_future().get())
        finalize();
      state->ended.set_value();
    });
  }
  MPIThread(const MPIThread &) = delete;
  MPIThread &operator=(const MPIThread &) = delete;

  /// Returns the result of `initialize`; nullopt after `timeout`.
  std::optional<int> waitForStart(std::chrono::milliseconds timeout) {
    std::future<int> result = state->initialized.get_future();
    if (result.wait_for(timeout) == std::future_status::timeout)
      return std::nullopt;
    return result.get();
  }

  /// Ends the thread, and MPI too if `finalizes`.
  void end(bool finalizes, std::chrono::milliseconds timeout) {
    std::future<void> ended = state->ended.get_future();
    state->ending.set_value(finalizes);
    ended.wait_for(timeout);
  }

private:
  struct State {
    std::promise<int> initialized;
    std::promise<bool> ending;
    std::promise<void> ended;
  };
  std::shared_ptr<State> state;
};

//===----------------------------------------------------------------------===//
// The communicator
//===----------------------------------------------------------------------===//

/// The blocks of all ranks, side by side, as MPI wants them.
struct Blocks {
  Blocks() = default;
  explicit Blocks(const std::vector<size_t> &sizes) {
    for (size_t size : sizes) {
      counts.push_back(static_cast<int>(size));
      offsets.push_back(static_cast<int>(total));
      total += size;
    }
  }

  std::vector<int> counts, offsets; ///< in bytes
  size_t total = 0;
};

template <typename Handle>
class MPICommunicator : public HostCommunicator {
public:
  MPICommunicator(const Launch &launch, const MPIFunctions<Handle> &call,
                  const MPIConstants<Handle> &constants,
                  std::chrono::milliseconds timeout)
      : HostCommunicator(launch.rank, launch.size), call(call),
        constants(constants), timeout(timeout),
        isOneMachine(launch.localSize == launch.size), world(constants.world) {}
  ~MPICommunicator() override;

  Status start();

  std::string_view backend() const override { return "mpi"; }
  void abort(const Status &why) override;
  void noteLoss() override { hasFailed = true; }

protected:
  Status exchangeBlocks(const std::byte *from, std::byte *to,
                        size_t bytes) override {
    const int count = static_cast<int>(bytes);
    return wait([&](Handle &request) {
      return call.allToAll(from, count, constants.byte, to, count,
                           constants.byte, world, &request);
    });
  }
  Status gatherBlocks(std::byte *data, size_t bytes) override {
    const int count = static_cast<int>(bytes);
    return wait([&](Handle &request) {
      return call.allGather(constants.inPlace, count, constants.byte, data,
                            count, constants.byte, world, &request);
    });
  }
  Status exchangeUneven(const std::byte *from, std::byte *to,
                        const std::vector<size_t> &sizes) override {
    const size_t own = sizes[static_cast<size_t>(rank())];
    sending = Blocks(sizes);
    receiving = Blocks(std::vector<size_t>(sizes.size(), own));
    countSent(sending.total - own);
    return wait([&](Handle &request) {
      return call.allToAllUneven(
          from, sending.counts.data(), sending.offsets.data(), constants.byte,
          to, receiving.counts.data(), receiving.offsets.data(), constants.byte,
          world, &request);
    });
  }
  Status gatherUneven(std::byte *data,
                      const std::vector<size_t> &sizes) override {
    const size_t own = sizes[static_cast<size_t>(rank())];
    receiving = Blocks(sizes);
    countSent(own * (sizes.size() - 1));
    return wait([&](Handle &request) {
      return call.allGatherUneven(constants.inPlace, static_cast<int>(own),
                                  constants.byte, data, receiving.counts.data(),
                                  receiving.offsets.data(), constants.byte,
                                  world, &request);
    });
  }
  Status broadcastBlock(std::byte *data, size_t bytes, int root) override {
    return wait([&](Handle &request) {
      return call.broadcast(data, static_cast<int>(bytes), constants.byte, root,
                            world, &request);
    });
  }
  Status waitForAll() override {
    return wait([&](Handle &request) { return call.barrier(world, &request); });
  }
  Status checkWait(Clock::time_point start, int awaited) override;

private:
  template <typename Begin>
  Status wait(Begin begin);
  Status initialize();
  Status checkWorld();
  Status failed(const std::string &what, int code);

  const MPIFunctions<Handle> call;
  const MPIConstants<Handle> constants;
  const std::chrono::milliseconds timeout;
  const bool isOneMachine; ///< true if the launcher says so of all ranks
  Handle world;            ///< after `start`, a duplicate of MPI_COMM_WORLD
  std::unique_ptr<MPIThread> thread;
  Blocks sending, receiving; ///< MPI reads these until a call ends
  bool hasFailed = false;
};

} // namespace

template <typename Handle>
Status MPICommunicator<Handle>::failed(const std::string &what, int code) {
  hasFailed = true;
  std::string text(kMPIMaxText, '\0');
  int length = 0;
  if (call.errorString(code, text.data(), &length) != kMPISuccess)
    length = 0;
  text.resize(static_cast<size_t>(length));
  return rankError("rank " + std::to_string(rank()) + ": MPI cannot " + what +
                   ": " +
                   (text.empty() ? "error " + std::to_string(code) : text));
}

template <typename Handle>
Status MPICommunicator<Handle>::initialize() {
  int isInitialized = 0;
  call.initialized(&isInitialized);
  int level = 0;
  if (isInitialized) {
    call.queryThread(&level);
  } else {
    auto provided = std::make_shared<int>(0);
    thread = std::make_unique<MPIThread>(
        [call = call, provided] {
          return call.initThread(nullptr, nullptr, kMPIThreadMultiple,
                                 provided.get());
        },
        [call = call] { call.finalize(); });
    const std::optional<int> code = thread->waitForStart(timeout);
    if (!code) {
      hasFailed = true;
      return rankError("rank " + std::to_string(rank()) + " of " +
                       std::to_string(size()) + " waited " +
                       inSeconds(timeout) +
                       " for the start of all ranks; a rank has ended or never "
                       "came; --rank-timeout sets the time");
    }
    if (*code != kMPISuccess)
      return failed("start", *code);
    level = *provided;
  }
  if (level >= kMPIThreadSerialized)
    return Status();
  return rankError(
      "this MPI allows calls from its first thread only; mpc needs "
      "MPI_THREAD_SERIALIZED: install an MPI with support for threads");
}

template <typename Handle>
Status MPICommunicator<Handle>::checkWorld() {
  int seenRank = -1, seenSize = -1;
  call.commRank(constants.world, &seenRank);
  call.commSize(constants.world, &seenSize);
  if (seenRank == rank() && seenSize == size())
    return Status();
  return rankError(
      "the launcher has started rank " + std::to_string(rank()) + " of " +
      std::to_string(size()) + ", but the MPI library sees rank " +
      std::to_string(seenRank) + " of " + std::to_string(seenSize) +
      "; start mpc by the mpirun of the same MPI, or name the "
      "launcher's library by the variable MPC_MPI_LIBRARY");
}

template <typename Handle>
Status MPICommunicator<Handle>::start() {
  if (Status status = initialize(); !status.ok())
    return status;
  if (Status status = checkWorld(); !status.ok())
    return status;
  // Messages of the program around mpc do not mix with ours.
  if (int code = call.commDup(constants.world, &world); code != kMPISuccess)
    return failed("duplicate its communicator", code);
  // MPI would print an error and end the process.
  if (int code = call.setErrorHandler(world, constants.errorsReturn);
      code != kMPISuccess)
    return failed("return errors", code);
  return isOneMachine ? shareMemory() : Status();
}

template <typename Handle>
MPICommunicator<Handle>::~MPICommunicator() {
  // After a failure, MPI_Finalize may wait for ever. Without MPI_Finalize, the
  // end of the process makes the launcher end the other ranks.
  if (thread)
    thread->end(!hasFailed, hasFailed ? std::chrono::milliseconds(0) : timeout);
}

template <typename Handle>
Status MPICommunicator<Handle>::checkWait(Clock::time_point start,
                                          int awaited) {
  if (hasFailed)
    return rankError(describeCall() + ": an earlier call has failed");
  if (Clock::now() - start <= timeout)
    return Status();
  hasFailed = true;
  return rankError("rank " + std::to_string(rank()) + " of " +
                   std::to_string(size()) + " waited " + inSeconds(timeout) +
                   " in " + describeCall() +
                   (awaited < 0 ? "" : " for rank " + std::to_string(awaited)) +
                   "; another rank has ended, hangs, or takes longer; "
                   "--rank-timeout sets the time");
}

/// Starts a call by `begin`, and waits for the end of the call. Tests the
/// request often at first. Later sleeps between the tests, and leaves the core
/// to computing threads.
template <typename Handle>
template <typename Begin>
Status MPICommunicator<Handle>::wait(Begin begin) {
  using std::chrono::microseconds;
  const Clock::time_point start = Clock::now();
  if (Status status = checkWait(start, -1); !status.ok())
    return status;
  Handle request;
  if (int code = begin(request); code != kMPISuccess)
    return failed("start " + describeCall(), code);
  for (;;) {
    int isDone = 0;
    if (int code = call.test(&request, &isDone, constants.statusIgnore);
        code != kMPISuccess)
      return failed("end " + describeCall(), code);
    if (isDone)
      return Status();
    if (Status status = checkWait(start, -1); !status.ok())
      return status;
    const Clock::duration waited = Clock::now() - start;
    if (waited > std::chrono::milliseconds(5))
      std::this_thread::sleep_for(microseconds(20));
    else if (waited > microseconds(50))
      sched_yield();
  }
}

template <typename Handle>
void MPICommunicator<Handle>::abort(const Status &why) {
  const int code = static_cast<int>(why.getCode());
  // MPICH 4.0's MPI_Abort sometimes waits for ever. The end of this process
  // makes the launcher end the other ranks, too.
  try {
    startThread([code] {
      std::this_thread::sleep_for(kLongestAbort);
      _exit(code);
    });
  } catch (const std::system_error &) {
    // Memory for a thread may be what has failed. MPI_Abort still ends the run.
  }
  call.abort(world, code);
}

//===----------------------------------------------------------------------===//
// The interface
//===----------------------------------------------------------------------===//

template <typename Handle>
static StatusOr<std::unique_ptr<Communicator>>
startMPI(void *library, const Launch &launch, const ConnectOptions &options,
         const MPIConstants<Handle> &constants) {
  MPIFunctions<Handle> call;
  if (Status status = findFunctions(library, call); !status.ok())
    return status;
  auto communicator = std::make_unique<MPICommunicator<Handle>>(
      launch, call, constants, options.rankTimeout);
  if (Status status = communicator->start(); !status.ok())
    return status;
  return std::unique_ptr<Communicator>(std::move(communicator));
}

StatusOr<std::unique_ptr<Communicator>>
connectMPI(const Launch &launch, const ConnectOptions &options) {
  StatusOr<void *> library = loadMPI(launch);
  if (!library.ok())
    return library.status();
  if (isOpenMPI(*library))
    return startMPI(*library, launch, options, openMPIConstants(*library));
  return startMPI(*library, launch, options, mpichConstants());
}

std::vector<MPILibrary> findMPILibraries() {
  std::vector<const char *> names(std::begin(kOpenMPINames),
                                  std::end(kOpenMPINames));
  names.insert(names.end(), std::begin(kMPICHNames), std::end(kMPICHNames));
  if (const char *named = std::getenv("MPC_MPI_LIBRARY"))
    names = {named};
  std::vector<MPILibrary> found;
  for (const char *name : names) {
    // Several libraries at once must not see each other's symbols.
    void *library = dlopen(name, RTLD_LAZY | RTLD_LOCAL);
    if (!library)
      continue;
    const auto describe = reinterpret_cast<int (*)(char *, int *)>(
        dlsym(library, "MPI_Get_library_version"));
    std::string text(kMPIMaxText, '\0');
    int length = 0;
    if (!describe || describe(text.data(), &length) != kMPISuccess)
      continue;
    text.resize(static_cast<size_t>(length));
    found.push_back({name, text.substr(0, text.find_first_of(",\n"))});
  }
  return found;
}

} // namespace mpc::runtime
