// Tests the parsing of durations.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/support/Duration.h"

#include <gtest/gtest.h>

namespace mpc::runtime::train {
namespace {

// Returns the seconds of `text`; -1 if it is no duration.
int64_t secondsOf(std::string_view text) {
  const StatusOr<std::chrono::seconds> duration = parseDuration(text);
  if (duration.ok())
    return duration->count();
  EXPECT_EQ(duration.status().getCode(), StatusCode::Usage);
  return -1;
}

TEST(Duration, UnitsGetSmaller) {
  EXPECT_EQ(secondsOf("90s"), 90);
  EXPECT_EQ(secondsOf("1h30m"), 5400);
  EXPECT_EQ(secondsOf("1d2h3m4s"), 93784);
  EXPECT_EQ(secondsOf("30m1h"), -1);
  EXPECT_EQ(secondsOf("1h1h"), -1);
}

TEST(Duration, FieldsAreDaysToSeconds) {
  EXPECT_EQ(secondsOf("01:02:03:04"), 93784);
  EXPECT_EQ(secondsOf("02:03:04"), -1);
  EXPECT_EQ(secondsOf("1:2:3:4:5"), -1);
}

TEST(Duration, OtherTextsAreUsageErrors) {
  for (const char *text : {"", "soon", "90", "1.5h", "-1h", "1h ", "h", "0s"})
    EXPECT_EQ(secondsOf(text), -1) << text;
  EXPECT_EQ(secondsOf("36525d"), int64_t(36525) * 86400);
  EXPECT_EQ(secondsOf("36526d"), -1);
  EXPECT_EQ(secondsOf("9223372036854775807d"), -1);
}

} // namespace
} // namespace mpc::runtime::train
