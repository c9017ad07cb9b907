// SPDX-License-Identifier: Apache-2.0
#include "compiler/Support/PrintableText.h"

#include "llvm/Support/JSON.h"

/// Returns the bytes of the first character of `text` if it is not printable,
/// else 0.
static size_t countBlanked(llvm::StringRef text, bool keepsLines) {
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

void mpc::blankControls(std::string &text, bool keepsLines) {
  size_t end = 0;
  for (size_t i = 0; i < text.size();) {
    const size_t blanked =
        countBlanked(llvm::StringRef(text).substr(i), keepsLines);
    text[end++] = blanked > 0 ? ' ' : text[i];
    i += blanked > 0 ? blanked : 1;
  }
  text.resize(end);
}

std::string mpc::abbreviate(llvm::StringRef text) {
  // A file's path, at most 4096 bytes, must stay whole in a message.
  constexpr size_t kLongest = 5000, kEnd = 1000;
  if (text.size() <= kLongest)
    return text.str();
  return (text.take_front(kEnd) + " ... (" +
          llvm::Twine(text.size() - 2 * kEnd) + " more bytes) ... " +
          text.take_back(kEnd))
      .str();
}

std::string mpc::toPrintable(llvm::StringRef name) {
  std::string text = llvm::json::fixUTF8(name);
  blankControls(text, /*keepsLines=*/false);
  return text;
}
