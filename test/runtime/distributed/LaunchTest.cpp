// Tests how a process finds its rank from the variables of launchers.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/distributed/Launch.h"

#include <gtest/gtest.h>
#include <map>

using namespace mpc::runtime;

namespace {

using Variables = std::map<std::string, std::string>;

StatusOr<Launch> findLaunch(const Variables &variables, int ranks = 0) {
  return Launch::find(
      [&](const char *name) -> const char * {
        const auto found = variables.find(name);
        return found == variables.end() ? nullptr : found->second.c_str();
      },
      ranks);
}

Variables torchrunVariables() {
  return {{"RANK", "5"},
          {"WORLD_SIZE", "8"},
          {"LOCAL_RANK", "1"},
          {"LOCAL_WORLD_SIZE", "4"},
          {"MASTER_ADDR", "node0"},
          {"MASTER_PORT", "29500"}};
}

Variables slurmVariables() {
  return {
      {"SLURM_PROCID", "5"},         {"SLURM_STEP_ID", "0"},
      {"SLURM_STEP_NUM_TASKS", "7"}, {"SLURM_LOCALID", "1"},
      {"SLURM_NODEID", "2"},         {"SLURM_STEP_TASKS_PER_NODE", "2(x3),1"}};
}

/// Expects a Usage error whose message begins with `variable`.
void expectUsage(const Variables &variables, const std::string &variable,
                 int ranks = 0) {
  const StatusOr<Launch> launch = findLaunch(variables, ranks);
  ASSERT_FALSE(launch.ok());
  EXPECT_EQ(launch.status().getCode(), StatusCode::Usage);
  EXPECT_EQ(launch.status().message().rfind(variable, 0), 0u)
      << launch.status().message();
}

} // namespace

TEST(Launch, withoutLauncherThereIsOneRank) {
  const StatusOr<Launch> launch = findLaunch({{"RANK", "x"}, {"HOME", "/"}});
  ASSERT_TRUE(launch.ok());
  EXPECT_EQ(launch->launcher, Launcher::None);
  EXPECT_EQ(launch->rank, 0);
  EXPECT_EQ(launch->size, 1);
  EXPECT_TRUE(launch->variables.empty());
}

TEST(Launch, torchrun) {
  const StatusOr<Launch> launch = findLaunch(torchrunVariables());
  ASSERT_TRUE(launch.ok());
  EXPECT_EQ(launch->launcher, Launcher::TorchRun);
  EXPECT_EQ(launch->rank, 5);
  EXPECT_EQ(launch->size, 8);
  EXPECT_EQ(launch->localRank, 1);
  EXPECT_EQ(launch->localSize, 4);
  EXPECT_EQ(launch->masterAddress, "node0");
  EXPECT_EQ(launch->masterPort, 29500);
  EXPECT_EQ(launch->variables.size(), 6u);
}

TEST(Launch, kubeflowSetsNoLocalRank) {
  Variables variables = torchrunVariables();
  variables.erase("LOCAL_RANK");
  variables.erase("LOCAL_WORLD_SIZE");
  const StatusOr<Launch> launch = findLaunch(variables);
  ASSERT_TRUE(launch.ok());
  EXPECT_EQ(launch->rank, 5);
  EXPECT_EQ(launch->localRank, 0);
  EXPECT_EQ(launch->localSize, 1);
}

