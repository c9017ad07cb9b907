// SPDX-License-Identifier: Apache-2.0
#include "compiler/Artifact/CPU.h"

#include "llvm/IR/Module.h"
#include "llvm/Support/TargetSelect.h"

#include <mutex>

using namespace mpc;

// Registers LLVM's CPU target exactly once. A second registration, while
// another thread looks up a target, would make LLVM's list of targets circular.
void mpc::initializeCPU() {
  static std::once_flag once;
  std::call_once(once, [] {
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
  });
}

/// Sets the target attributes of all functions. Without the attribute for
/// vector width, LLVM would split 512-bit vectors on CPUs whose older models
/// lowered their clock for such vectors. On today's CPUs, 512-bit vectors pay.
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
