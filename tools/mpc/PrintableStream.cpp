// SPDX-License-Identifier: Apache-2.0
#include "tools/mpc/PrintableStream.h"

#include "llvm/Support/JSON.h"

#include <sys/ioctl.h>
#include <unistd.h>

using namespace mpc::tools;

unsigned mpc::tools::getColumnsOfStdout() {
  winsize size = {};
  bool isTerminal = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0;
  return isTerminal ? size.ws_col : 0;
}

bool mpc::tools::isControl(char c) {
  return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
}

std::string mpc::tools::printable(llvm::StringRef message) {
  std::string text = llvm::json::fixUTF8(message);
  for (char &c : text)
    if (isControl(c))
      c = ' ';
  return text;
}

void PrintableStream::write_impl(const char *text, size_t size) {
  std::string line(text, size);
  for (char &c : line)
    if (isControl(c) && c != '\n')
      c = ' ';
  os << line;
}
