// Tests that patterns are matched anywhere in names, and are bounded.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Support/NamePattern.h"

#include <gtest/gtest.h>

using namespace mpc;

static std::string repeat(llvm::StringRef text, size_t times) {
  std::string result;
  for (size_t i = 0; i < times; ++i)
    result += text;
  return result;
}

TEST(NamePatternTest, IsLookedForAnywhere) {
  const NamePattern pattern("fc[12]\\.weight$");
  EXPECT_EQ(pattern.getError(), "");
  EXPECT_TRUE(pattern.match("model.fc1.weight"));
  EXPECT_FALSE(pattern.match("model.fc3.weight"));
}

TEST(NamePatternTest, SaysWhyATextIsNone) {
  const NamePattern pattern("[");
  EXPECT_EQ(pattern.getError(),
            "'[' is not a regular expression: brackets ([ ]) not balanced");
  EXPECT_FALSE(pattern.match("["));
  EXPECT_EQ(NamePattern("^(?!fc)").getError(),
            "'^(?!fc)' is not a regular expression: repetition-operator "
            "operand invalid; help: (?...) is no part of POSIX's extended "
            "expressions, so there is no look-ahead; name what to match "
            "instead");
}

TEST(NamePatternTest, TakesAsManyGroupsAsAreAllowed) {
  const NamePattern nested(repeat("(", 1000) + "x" + repeat(")", 1000));
  EXPECT_EQ(nested.getError(), "");
  EXPECT_TRUE(nested.match("max"));
  const NamePattern list("^(" + repeat("layer\\.[0-9]+\\.weight|", 2900) +
                         "x)$");
  EXPECT_EQ(list.getError(), "");
  EXPECT_TRUE(list.match("layer.7.weight"));
}

TEST(NamePatternTest, RefusesDeepNesting) {
  const NamePattern pattern(repeat("(", 60000));
  EXPECT_EQ(pattern.getError(), "'" + repeat("(", 40) + "..." +
                                    repeat("(", 40) +
                                    "' is not a regular expression: found "
                                    "60000 opening parentheses, expected at "
                                    "most 1000");
  EXPECT_FALSE(pattern.match("("));
}

TEST(NamePatternTest, RefusesLongText) {
  EXPECT_EQ(NamePattern(repeat("x", 65536)).getError(), "");
  EXPECT_TRUE(NamePattern(repeat("x", 65537))
                  .getError()
                  .ends_with("found 65537 bytes, expected at most 65536"));
}

TEST(NamePatternTest, RefusesRepetitionsThatFillTheMemory) {
  EXPECT_TRUE(
      NamePattern("^(layer\\.[0-9]{1,2}\\.){2}").match("layer.1.layer.22."));
  EXPECT_TRUE(NamePattern("(((a{255}){255}){255}){255}")
                  .getError()
                  .ends_with("characters, expected at most 100000"));
  // The count is too large for an integer, or is not a count.
  EXPECT_NE(NamePattern("a{99999999999999999999}").getError(), "");
  EXPECT_TRUE(NamePattern("a\\{b").match("a{b"));
}

TEST(NamePatternTest, RefusesBackReferences) {
  EXPECT_TRUE(NamePattern("(a|b)*\\1")
                  .getError()
                  .ends_with("found the back-reference \\1, expected none"));
  EXPECT_TRUE(NamePattern("a\\\\1").match("a\\1"));
}
