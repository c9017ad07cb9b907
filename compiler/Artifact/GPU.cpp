// SPDX-License-Identifier: Apache-2.0
#include "compiler/Artifact/GPU.h"

#include "compiler/Artifact/TemporaryFile.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/TargetSelect.h"

#include <cstdlib>
#include <mutex>

using namespace mpc;

void mpc::initializeGPU() {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
  });
}

std::optional<std::string> mpc::findPTXAssembler() {
  for (const char *variable : {"CUDA_HOME", "CUDA_PATH"})
    if (const char *root = std::getenv(variable)) {
      llvm::SmallString<128> path(root);
      llvm::sys::path::append(path, "bin", "ptxas");
      if (llvm::sys::fs::can_execute(path))
        return path.str().str();
    }
  if (auto found = llvm::sys::findProgramByName("ptxas"))
    return *found;
  return std::nullopt;
}

llvm::Expected<std::string> mpc::assemblePTX(llvm::StringRef assembler,
                                             llvm::StringRef ptx,
                                             const TargetInfo &target) {
  TemporaryFile input, output, messages;
  if (llvm::Error error = input.create("ptx", ptx))
    return error;
  if (llvm::Error error = output.create("cubin", ""))
    return error;
  if (llvm::Error error = messages.create("txt", ""))
    return error;
  std::string architecture = "-arch=" + target.getName().str();
  llvm::StringRef args[] = {assembler, architecture, "-o", output.getPath(),
                            input.getPath()};
  std::optional<llvm::StringRef> redirects[] = {
      std::nullopt, messages.getPath(), messages.getPath()};
  std::string failure;
  // Show the assembler's output only if it fails.
  int status = llvm::sys::ExecuteAndWait(assembler, args, std::nullopt,
                                         redirects, 0, 0, &failure);
  if (status == 0)
    return output.read();
  auto said = messages.read();
  if (!said)
    return said.takeError();
  llvm::StringRef reason = failure.empty() ? *said : failure;
  return llvm::createStringError("%s rejects the kernels: %s",
                                 assembler.str().c_str(),
                                 reason.rtrim().str().c_str());
}
