// Prints `mpc --version`.
//
// SPDX-License-Identifier: Apache-2.0
#include "tools/mpc/commands/Version.h"

#include "compiler/Target/TargetInfo.h"
#include "runtime/cpu/onednn/OneDNNVersion.h"

#include "llvm-c/Core.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/raw_ostream.h"

std::string mpc::tools::llvmVersion() {
  // LLVM may be a shared library newer than its headers were.
  unsigned major, minor, patch;
  LLVMGetVersion(&major, &minor, &patch);
  return std::to_string(major) + "." + std::to_string(minor) + "." +
         std::to_string(patch);
}

std::string mpc::tools::describeVersion() {
  std::string text;
  llvm::raw_string_ostream os(text);
  os << "mpc " MPC_VERSION << "\nrevision: " << kRevision
     << "\nLLVM: " << llvmVersion() << "\noneDNN: " << runtime::oneDNNVersion();
  const TargetInfo host = llvm::cantFail(TargetInfo::get("native"));
  os << "\nCPU: " << host.getTuneCPU()
     << "\nCPU features: " << llvm::join(host.getFeatures(), " ");
  return text;
}
