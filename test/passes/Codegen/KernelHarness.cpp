// SPDX-License-Identifier: Apache-2.0
#include "test/passes/Codegen/KernelHarness.h"

#include "compiler/Artifact/ArtifactWriter.h"
#include "compiler/Artifact/Code.h"
#include "compiler/Dialect/AMP/AMP.h"
#include "compiler/Dialect/MPC/MPC.h"
#include "compiler/Dialect/Plan/Plan.h"
#include "compiler/Kernels/TensorCoreTiling.h"
#include "passes/Pipeline.h"
#include "runtime/ABI.h"
#include "test/passes/Codegen/EmulatedGPU.h"

#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "llvm/Support/FileSystem.h"

#include <algorithm>
#include <cstring>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <random>

using namespace mlir;

namespace mpc::test {

static std::string link(ModuleOp module, const TargetInfo &target,
                        std::string &bytes) {
  auto object = compileKernels(module, target, CodeFormat::Object);
  if (!object)
    return llvm::toString(object.takeError());
  llvm::raw_string_ostream out(bytes);
  return llvm::toString(writeArtifact({*object, "{}", {}}, target, out));
}

std::string CompiledKernel::load(llvm::StringRef bytes) {
  llvm::SmallString<128> path;
  if (llvm::sys::fs::createTemporaryFile("mpc-kernel", "mpc", path))
    return "cannot create a temporary file";
  if (llvm::Error written =
          writeFileAtomically(path, [&](llvm::raw_ostream &out) {
            out << bytes;
            return llvm::Error::success();
          }))
    return llvm::toString(std::move(written));
  library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  std::string message = library ? "" : dlerror();
  llvm::sys::fs::remove(path);
  if (library)
    entry = dlsym(library, "kernel");
  return message.empty() && !entry ? "no symbol 'kernel'" : message;
}

static size_t bytesOf(Type type) {
  auto tensor = cast<RankedTensorType>(type);
  return tensor.getNumElements() *
         llvm::divideCeil(tensor.getElementTypeBitWidth(), 8u);
}

std::string CompiledKernel::compile(llvm::StringRef text,
                                    llvm::StringRef target) {
  static bool registered = (registerAllPasses(), true);
  (void)registered;
  DialectRegistry registry;
  registry.insert<MPCDialect, amp::AMPDialect, plan::PlanDialect,
                  func::FuncDialect>();
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  std::string messages;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    messages += diagnostic.str() + "\n";
  });
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, &context);
  if (!module)
    return messages;
  auto kernel = module->lookupSymbol<func::FuncOp>("kernel");
  TargetInfo info = llvm::cantFail(TargetInfo::get(target));
  if (getKernelKind(kernel) != KernelKind::Epilogue)
    partition = getKernelPartition(kernel, info);
  for (TypeRange types : {kernel.getArgumentTypes(), kernel.getResultTypes()})
    for (Type type : types)
      argumentBytes.push_back(bytesOf(type));
  for (Operation &op : kernel.getBody().front())
    if (auto tiling = getTensorCoreTiling(&op, info))
      sharedBytes = tiling->getSharedBytes();
  PassManager passes(&context);
  std::string pipeline = "mpc-codegen{target=" + target.str() + "}";
  if (failed(parsePassPipeline(pipeline, passes)) ||
      failed(passes.run(*module)))
    return messages;
  if (info.isGPU()) {
    auto code = compileKernels(*module, info, CodeFormat::PTX);
    if (!code)
      return llvm::toString(code.takeError());
    ptx = std::move(*code);
    return "";
  }
  std::string bytes;
  std::string failure = link(*module, info, bytes);
  return failure.empty() ? load(bytes) : failure;
}

CompiledKernel::CompiledKernel(llvm::StringRef text, llvm::StringRef target) {
  error = compile(text, target);
}

CompiledKernel::~CompiledKernel() {
  if (library)
    dlclose(library);
}

void CompiledKernel::launch(const std::vector<void *> &args,
                            bool backwards) const {
  int64_t slices = (partition.extent + partition.grain - 1) / partition.grain;
  if (!ptx.empty()) {
    std::vector<HostBuffer> buffers;
    for (auto [address, bytes] : llvm::zip_equal(args, argumentBytes))
      buffers.push_back({address, bytes});
    Launch launch{"kernel", static_cast<unsigned>(slices),
                  static_cast<unsigned>(partition.threads), sharedBytes};
    EXPECT_EQ(runOnEmulatedGPU(ptx, launch, buffers), "") << ptx;
    return;
  }
  auto function = reinterpret_cast<mpc_kernel_fn>(entry);
  // NaNs before and behind the data.
  constexpr size_t kGuard = 64;
  size_t bytes = static_cast<size_t>(partition.scratch);
  std::vector<uint8_t> scratch(bytes + kGuard, 0xff);
  for (int64_t i = 0; i < slices; ++i) {
    int64_t begin = (backwards ? slices - 1 - i : i) * partition.grain;
    function(args.data(), begin,
             std::min(begin + partition.grain, partition.extent),
             scratch.data());
  }
  EXPECT_EQ(
      std::count(scratch.begin() + partition.scratch, scratch.end(), 0xff),
      kGuard)
      << "the kernel writes behind its scratch memory";
}

void CompiledKernel::runTile(const std::vector<void *> &args, int64_t rowBegin,
                             int64_t rowEnd, int64_t colBegin, int64_t colEnd,
                             int64_t ld) const {
  reinterpret_cast<mpc_epilogue_fn>(entry)(args.data(), rowBegin, rowEnd,
                                           colBegin, colEnd, ld);
}

std::vector<std::string> runnableCPUs() {
  TargetInfo host = llvm::cantFail(TargetInfo::get("native"));
  std::vector<std::string> runnable = {"native"};
  for (const char *name : {"x86-64", "x86-64-v3", "x86-64-v4"}) {
    TargetInfo target = llvm::cantFail(TargetInfo::get(name));
    if (llvm::all_of(target.getFeatures(), [&](const std::string &feature) {
          return host.hasFeature(feature);
        }))
      runnable.push_back(name);
  }
  return runnable;
}

std::vector<std::string> runnableTargets() {
  std::vector<std::string> runnable = runnableCPUs();
  runnable.push_back("sm_80");
  return runnable;
}

uint16_t toBF16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

float fromBF16(uint16_t bits) {
  uint32_t wide = static_cast<uint32_t>(bits) << 16;
  float value;
  std::memcpy(&value, &wide, sizeof(value));
  return value;
}

std::vector<float> randomFloats(size_t count, float low, float high) {
  static std::mt19937 engine(1);
  std::uniform_real_distribution<float> values(low, high);
  std::vector<float> result(count);
  for (float &value : result)
    value = values(engine);
  return result;
}

} // namespace mpc::test
