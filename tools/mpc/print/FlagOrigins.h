// Explains errors about flags that the user did not give, since the model's
// record gave them.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TOOLS_MPC_PRINT_FLAGORIGINS_H
#define MPC_TOOLS_MPC_PRINT_FLAGORIGINS_H

#include "llvm/ADT/StringRef.h"

#include <string>
#include <vector>

namespace mpc::tools {

/// Stores that the record in the file `where` gave `flags`, names without
/// dashes. Later calls of explainOrigin explain these flags.
void setRecordedFlags(std::string where, std::vector<std::string> flags);

/// Returns the origin of the recorded flags that an error message names, as a
/// text to append: " (--loss is from the record in m.onnx; ...)". Empty if the
/// message names no recorded flag.
std::string explainOrigin(llvm::StringRef message);

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_PRINT_FLAGORIGINS_H
