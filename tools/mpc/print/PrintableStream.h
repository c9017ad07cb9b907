// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TOOLS_MPC_PRINT_PRINTABLESTREAM_H
#define MPC_TOOLS_MPC_PRINT_PRINTABLESTREAM_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/raw_ostream.h"

#include <string>

namespace mpc::tools {

/// Prints lines of text for a terminal. Names from models and files may have
/// any bytes: control characters except newlines become spaces. Pass names
/// through `printable` first, since their newlines would begin lines.
class PrintableStream : public llvm::raw_ostream {
public:
  explicit PrintableStream(llvm::raw_ostream &os)
      : raw_ostream(/*unbuffered=*/true), os(os) {}

private:
  void write_impl(const char *text, size_t size) override;
  uint64_t current_pos() const override { return os.tell(); }

  llvm::raw_ostream &os;
};

/// The width of the terminal on standard output in columns; 0 if there is none.
unsigned getColumnsOfStdout();

/// Returns one line of printable, abbreviated text. Names in models may have
/// any bytes, and values of flags any length.
std::string printable(llvm::StringRef message);

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_PRINT_PRINTABLESTREAM_H
