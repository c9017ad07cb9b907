// SPDX-License-Identifier: Apache-2.0
#include "compiler/Target/CPU.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/Verifier.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"

using namespace mlir;
using namespace mpc;

static llvm::Expected<std::unique_ptr<llvm::TargetMachine>>
createTargetMachine(const TargetInfo &info) {
  llvm::InitializeNativeTarget();
  llvm::InitializeNativeTargetAsmPrinter();
  llvm::Triple triple(info.getTriple());
  std::string message;
  const llvm::Target *target =
      llvm::TargetRegistry::lookupTarget(triple, message);
  if (!target)
    return llvm::createStringError(message);
  return std::unique_ptr<llvm::TargetMachine>(target->createTargetMachine(
      triple, "x86-64", info.getFeatureString(), llvm::TargetOptions(),
      llvm::Reloc::PIC_, std::nullopt, llvm::CodeGenOptLevel::Aggressive));
}

/// A module of the functions of the LLVM dialect alone.
static OwningOpRef<ModuleOp> extractFunctions(ModuleOp module) {
  OwningOpRef<ModuleOp> kernels = ModuleOp::create(module.getLoc());
  OpBuilder builder = OpBuilder::atBlockEnd(kernels->getBody());
  for (auto function : module.getOps<LLVM::LLVMFuncOp>())
    builder.clone(*function);
  return kernels;
}

static llvm::Expected<std::unique_ptr<llvm::Module>>
translate(ModuleOp module, llvm::LLVMContext &context) {
  DialectRegistry registry;
  registerBuiltinDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
  module.getContext()->appendDialectRegistry(registry);
  OwningOpRef<ModuleOp> kernels = extractFunctions(module);
  std::unique_ptr<llvm::Module> translated =
      translateModuleToLLVMIR(*kernels, context, "kernels");
  if (!translated)
    return llvm::createStringError("the kernels cannot be translated to LLVM "
                                   "IR");
  return translated;
}

/// 512-bit vectors are in the code because they pay: without these attributes
/// LLVM would split them again on CPUs that once had to slow down for them.
static void setTargetAttributes(llvm::Module &module, const TargetInfo &info) {
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

/// The kernels are vectorised as they should be; LLVM's vectorisers would only
/// widen their scalar remainders.
static void optimize(llvm::Module &module, llvm::TargetMachine &machine) {
  llvm::PipelineTuningOptions tuning;
  tuning.LoopVectorization = false;
  tuning.SLPVectorization = false;
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager callGraph;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder(&machine, tuning);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(callGraph);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, callGraph, modules);
  builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O2)
      .run(module, modules);
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
  llvm::legacy::PassManager passes;
  llvm::CodeGenFileType type = format == CodeFormat::Assembly
                                   ? llvm::CodeGenFileType::AssemblyFile
                                   : llvm::CodeGenFileType::ObjectFile;
  if (machine.addPassesToEmitFile(passes, out, nullptr, type))
    return llvm::createStringError("LLVM cannot emit code for this target");
  passes.run(module);
  return out.str().str();
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
  auto machine = createTargetMachine(target);
  if (!machine)
    return machine.takeError();
  llvm::LLVMContext context;
  auto translated = translate(module, context);
  if (!translated)
    return translated.takeError();
  llvm::Module &kernels = **translated;
  setMachine(kernels, **machine);
  setTargetAttributes(kernels, target);
  optimize(kernels, **machine);
  return emitCode(kernels, **machine, format);
}
