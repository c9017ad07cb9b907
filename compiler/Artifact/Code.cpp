// SPDX-License-Identifier: Apache-2.0
#include "compiler/Artifact/Code.h"

#include "compiler/Artifact/CPU.h"
#include "compiler/Artifact/GPU.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/NVVM/NVVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/PassInstrumentation.h"
#include "llvm/IR/Verifier.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Target/TargetMachine.h"

#include <mutex>

using namespace mlir;
using namespace mpc;

static llvm::Expected<std::unique_ptr<llvm::TargetMachine>>
createTargetMachine(const TargetInfo &info) {
  info.isGPU() ? initializeGPU() : initializeCPU();
  llvm::Triple triple(info.getTriple());
  std::string message;
  const llvm::Target *target =
      llvm::TargetRegistry::lookupTarget(triple, message);
  if (!target)
    return llvm::createStringError(message);
  // For CPUs, name the baseline CPU: the feature list adds exactly what an
  // artifact requires.
  llvm::StringRef processor = info.isGPU() ? info.getName() : "x86-64";
  return std::unique_ptr<llvm::TargetMachine>(target->createTargetMachine(
      triple, processor, info.getFeatureString(), llvm::TargetOptions(),
      llvm::Reloc::PIC_, std::nullopt, llvm::CodeGenOptLevel::Aggressive));
}

bool mpc::hasFormat(const TargetInfo &target, CodeFormat format) {
  if (format == CodeFormat::LLVM)
    return true;
  return target.isGPU() == (format == CodeFormat::PTX);
}

/// Copies the functions and global variables of the LLVM dialect in `module`
/// into a new module.
static OwningOpRef<ModuleOp> extractCode(ModuleOp module) {
  OwningOpRef<ModuleOp> kernels = ModuleOp::create(module.getLoc());
  OpBuilder builder = OpBuilder::atBlockEnd(kernels->getBody());
  for (Operation &op : module.getOps())
    if (isa<LLVM::LLVMFuncOp, LLVM::GlobalOp>(op))
      builder.clone(op);
  return kernels;
}

static llvm::Expected<std::unique_ptr<llvm::Module>>
translate(ModuleOp module, llvm::LLVMContext &context) {
  DialectRegistry registry;
  registerBuiltinDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
  registerNVVMDialectTranslation(registry);
  module.getContext()->appendDialectRegistry(registry);
  OwningOpRef<ModuleOp> kernels = extractCode(module);
  std::unique_ptr<llvm::Module> translated =
      translateModuleToLLVMIR(*kernels, context, "kernels");
  if (!translated)
    return llvm::createStringError("the kernels cannot be translated to LLVM "
                                   "IR");
  return translated;
}

/// The LLVM passes that still improve kernels for a CPU. Kernels arrive
/// vectorised, with loops in their final order and without repeated work. So
/// one round of O2's passes gives code as fast as full O2, and compiles faster
/// (docs/measured/cpu.md).
static constexpr llvm::StringLiteral kCPUPipeline =
    "cgscc(inline),"
    "function(sroa,early-cse<memssa>,simplifycfg,"
    "instcombine<no-verify-fixpoint>,loop-mssa(licm),gvn,"
    "instcombine<no-verify-fixpoint>,loop-unroll<O2>,simplifycfg,"
    "instcombine<no-verify-fixpoint>)";

/// Builds LLVM's O2. The vectorisers are off (see `optimize`): on a GPU they
/// would only widen scalar remainders of loops.
static llvm::ModulePassManager buildGPUPipeline(llvm::PassBuilder &builder) {
  return builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O2);
}

static llvm::ModulePassManager buildCPUPipeline(llvm::PassBuilder &builder) {
  llvm::ModulePassManager passes;
  llvm::cantFail(builder.parsePassPipeline(passes, kCPUPipeline));
  return passes;
}

