// Replaces characters that change how a terminal shows text. Names in models
// and files may have any characters.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_CAPI_PRINTABLETEXT_H
#define MPC_RUNTIME_CAPI_PRINTABLETEXT_H

#include <string>
#include <string_view>

namespace mpc::runtime {

/// Returns the bytes of the first character of `text` if it is not printable,
/// else 0.
inline size_t countBlanked(std::string_view text, bool keepsLines) {
  const auto at = [&](size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0;
  };
  // One byte: the control characters below U+0020, and U+007F.
  if (at(0) < 0x80)
    return (at(0) < 0x20 && !(at(0) == '\n' && keepsLines)) || at(0) == 0x7f;
  // Two bytes: the control characters U+0080 to U+009F, and the Arabic letter
  // mark U+061C.
  if ((at(0) == 0xc2 && at(1) >= 0x80 && at(1) < 0xa0) ||
      (at(0) == 0xd8 && at(1) == 0x9c))
    return 2;
  // Three bytes: marks of direction, separators of lines, and starts and ends
  // of text in another direction.
  const bool isMark = at(1) == 0x80 && (at(2) == 0x8e || at(2) == 0x8f);
  const bool isEmbedding = at(1) == 0x80 && at(2) >= 0xa8 && at(2) <= 0xae;
  const bool isIsolate = at(1) == 0x81 && at(2) >= 0xa6 && at(2) <= 0xa9;
  return at(0) == 0xe2 && (isMark || isEmbedding || isIsolate) ? 3 : 0;
}

/// Replaces control characters and marks of direction by spaces. Newlines stay
/// if `keepsLines`.
inline void blankControls(std::string &text, bool keepsLines) {
  size_t end = 0;
  for (size_t i = 0; i < text.size();) {
    const size_t blanked =
        countBlanked(std::string_view(text).substr(i), keepsLines);
    text[end++] = blanked > 0 ? ' ' : text[i];
    i += blanked > 0 ? blanked : 1;
  }
  text.resize(end);
}

} // namespace mpc::runtime

#endif // MPC_RUNTIME_CAPI_PRINTABLETEXT_H
