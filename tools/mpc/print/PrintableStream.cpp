// SPDX-License-Identifier: Apache-2.0
#include "tools/mpc/print/PrintableStream.h"

#include "compiler/Support/PrintableText.h"

#include <sys/ioctl.h>
#include <unistd.h>

using namespace mpc::tools;

unsigned mpc::tools::getColumnsOfStdout() {
  winsize size = {};
  bool isTerminal = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0;
  return isTerminal ? size.ws_col : 0;
}

std::string mpc::tools::printable(llvm::StringRef message) {
  return toPrintable(abbreviate(message));
}

void PrintableStream::write_impl(const char *text, size_t size) {
  std::string line(text, size);
  blankControls(line, /*keepsLines=*/true);
  os << line;
}