static void optimize(llvm::Module &module, llvm::TargetMachine &machine) {
  llvm::PipelineTuningOptions tuning;
  tuning.LoopVectorization = false;
  tuning.SLPVectorization = false;
  // Skip LoopLoadElimination: kernels already keep stored values in registers.
  // The pass compares each access of a loop with all others, which takes
  // seconds for 1,000 arrays.
  llvm::PassInstrumentationCallbacks callbacks;
  callbacks.registerShouldRunOptionalPassCallback(
      [](llvm::StringRef pass, llvm::Any) {
        return pass != "LoopLoadEliminationPass";
      });
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager callGraph;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder(&machine, tuning, std::nullopt, &callbacks);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(callGraph);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, callGraph, modules);
  bool isGPU = machine.getTargetTriple().isNVPTX();
  llvm::ModulePassManager passes =
      isGPU ? buildGPUPipeline(builder) : buildCPUPipeline(builder);
  passes.run(module, modules);
}

/// Switches LLVM's loop strength reduction on or off, through the command-line
/// flag, since there is no API. On a CPU the pass takes half of LLVM's time
/// without gain: an x86 instruction adds the offsets of inner loops to an
/// address by itself (docs/measured/cpu.md). All compiling threads want the
/// same setting, so only the first writes the flag.
static void setLoopStrengthReduction(bool isOn) {
  static std::mutex mutex;
  std::lock_guard lock(mutex);
  static llvm::cl::Option *const option =
      llvm::cl::getRegisteredOptions().lookup("disable-lsr");
  auto *isOff = static_cast<llvm::cl::opt<bool> *>(option);
  if (isOff && *isOff == isOn)
    isOff->setValue(!isOn);
}

static llvm::Expected<std::string> emitCode(llvm::Module &module,
                                            llvm::TargetMachine &machine,
                                            CodeFormat format) {
  llvm::SmallVector<char, 0> bytes;
  llvm::raw_svector_ostream out(bytes);
  if (format == CodeFormat::LLVM) {
    module.print(out, nullptr);
    return out.str().str();
  }
  setLoopStrengthReduction(machine.getTargetTriple().isNVPTX());
  llvm::legacy::PassManager passes;
  llvm::CodeGenFileType type = format == CodeFormat::Object
                                   ? llvm::CodeGenFileType::ObjectFile
                                   : llvm::CodeGenFileType::AssemblyFile;
  if (machine.addPassesToEmitFile(passes, out, nullptr, type))
    return llvm::createStringError("LLVM cannot emit code for target '%s'",
                                   machine.getTargetTriple().str().c_str());
  passes.run(module);
  return out.str().str();
}

/// Fails if a kernel calls an external function: a GPU has no libraries.
static llvm::Error checkCalls(const llvm::Module &module) {
  for (const llvm::Function &function : module)
    if (function.isDeclaration() && !function.isIntrinsic() &&
        !function.use_empty())
      return llvm::createStringError(
          "a kernel calls '%s', which no GPU provides",
          function.getName().str().c_str());
  return llvm::Error::success();
}

static void setMachine(llvm::Module &module,
                       const llvm::TargetMachine &machine) {
  module.setTargetTriple(machine.getTargetTriple());
  module.setDataLayout(machine.createDataLayout());
}

llvm::Expected<std::string> mpc::emitObject(llvm::Module &module,
                                            const TargetInfo &target) {
  auto machine = createTargetMachine(target);
  if (!machine)
    return machine.takeError();
  setMachine(module, **machine);
  return emitCode(module, **machine, CodeFormat::Object);
}

llvm::Expected<std::string> mpc::compileKernels(ModuleOp module,
                                                const TargetInfo &target,
                                                CodeFormat format) {
  assert(hasFormat(target, format) && "no such code for this target");
  auto machine = createTargetMachine(target);
  if (!machine)
    return machine.takeError();
  // `context` owns the translated module, so it must live until emitCode
  // returns.
  llvm::LLVMContext context;
  auto translated = translate(module, context);
  if (!translated)
    return translated.takeError();
  // Set triple and data layout first: LLVM's passes ask for sizes and costs.
  llvm::Module &kernels = **translated;
  setMachine(kernels, **machine);
  if (!target.isGPU())
    setCPUAttributes(kernels, target);
  optimize(kernels, **machine);
  // Report remaining calls, such as libm's `pow`, here: on a GPU they would
  // only fail when the artifact is loaded.
  if (target.isGPU())
    if (llvm::Error error = checkCalls(kernels))
      return error;
  return emitCode(kernels, **machine, format);
}
