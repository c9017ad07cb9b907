// SPDX-License-Identifier: Apache-2.0
#include "compiler/Support/PrintableText.h"

#include "runtime/capi/PrintableText.h"

#include "llvm/Support/JSON.h"

void mpc::blankControls(std::string &text, bool keepsLines) {
  runtime::blankControls(text, keepsLines);
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
