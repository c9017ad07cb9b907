// Tests the parsing of durations.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/support/Duration.h"

#include "test/runtime/train/Support.h"

#include <gtest/gtest.h>

namespace mpc::runtime::train {
namespace {

TEST(Duration, HasUnitsOrFields) {
  const std::pair<const char *, int64_t> cases[] = {{"90s", 90},
                                                    {"30m", 1800},
                                                    {"2h", 7200},
                                                    {"1d", 86400},
                                                    {"1h30m", 5400},
                                                    {"1d1s", 86401},
                                                    {"00:12:00:00", 43200},
                                                    {"01:02:03:04", 93784},
                                                    {"0:0:0:1", 1},
                                                    {"007s", 7}};
  for (const auto &[text, seconds] : cases)
    EXPECT_EQ(parseDuration(text)->count(), seconds) << text;
}

TEST(Duration, RefusesEverythingElse) {
  for (const char *text : {"",
                           "90",
                           "s",
                           "0s",
                           "1.5h",
                           "-1s",
                           "1m1h",
                           "1h1h",
                           "5x",
                           "1h ",
                           " 1h",
                           "12:00:00",
                           "00:00:00:00",
                           "1:2:3:4:5",
                           "1:2:3:",
                           ":::",
                           "1:-2:3:4",
                           "99999999999999999999s",
                           "9999999999d",
                           "36525d1s",
                           "1h30"})
    expectFailure(parseDuration(text).status(), StatusCode::Usage,
                  "found '" + std::string(text) + "'");
}

} // namespace
} // namespace mpc::runtime::train
