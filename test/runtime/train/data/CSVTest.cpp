// Tests tables: the syntax of numbers, and the location of other values.
//
// SPDX-License-Identifier: Apache-2.0
#include "test/runtime/train/Support.h"

#include "runtime/train/data/CSV.h"

namespace mpc::runtime::train {
namespace {

void expectInvalidCSV(const std::string &text, const std::string &message) {
  expectFailure(parseCSV(text, "t.csv").status(), StatusCode::InvalidInput,
                message);
}

std::vector<Array> parseCSVText(const std::string &text) {
  StatusOr<std::vector<Array>> columns = parseCSV(text, "t.csv");
  EXPECT_TRUE(columns.ok()) << columns.status().message();
  return columns.ok() ? *columns : std::vector<Array>();
}

std::vector<double> valuesOf(const Array &array) {
  const auto *values = reinterpret_cast<const double *>(array.data);
  return {values, values + array.size()};
}

std::vector<std::string> namesOf(const std::vector<Array> &arrays) {
  std::vector<std::string> names;
  for (const Array &array : arrays)
    names.push_back(array.name);
  return names;
}

TEST(CSV, ShowsTheBeginningOfALineWithOtherSeparators) {
  std::string header = "p0";
  for (int i = 1; i < 784; ++i)
    header += ";p" + std::to_string(i);
  const Status status = parseCSV(header + "\n", "t.csv").status();
  expectFailure(status, StatusCode::InvalidInput,
                "bytes)'; columns have commas between them");
  EXPECT_LT(status.message().size(), 300u);
}

TEST(CSV, ReadsColumnsByTheNamesOfTheFirstLine) {
  const std::vector<Array> columns =
      parseCSVText("\xef\xbb\xbf"
                   "a, b ,\"c,\"\"d\"\r\n1,-2.5,+3e2\r\n\r\n4,\"5\",6");
  ASSERT_EQ(namesOf(columns), (std::vector<std::string>{"a", "b", "c,\"d"}));
  EXPECT_EQ(valuesOf(columns[0]), (std::vector<double>{1, 4}));
  EXPECT_EQ(valuesOf(columns[1]), (std::vector<double>{-2.5, 5}));
  EXPECT_EQ(valuesOf(columns[2]), (std::vector<double>{300, 6}));
}

TEST(CSV, LocatesValuesByLineAndColumn) {
  // The first record takes two lines, and an empty line is left out.
  const std::vector<Array> columns =
      parseCSVText("a,b,note\n1,2,\"x\ny\"\n\n3,4,z\n5,6,z\n");
  EXPECT_EQ(locate(columns[1], 0), "t.csv: line 2, column 'b'");
  EXPECT_EQ(locate(columns[1], 1), "t.csv: line 5, column 'b'");
  StatusOr<Array> stacked = stackColumns({columns[0], columns[1]}, "x");
  ASSERT_TRUE(stacked.ok()) << stacked.status().message();
  EXPECT_EQ(locate(*stacked), "t.csv: x");
  EXPECT_EQ(locate(*stacked, 4), "t.csv: line 6, column 'a'");
  EXPECT_EQ(locate(*stacked, 5), "t.csv: line 6, column 'b'");
  // The shape of an input changes nothing.
  stacked->shape = {3, 1, 2};
  EXPECT_EQ(locate(*stacked, 3), "t.csv: line 5, column 'b'");
}

TEST(CSV, LeavesOutTheIndexOfPandas) {
  EXPECT_EQ(namesOf(parseCSVText(",a\n0,1\n1,2\n")),
            std::vector<std::string>{"a"});
}

TEST(CSV, SaysWhatIsNoTable) {
  expectInvalidCSV("", "t.csv: the file is empty");
  expectInvalidCSV("a,b\n1\n", "line 2: has 1 values, the first line names 2");
  expectInvalidCSV("a,a\n1,2\n", "two columns are called 'a'");
  expectInvalidCSV("a,\n1,2\n", "column 2 has no name");
  expectInvalidCSV("1.5,2\n1,2\n", "the first line has the number 1.5");
  expectInvalidCSV("a;b\n1;2\n", "columns have commas between them");
  expectInvalidCSV("a\n\"1\n", "line 2: a quote that is not closed");
  expectInvalidCSV("a\n\"1\"2\n", "line 2: text after a closing quote");
}

TEST(CSV, KeepsWhatIsWrongInAColumnForItsUse) {
  const std::vector<Array> columns = parseCSVText(
      "good,gone,text,big\n1,2,x,9007199254740993\n\"2\",NA,3,1\n3,,4,2\n");
  EXPECT_EQ(columns[0].fault, "");
  EXPECT_EQ(columns[1].fault, "t.csv: line 3, column 'gone': a value is "
                              "missing; fill it in or leave the line out (2 "
                              "such values in the column)");
  EXPECT_EQ(columns[2].fault,
            "t.csv: line 2, column 'text': 'x' is not a finite number; encode "
            "text as numbers");
  EXPECT_EQ(columns[3].fault, "t.csv: line 2, column 'big': 9007199254740993 "
                              "has no exact value in f64");
  EXPECT_EQ(columns[1].size(), 0);
  expectFailure(stackColumns({columns[0], columns[1]}, "x").status(),
                StatusCode::InvalidInput, "column 'gone'");
}

TEST(CSV, CountsMissingValuesAndNamesAllColumnsThatHaveSome) {
  const std::vector<Array> columns =
      parseCSVText("a,b,c\n1,,x\n2,5,6\n3,,\n4,,7\n");
  EXPECT_EQ(columns[1].fault,
            "t.csv: line 2, column 'b': a value is missing; fill it in or "
            "leave the line out (3 such values in the column)");
  expectFailure(stackColumns(columns, "x").status(), StatusCode::InvalidInput,
                "(3 such values in the column); likewise in 'c'");
}

TEST(CSV, AnEmptyLineOfASingleColumnIsAMissingValue) {
  for (const char *text : {"a\n1\n\n2\n", "a\n\n1\n", "a\n1\n\"\"\n"})
    EXPECT_NE(parseCSVText(text)[0].fault.find("a value is missing"),
              std::string::npos)
        << text;
  EXPECT_EQ(valuesOf(parseCSVText("a\n1\n2\n\n \n")[0]),
            (std::vector<double>{1, 2}));
}

TEST(CSV, InfinityAndHexadecimalAreNoNumbers) {
  for (const char *text :
       {"inf", "-Infinity", "1e999", "0x10", "1_0", "1 2", "+-1", "++1"})
    EXPECT_NE(parseCSVText(std::string("a\n") + text + "\n")[0].fault, "")
        << text;
}

TEST(CSV, WhatIsTooSmallForADoubleIsZeroOrDenormal) {
  const std::vector<Array> columns =
      parseCSVText("a,b,c,d\n1e-400,-1e-400,4e-320,+1e-9999\n");
  const double expected[] = {0, -0.0, 4e-320, 0};
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(columns[i].fault, "");
    EXPECT_EQ(*reinterpret_cast<const double *>(columns[i].data), expected[i]);
  }
}

TEST(CSV, ChoosesNamesAndRanges) {
  const std::vector<Array> columns =
      parseCSVText("a,b,c,d,e:f\n1,2,3,4,5\n6,7,8,9,0\n");
  const auto choose = [&](const std::string &text) {
    return chooseColumns(columns, text);
  };
  EXPECT_EQ(namesOf(*choose("d,a:c,e:f")),
            (std::vector<std::string>{"d", "a", "b", "c", "e:f"}));
  expectFailure(choose("a,z").status(), StatusCode::InvalidInput,
                "no column is called 'z'; the file has 'a', 'b'");
  expectFailure(choose("c:a").status(), StatusCode::InvalidInput,
                "column 'a' is before 'c'");
  StatusOr<Array> stacked = stackColumns(*choose("b,a"), "x");
  ASSERT_TRUE(stacked.ok());
  EXPECT_EQ(stacked->shape, (Shape{2, 2}));
  EXPECT_EQ(valuesOf(*stacked), (std::vector<double>{2, 1, 7, 6}));
}

} // namespace
} // namespace mpc::runtime::train
