// Tests suggestions for unknown names.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Support/NearestNames.h"

#include <gtest/gtest.h>

using namespace mpc;

TEST(NearestNamesTest, FindsTheNameWithASlip) {
  EXPECT_EQ(findNearestName("optimiser", {"output", "optimizer"}), "optimizer");
  EXPECT_EQ(findNearestName("batch_size", {"batch-size"}), "batch-size");
}

TEST(NearestNamesTest, FindsNoneThatIsOtherwiseDifferent) {
  EXPECT_EQ(findNearestName("epochs", {"lr", "data"}), "");
  EXPECT_EQ(findNearestName("x", {"lr"}), "");
}

TEST(NearestNamesTest, TakesAnotherWordForNoSlip) {
  EXPECT_EQ(findNearestName("dice", {"bce"}), "");
  EXPECT_EQ(findNearestName("find-lr", {"min-lr"}), "");
  EXPECT_EQ(findNearestName("optimsier", {"optimizer"}), "optimizer");
  EXPECT_EQ(findNearestName("trian", {"train"}), "train");
  EXPECT_EQ(findNearestName("bse", {"bce"}), "bce");
}

TEST(NearestNamesTest, ListsNamesThatHoldThePatternFirst) {
  EXPECT_EQ(listNearestNames("^fc9$", {"conv", "fc", "model.fc9.weight"}),
            "'model.fc9.weight', 'fc', 'conv'");
}

TEST(NearestNamesTest, ListsANameOnce) {
  EXPECT_EQ(listNearestNames("a", {"b", "b"}), "'b'");
}

TEST(NearestNamesTest, ListsEightAndCountsTheOthers) {
  std::vector<std::string> names;
  for (char c = 'a'; c < 'k'; ++c)
    names.push_back(std::string(1, c));
  EXPECT_EQ(listNearestNames("?", names),
            "'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h' and 2 others");
}

TEST(NearestNamesTest, SaysThatThereIsNone) {
  EXPECT_EQ(listNearestNames("a", {}), "none");
}
