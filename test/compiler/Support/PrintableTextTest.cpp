// Tests untrusted text in terminal output.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Support/PrintableText.h"

#include <gtest/gtest.h>

using namespace mpc;

TEST(PrintableText, ControlsAreSpaces) {
  EXPECT_EQ(toPrintable("a\x1b[2J\n\x7f\u0085b"), "a [2J   b");
  std::string lines = "a\n\tb";
  blankControls(lines, /*keepsLines=*/true);
  EXPECT_EQ(lines, "a\n b");
}

TEST(PrintableText, WhatTurnsTheDirectionAroundIsASpace) {
  for (const char *mark :
       {"\u061c", "\u200e", "\u200f", "\u2028", "\u2029", "\u202a", "\u202b",
        "\u202c", "\u202d", "\u202e", "\u2066", "\u2067", "\u2068", "\u2069"})
    EXPECT_EQ(toPrintable("a" + std::string(mark) + "gpj.exe"), "a gpj.exe");
}

TEST(PrintableText, OtherTextIsAsItWas) {
  // Neighbours of blanked characters, and right-to-left words.
  const std::string text = "\u00a0\u061b\u200d\u2010\u2027\u202f\u2065\u206a"
                           "\u05e9\u05dc\u05d5\u05dd \u00e9\u4e2d\U0001f600";
  EXPECT_EQ(toPrintable(text), text);
}

TEST(PrintableText, LongTextLosesItsMiddle) {
  const std::string path(4096, 'p');
  EXPECT_EQ(abbreviate(path), path);
  const std::string text =
      "--freeze: '" + std::string(120000, 'x') + "' is not an expression";
  const std::string shown = abbreviate(text);
  EXPECT_LT(shown.size(), 2100u);
  EXPECT_EQ(shown.rfind("--freeze: 'xx", 0), 0u);
  EXPECT_NE(shown.find("more bytes"), std::string::npos);
  EXPECT_EQ(shown.substr(shown.size() - 22), "' is not an expression");
}
