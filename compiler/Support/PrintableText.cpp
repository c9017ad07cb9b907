// SPDX-License-Identifier: Apache-2.0
#include "compiler/Support/PrintableText.h"

#include "llvm/Support/JSON.h"

void mpc::blankControls(std::string &text, bool keepsLines) {
  size_t end = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const auto next = i + 1 < text.size() ? text[i + 1] : '\0';
    // Of one byte, and of two: 0xc2 and another below 0xa0.
    const bool isLine = byte == '\n' && keepsLines;
    const bool isShort = (byte < 0x20 && !isLine) || byte == 0x7f;
    const bool isLong = byte == 0xc2 && (next & 0xe0) == 0x80;
    text[end++] = isShort || isLong ? ' ' : text[i];
    i += isLong;
  }
  text.resize(end);
}

std::string mpc::toPrintable(llvm::StringRef name) {
  std::string text = llvm::json::fixUTF8(name);
  blankControls(text, /*keepsLines=*/false);
  return text;
}
