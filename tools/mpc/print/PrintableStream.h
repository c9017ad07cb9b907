// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TOOLS_MPC_PRINT_PRINTABLESTREAM_H
#define MPC_TOOLS_MPC_PRINT_PRINTABLESTREAM_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/raw_ostream.h"

#include <string>

namespace mpc::tools {

/// Prints lines to a terminal. Replaces control characters except newlines by
/// spaces, since names in models and files may have any bytes. Pass a name
/// through `printable` first: a newline in the name would start a new line.
class PrintableStream : public llvm::raw_ostream {
public:
  explicit PrintableStream(llvm::raw_ostream &os)
      : raw_ostream(/*unbuffered=*/true), os(os) {}

private:
  void write_impl(const char *text, size_t size) override;
  uint64_t current_pos() const override { return os.tell(); }

  llvm::raw_ostream &os;
};

/// Returns the width in columns of the terminal on stdout; 0 if stdout is no
/// terminal.
unsigned getColumnsOfStdout();

/// Returns `message` as one line: replaces control characters and newlines, and
/// abbreviates long text. Names in models may have any bytes, and values of
/// flags any length.
std::string printable(llvm::StringRef message);

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_PRINT_PRINTABLESTREAM_H
