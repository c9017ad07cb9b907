// Formats numbers for people.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_TRAIN_SUPPORT_TEXT_H
#define MPC_RUNTIME_TRAIN_SUPPORT_TEXT_H

#include <cstdint>
#include <string>
#include <vector>

namespace mpc::runtime::train {

/// Returns "1 sample", "2 samples".
std::string counted(int64_t count, const std::string &noun);

/// Returns the texts with commas between them: "f1,auc".
std::string joined(const std::vector<std::string> &texts);

/// Formats a loss scale: "65536", "2^-14", "0.3".
std::string formatScale(double value);

/// Formats a loss or another figure to six digits: "0.6931", "inf", and "nan"
/// for a NaN of either sign.
std::string formatFigure(double value);

/// Formats milliseconds to three digits, or to more if the integer part needs
/// them: "0.493", "12.5", "1060".
std::string formatMilliseconds(double value);

/// Formats a duration: "0.4 s", "0:14", "12:03", "1:02:03", "2 d 3:04"; empty
/// for negative, NaN or huge values.
std::string formatDuration(double seconds);

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_SUPPORT_TEXT_H
