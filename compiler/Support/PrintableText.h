// Text that moves no terminal's cursor.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_SUPPORT_PRINTABLETEXT_H
#define MPC_COMPILER_SUPPORT_PRINTABLETEXT_H

#include "llvm/ADT/StringRef.h"

#include <string>

namespace mpc {

/// Makes a space of every control character, those of two bytes in UTF-8
/// (U+0080 to U+009F) included, and of what turns the direction of text around
/// or ends a line (U+061C, U+200E, U+200F, U+2028 to U+202E, U+2066 to U+2069);
/// `keepsLines` leaves the newline.
void blankControls(std::string &text, bool keepsLines);

/// A name as a part of one line. Names come from models and files, whose bytes
/// may be anything: what is not UTF-8 is replaced, and control characters,
/// the newline too, become spaces.
std::string toPrintable(llvm::StringRef name);

/// The text, without the middle of one that is thousands of bytes long: a
/// message says first what failed and last what to do.
std::string abbreviate(llvm::StringRef text);

} // namespace mpc

#endif // MPC_COMPILER_SUPPORT_PRINTABLETEXT_H
