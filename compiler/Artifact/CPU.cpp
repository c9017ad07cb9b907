// SPDX-License-Identifier: Apache-2.0
#include "compiler/Artifact/CPU.h"

#include "llvm/IR/Module.h"
#include "llvm/Support/TargetSelect.h"

#include <mutex>

using namespace mpc;

// A target that registers again while another thread looks it up puts LLVM's
// list of targets into a circle.
void mpc::initializeCPU() {
  static std::once_flag once;
  std::call_once(once, [] {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
  });
}

/// 512-bit vectors are in the code because they pay: without these attributes
/// LLVM would split them again on CPUs that once had to slow down for them.
void mpc::setCPUAttributes(llvm::Module &module, const TargetInfo &info) {
  std::string bits = std::to_string(info.getVectorBits());
  for (llvm::Function &function : module) {
    if (function.isDeclaration())
      continue;
    function.addFnAttr("target-cpu", "x86-64");
    function.addFnAttr("target-features", info.getFeatureString());
    function.addFnAttr("tune-cpu", info.getTuneCPU());
    function.addFnAttr("prefer-vector-width", bits);
    function.addFnAttr("min-legal-vector-width", bits);
  }
}
