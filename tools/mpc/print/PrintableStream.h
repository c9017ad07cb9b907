// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TOOLS_MPC_PRINT_PRINTABLESTREAM_H
#define MPC_TOOLS_MPC_PRINT_PRINTABLESTREAM_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/raw_ostream.h"

#include <string>

namespace mpc::tools {

/// Lines of text for a terminal. Names come from models and files, whose bytes
/// may be anything: control characters but the newline become spaces. A name
/// is given to it as `printable`, for its newlines would begin lines.
class PrintableStream : public llvm::raw_ostream {
public:
  explicit PrintableStream(llvm::raw_ostream &os)
      : raw_ostream(/*unbuffered=*/true), os(os) {}

private:
  void write_impl(const char *text, size_t size) override;
  uint64_t current_pos() const override { return os.tell(); }

  llvm::raw_ostream &os;
};

/// How wide the terminal on standard output is; 0 where there is none.
unsigned getColumnsOfStdout();

/// One line of text: names come from models, whose bytes need not be that, and
/// from flags, whose values have any length.
std::string printable(llvm::StringRef message);

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_PRINT_PRINTABLESTREAM_H
