// SPDX-License-Identifier: Apache-2.0
#include "runtime/distributed/Launch.h"

#include <charconv>
#include <cstdlib>
#include <limits>
#include <optional>

namespace mpc::runtime {

/// More ranks are a mistake: rank 0 has a socket for each.
static constexpr int kMostRanks = 1 << 16;

namespace {

/// The variables of a launcher; null for a value without a variable.
struct LauncherRow {
  Launcher launcher;
  std::string_view name;
  const char *rank, *size; ///< the row is complete if both are set
  const char *localRank, *localSize;
  const char *masterAddress, *masterPort;
  /// Variables that must also be set, since RANK is a common name.
  std::vector<const char *> others;
};

/// Reads the variables of a row, and remembers the names.
class RowReader {
public:
  RowReader(const LauncherRow &row, const VariableLookup &lookup)
      : row(row), lookup(lookup) {}

  StatusOr<Launch> read();

private:
  const char *find(const char *name) {
    const char *text = name ? lookup(name) : nullptr;
    if (text)
      launch.variables.emplace_back(name);
    return text;
  }
  Status readNumber(const char *name, int least, int most, int &value);
  Status readLocalSize();

  const LauncherRow &row;
  const VariableLookup &lookup;
  Launch launch;
};

} // namespace

// In order of precedence. Slurm's row is last, since mpirun and torchrun may
// run in a Slurm job. Slurm sets the number of tasks of a step for processes of
// srun, not for the batch script.
static const std::vector<LauncherRow> &launcherRows() {
  static const std::vector<LauncherRow> rows = {
      {Launcher::TorchRun,
       "torchrun",
       "RANK",
       "WORLD_SIZE",
       "LOCAL_RANK",
       "LOCAL_WORLD_SIZE",
       "MASTER_ADDR",
       "MASTER_PORT",
       {"MASTER_ADDR", "MASTER_PORT"}},
      {Launcher::OpenMPI,
       "mpirun of Open MPI",
       "OMPI_COMM_WORLD_RANK",
       "OMPI_COMM_WORLD_SIZE",
       "OMPI_COMM_WORLD_LOCAL_RANK",
       "OMPI_COMM_WORLD_LOCAL_SIZE",
       "MASTER_ADDR",
       "MASTER_PORT",
       {}},
      {Launcher::PMI,
       "mpirun of MPICH",
       "PMI_RANK",
       "PMI_SIZE",
       "MPI_LOCALRANKID",
       "MPI_LOCALNRANKS",
       "MASTER_ADDR",
       "MASTER_PORT",
       {"MPI_LOCALRANKID"}},
      {Launcher::Slurm,
       "srun",
       "SLURM_PROCID",
       "SLURM_STEP_NUM_TASKS",
       "SLURM_LOCALID",
       "SLURM_STEP_TASKS_PER_NODE",
       "MASTER_ADDR",
       "MASTER_PORT",
       {"SLURM_STEP_ID"}},
  };
  return rows;
}

/// Parses a whole number in decimal digits; nullopt for anything else.
static std::optional<int> parseCount(std::string_view text) {
  int value = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size())
    return std::nullopt;
  return value;
}

static Status badVariable(const char *name, std::string_view text,
                          const std::string &expected, const LauncherRow &row) {
  return Status(StatusCode::Usage,
                std::string(name) + "='" + std::string(text) + "': expected " +
                    expected + "; " + std::string(row.name) +
                    " sets this variable; unset it to train on one rank");
}

Status RowReader::readNumber(const char *name, int least, int most,
                             int &value) {
  const char *text = find(name);
  if (!text)
    return Status();
  const std::optional<int> number = parseCount(text);
  if (!number || *number < least || *number > most)
    return badVariable(name, text,
                       most == std::numeric_limits<int>::max()
                           ? "a whole number from " + std::to_string(least)
                           : "a whole number from " + std::to_string(least) +
                                 " to " + std::to_string(most),
                       row);
  value = *number;
  return Status();
}

/// Returns the entry `node` of a list in Slurm's format: "2(x3),1" stands for
/// 2, 2, 2, 1. nullopt if the text is no list, or too short.
static std::optional<int> findNodeTasks(std::string_view text, int node) {
  while (!text.empty()) {
    const std::string_view entry = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), entry.size() + 1));
    const size_t times = entry.find("(x");
    const std::optional<int> tasks = parseCount(entry.substr(0, times));
    std::optional<int> nodes = 1;
    if (times != std::string_view::npos && entry.back() == ')')
      nodes = parseCount(entry.substr(times + 2, entry.size() - times - 3));
    else if (times != std::string_view::npos)
      return std::nullopt;
    if (!tasks || !nodes || *nodes < 1)
      return std::nullopt;
    if (node < *nodes)
      return tasks;
    node -= *nodes;
  }
  return std::nullopt;
}