TEST(Launch, openMPI) {
  const StatusOr<Launch> launch =
      findLaunch({{"OMPI_COMM_WORLD_RANK", "3"},
                  {"OMPI_COMM_WORLD_SIZE", "4"},
                  {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                  {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                  {"SLURM_PROCID", "0"},
                  {"SLURM_STEP_ID", "0"},
                  {"SLURM_STEP_NUM_TASKS", "1"}});
  ASSERT_TRUE(launch.ok());
  EXPECT_EQ(launch->launcher, Launcher::OpenMPI);
  EXPECT_EQ(launch->rank, 3);
  EXPECT_EQ(launch->size, 4);
  EXPECT_EQ(launch->localRank, 1);
  EXPECT_EQ(launch->localSize, 2);
}

TEST(Launch, mpich) {
  const StatusOr<Launch> launch = findLaunch({{"PMI_RANK", "1"},
                                              {"PMI_SIZE", "2"},
                                              {"MPI_LOCALRANKID", "1"},
                                              {"MPI_LOCALNRANKS", "2"}});
  ASSERT_TRUE(launch.ok());
  EXPECT_EQ(launch->launcher, Launcher::PMI);
  EXPECT_EQ(launch->rank, 1);
  EXPECT_EQ(launch->localSize, 2);
}

TEST(Launch, srun) {
  Variables variables = slurmVariables();
  StatusOr<Launch> launch = findLaunch(variables);
  ASSERT_TRUE(launch.ok());
  EXPECT_EQ(launch->launcher, Launcher::Slurm);
  EXPECT_EQ(launch->rank, 5);
  EXPECT_EQ(launch->size, 7);
  EXPECT_EQ(launch->localSize, 2);
  variables["SLURM_NODEID"] = "3";
  variables["SLURM_LOCALID"] = "0";
  launch = findLaunch(variables);
  ASSERT_TRUE(launch.ok());
  EXPECT_EQ(launch->localSize, 1);
}

TEST(Launch, batchScriptOfSlurmIsOneRank) {
  const StatusOr<Launch> launch = findLaunch(
      {{"SLURM_PROCID", "0"}, {"SLURM_LOCALID", "0"}, {"SLURM_NTASKS", "4"}});
  ASSERT_TRUE(launch.ok());
  EXPECT_EQ(launch->size, 1);
}

TEST(Launch, firstCompleteRowWins) {
  Variables variables = slurmVariables();
  for (const auto &[name, value] : torchrunVariables())
    variables[name] = value;
  EXPECT_EQ(findLaunch(variables)->launcher, Launcher::TorchRun);
  variables.erase("MASTER_PORT");
  EXPECT_EQ(findLaunch(variables)->launcher, Launcher::Slurm);
}

TEST(Launch, rowsThatLackAVariableAreNamed) {
  Variables variables = torchrunVariables();
  variables.erase("MASTER_PORT");
  EXPECT_EQ(findLaunch(variables)->incomplete,
            "RANK and WORLD_SIZE are set, but MASTER_PORT is not");
  EXPECT_EQ(findLaunch(variables, 1)->incomplete, "");
  variables["WORLD_SIZE"] = "1";
  EXPECT_EQ(findLaunch(variables)->incomplete, "");
  variables["WORLD_SIZE"] = "8";
  variables["OMPI_COMM_WORLD_RANK"] = "0";
  EXPECT_NE(findLaunch(variables)->incomplete, "");
  // A later row is complete.
  variables["OMPI_COMM_WORLD_SIZE"] = "2";
  const StatusOr<Launch> launch = findLaunch(variables);
  EXPECT_EQ(launch->launcher, Launcher::OpenMPI);
  EXPECT_EQ(launch->incomplete, "");
}

TEST(Launch, impossibleValuesNameTheirVariable) {
  for (const char *bad : {"-1", "8", "x", "", "1 ", "99999999999", "0x1"}) {
    Variables variables = torchrunVariables();
    variables["RANK"] = bad;
    expectUsage(variables, "RANK=");
  }
  for (const auto &[name, bad] :
       {std::pair("WORLD_SIZE", "0"), std::pair("WORLD_SIZE", "65537"),
        std::pair("LOCAL_RANK", "4"), std::pair("LOCAL_WORLD_SIZE", "1"),
        std::pair("LOCAL_WORLD_SIZE", "9"),
        std::pair("MASTER_PORT", "65536")}) {
    Variables variables = torchrunVariables();
    variables[name] = bad;
    expectUsage(variables, name == std::string("LOCAL_RANK")
                               ? "LOCAL_WORLD_SIZE="
                               : std::string(name) + "=");
  }
  for (const char *bad : {"2", "2(x", "2(x0),2", "(x4)", "2(x4)x", ",", "0(x9)",
                          "8(x4)", "2(x4"}) {
    Variables variables = slurmVariables();
    variables["SLURM_STEP_TASKS_PER_NODE"] = bad;
    expectUsage(variables, "SLURM_STEP_TASKS_PER_NODE=");
  }
}

TEST(Launch, localRankNeedsTheNumberOfLocalRanks) {
  Variables variables = torchrunVariables();
  variables.erase("LOCAL_WORLD_SIZE");
  expectUsage(variables, "LOCAL_RANK is set");
}

TEST(Launch, askedNumberOfRanks) {
  EXPECT_EQ(findLaunch(torchrunVariables(), 8)->size, 8);
  const StatusOr<Launch> one = findLaunch(torchrunVariables(), 1);
  ASSERT_TRUE(one.ok());
  EXPECT_EQ(one->size, 1);
  EXPECT_EQ(one->launcher, Launcher::None);
  expectUsage(torchrunVariables(), "asked for 4 ranks, but torchrun", 4);
  expectUsage({}, "asked for 4 ranks, but no launcher", 4);
}
