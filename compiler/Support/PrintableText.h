// Makes untrusted text safe to print on a terminal.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_SUPPORT_PRINTABLETEXT_H
#define MPC_COMPILER_SUPPORT_PRINTABLETEXT_H

#include "llvm/ADT/StringRef.h"

#include <string>

namespace mpc {

/// Replaces unsafe characters by spaces: control characters, including U+0080
/// to U+009F, and characters that end a line or change the direction of text.
/// The latter are U+061C, U+200E, U+200F, U+2028 to U+202E, and U+2066 to
/// U+2069. Keeps newlines if `keepsLines`.
void blankControls(std::string &text, bool keepsLines);

/// Makes a name fit for a line of text. Names come from models and files and
/// may have any bytes: invalid UTF-8 is replaced, and control characters,
/// including newlines, become spaces.
std::string toPrintable(llvm::StringRef name);

/// Cuts the middle out of a message of more than 5000 bytes. The start says
/// what failed, the end says what to do.
std::string abbreviate(llvm::StringRef text);

} // namespace mpc

#endif // MPC_COMPILER_SUPPORT_PRINTABLETEXT_H
