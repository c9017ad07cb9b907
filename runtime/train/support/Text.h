// Numbers as people read them.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_TRAIN_SUPPORT_TEXT_H
#define MPC_RUNTIME_TRAIN_SUPPORT_TEXT_H

#include <cstdint>
#include <string>

namespace mpc::runtime::train {

/// "1 sample", "2 samples".
std::string counted(int64_t count, const std::string &noun);

/// A loss scale: "65536", "2^-14", "0.3".
std::string formatScale(double value);

/// A loss or another figure to six digits: "0.6931", "inf", and "nan" whichever
/// sign the NaN has.
std::string formatFigure(double value);

/// Milliseconds to three digits, and no fewer than there are before the point:
/// "0.493", "12.5", "1060".
std::string formatMilliseconds(double value);

/// "0.4 s", "0:14", "12:03", "1:02:03", "2 d 3:04"; empty for what is no time.
std::string formatDuration(double seconds);

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_SUPPORT_TEXT_H
