// Tests column widths, and texts that terminals can show.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Support/TextTable.h"

#include <gtest/gtest.h>

using namespace mpc;
using Align = TextTable::Align;

static std::string print(const TextTable &table, unsigned width = 0) {
  std::string text;
  llvm::raw_string_ostream os(text);
  table.print(os, width);
  return text;
}

TEST(TextTable, ColumnsAreAsWideAsTheirTexts) {
  TextTable table({Align::Left, Align::Right});
  table.addRow({"node", "n"});
  table.addRow({"/encoder/layer.0/attention/MatMul", "12"});
  EXPECT_EQ(print(table), "node                                n\n"
                          "/encoder/layer.0/attention/MatMul  12\n");
}

TEST(TextTable, TheFirstColumnMakesRoomKeepingBothEnds) {
  TextTable table({Align::Left, Align::Left});
  table.addRow({"/encoder/layer.0/attention/MatMul", "bf16"});
  std::string text;
  llvm::raw_string_ostream os(text);
  EXPECT_TRUE(table.print(os, 30));
  EXPECT_EQ(text, "/encode...tention/MatMul  bf16\n");
}

TEST(TextTable, WhatFitsIsWhole) {
  TextTable table({Align::Left, Align::Left});
  table.addRow({"/encoder/layer.0", "bf16"});
  std::string text;
  llvm::raw_string_ostream os(text);
  EXPECT_FALSE(table.print(os, 22));
  EXPECT_EQ(text, "/encoder/layer.0  bf16\n");
}

TEST(TextTable, NamesStayRecognisableOnNarrowTerminals) {
  TextTable table({Align::Left, Align::Left});
  table.addRow({"/encoder/layer.0/attention/MatMul", "bf16"});
  EXPECT_EQ(print(table, 5), "/enc...on/MatMul  bf16\n");
}

TEST(TextTable, CharactersCountAsWhatTheyTake) {
  TextTable table({Align::Left, Align::Left});
  table.addRow({"f\xc3\xbc", "x"});
  table.addRow({"\xe5\xb1\xa4", "x"});
  table.addRow({"abcd", "x"});
  EXPECT_EQ(print(table), "f\xc3\xbc    x\n"
                          "\xe5\xb1\xa4    x\n"
                          "abcd  x\n");
}

TEST(TextTable, BytesOfAnyKindAreOneLineOfText) {
  TextTable table({Align::Left, Align::Left});
  table.addRow({"a\nb\x1b[31m\xff", "x"});
  EXPECT_EQ(print(table), "a b [31m\xef\xbf\xbd  x\n");
}