Status RowReader::readLocalSize() {
  if (row.launcher != Launcher::Slurm)
    return readNumber(row.localSize, launch.localRank + 1, launch.size,
                      launch.localSize);
  const char *text = find(row.localSize);
  int node = 0;
  if (Status status =
          readNumber("SLURM_NODEID", 0, std::numeric_limits<int>::max(), node);
      !status.ok() || !text)
    return status;
  const std::optional<int> tasks = findNodeTasks(text, node);
  if (!tasks || *tasks <= launch.localRank || *tasks > launch.size)
    return badVariable(row.localSize, text,
                       "the tasks of each machine, such as 4(x2),1, more than "
                       "SLURM_LOCALID on machine SLURM_NODEID=" +
                           std::to_string(node),
                       row);
  launch.localSize = *tasks;
  return Status();
}

StatusOr<Launch> RowReader::read() {
  launch.launcher = row.launcher;
  if (Status status = readNumber(row.size, 1, kMostRanks, launch.size);
      !status.ok())
    return status;
  if (Status status = readNumber(row.rank, 0, launch.size - 1, launch.rank);
      !status.ok())
    return status;
  if (Status status =
          readNumber(row.localRank, 0, launch.size - 1, launch.localRank);
      !status.ok())
    return status;
  // Without a number of local ranks, each rank would take all cores of the
  // machine.
  if (launch.localRank > 0 && !lookup(row.localSize))
    return Status(StatusCode::Usage,
                  std::string(row.localRank) + " is set, but " + row.localSize +
                      " is not; set it to the number of ranks on this machine");
  if (Status status = readLocalSize(); !status.ok())
    return status;
  if (const char *address = find(row.masterAddress))
    launch.masterAddress = address;
  if (Status status = readNumber(row.masterPort, 1, 65535, launch.masterPort);
      !status.ok())
    return status;
  return std::move(launch);
}

std::string_view nameOf(Launcher launcher) {
  for (const LauncherRow &row : launcherRows())
    if (row.launcher == launcher)
      return row.name;
  return "no launcher";
}

/// Returns the first variable that a row lacks; null if the row is complete.
static const char *findMissing(const LauncherRow &row,
                               const VariableLookup &lookup) {
  for (const char *name : {row.rank, row.size})
    if (!lookup(name))
      return name;
  for (const char *name : row.others)
    if (!lookup(name))
      return name;
  return nullptr;
}

/// Describes a row that has a rank and several ranks, but lacks `missing`;
/// empty for other rows.
static std::string describeGap(const LauncherRow &row, std::string_view missing,
                               const VariableLookup &lookup) {
  if (missing == row.rank || missing == row.size ||
      parseCount(lookup(row.size)).value_or(0) <= 1)
    return "";
  return std::string(row.rank) + " and " + row.size + " are set, but " +
         std::string(missing) + " is not";
}

StatusOr<Launch> Launch::find(const VariableLookup &lookup, int ranks) {
  Launch launch;
  if (ranks == 1)
    return launch;
  for (const LauncherRow &row : launcherRows()) {
    if (const char *missing = findMissing(row, lookup)) {
      if (launch.incomplete.empty())
        launch.incomplete = describeGap(row, missing, lookup);
      continue;
    }
    StatusOr<Launch> found = RowReader(row, lookup).read();
    if (!found.ok())
      return found;
    launch = *found;
    break;
  }
  if (ranks == 0 || ranks == launch.size)
    return launch;
  std::string message = "asked for " + std::to_string(ranks) + " ranks, but ";
  if (launch.launcher == Launcher::None)
    message += "no launcher has started this process; start mpc by torchrun "
               "--no-python, mpirun or srun";
  else
    message += std::string(nameOf(launch.launcher)) + " has started " +
               std::to_string(launch.size) +
               "; give the launcher the same number";
  return Status(StatusCode::Usage, message);
}

StatusOr<Launch> Launch::find(int ranks) {
  return find([](const char *name) { return std::getenv(name); }, ranks);
}

} // namespace mpc::runtime
