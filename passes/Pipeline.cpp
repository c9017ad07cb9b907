// Builds the pipeline: all stages and passes, in order, as one list.
//
// SPDX-License-Identifier: Apache-2.0
#include "passes/Pipeline.h"

#include "compiler/Dialect/AMP/AMP.h"
#include "compiler/Target/TargetInfo.h"
#include "passes/Codegen/Passes.h"
#include "passes/Differentiation/Passes.h"
#include "passes/Fusion/Passes.h"
#include "passes/Planning/Passes.h"
#include "passes/Precision/Passes.h"
#include "passes/Precision/RequestOptions.h"
#include "passes/Recognition/Passes.h"
#include "passes/Target/Passes.h"

#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/FuncToLLVM/ConvertFuncToLLVMPass.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/MemRefToLLVM/MemRefToLLVM.h"
#include "mlir/Conversion/ReconcileUnrealizedCasts/ReconcileUnrealizedCasts.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVMPass.h"
#include "mlir/Dialect/Arith/Transforms/Passes.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;
using namespace mpc;

llvm::ArrayRef<StageInfo> mpc::getStages() {
  static constexpr StageInfo stages[] = {
      {Stage::Import, "import", "mpc ops, types as in the model"},
      {Stage::Recognize, "recognize", "ops that the model spells out as one"},
      {Stage::Differentiate, "differentiate", "forward, backward and update"},
      {Stage::Precision, "precision", "mixed types, casts, loss scaling"},
      {Stage::Fusion, "fusion", "kernels-to-be, each one region"},
      {Stage::Plan, "plan", "the flat step, and one function per kernel"},
      {Stage::Codegen, "codegen", "kernels in the LLVM dialect"},
  };
  return stages;
}

llvm::ArrayRef<llvm::StringLiteral> mpc::getRecognizedOps() {
  static constexpr llvm::StringLiteral ops[] = {
      "layer_norm",      "rms_norm",      "gelu",
      "swish",           "attention",     "cross_entropy",
      "embedding",       "embedding_bag", "binary_cross_entropy",
      "rotary_embedding"};
  return ops;
}

static void addRecognition(OpPassManager &pm, const PipelineOptions &options) {
  const auto &unrecognized = options.unrecognized;
  // Leave out the passes of ops that `--no-recognize` names.
  auto add = [&](llvm::StringRef op, std::unique_ptr<Pass> pass) {
    if (!llvm::is_contained(unrecognized, op) &&
        !llvm::is_contained(unrecognized, "all"))
      pm.addNestedPass<func::FuncOp>(std::move(pass));
  };
  // Recognise normalizations before attention: the input of an attention is
  // then a single op.
  add("layer_norm", createRecognizeLayerNormPass());
  add("rms_norm", createRecognizeRMSNormPass());
  add("gelu", createRecognizeGeluPass());
  add("swish", createRecognizeSwishPass());
  // First move broadcasts behind the arithmetic on masks, so that attention is
  // matched with small masks.
  add("attention", createSinkExpandPass());
  RecognizeAttentionPassOptions attention;
  attention.train.assign(options.recipe.train.begin(),
                         options.recipe.train.end());
  add("attention", createRecognizeAttentionPass(std::move(attention)));
  add("cross_entropy", createRecognizeCrossEntropyPass());
  RecognizeEmbeddingPassOptions embedding;
  embedding.train.assign(options.recipe.train.begin(),
                         options.recipe.train.end());
  add("embedding", createRecognizeEmbeddingPass(std::move(embedding)));
  add("embedding_bag", createRecognizeEmbeddingBagPass());
  add("binary_cross_entropy", createRecognizeBinaryCrossEntropyPass());
  RecognizeRotaryEmbeddingPassOptions rotary;
  rotary.train.assign(options.recipe.train.begin(), options.recipe.train.end());
  add("rotary_embedding",
      createRecognizeRotaryEmbeddingPass(std::move(rotary)));
}

static bool isFloat64(amp::PrecisionMode mode) {
  return mode == amp::PrecisionMode::FP64True;
}

// True if the precision mode has a single float type. In other modes, gradients
// influence the types of forward ops, so even an evaluation needs the gradients
// for the same bits.
static bool hasOneType(const PipelineOptions &options) {
  amp::PrecisionMode mode = options.precision.mode;
  return options.unsupportedMode.empty() &&
         (isFloat64(mode) || mode == amp::PrecisionMode::FP32True);
}

static void addDifferentiation(OpPassManager &pm,
                               const PipelineOptions &options) {
  const Recipe &recipe = options.recipe;
  // In 64-true, convert the model to f64 first: otherwise constants of loss,
  // gradients and update, such as a label smoothing of 0.1, would be rounded to
  // f32.
  if (isFloat64(options.precision.mode))
    pm.addPass(createConvertFloatTypePass());
  // Add adapters to the forward model, so that training and evaluation have
  // them.
  pm.addPass(createAddAdaptersPass());
  // Replace the outputs of the forward model by the losses.
  if (!recipe.losses.empty()) {
    AddLossPassOptions loss;
    loss.float64 = isFloat64(options.precision.mode);
    pm.addPass(createAddLossPass(loss));
  }
  // If only the evaluation is wanted, remove training; otherwise add gradients
  // and updates. If no loss is given, use only the gradients that the model
  // computes.
  if (options.evaluationAlone && hasOneType(options))
    pm.addPass(createKeepEvaluationPass());
  else
    pm.addPass(createAddOptimizerPass({recipe.losses.empty()}));
  // Move products and sums out of loops: one op then serves all iterations. Run
  // again after gradients exist, since these have loops too.
  pm.addNestedPass<func::FuncOp>(createMoveOutOfScansPass());
  pm.addPass(createExpandGradientsPass());
  pm.addNestedPass<func::FuncOp>(createMoveOutOfScansPass());
  // Remove forward ops that served only the outputs that AddLoss has removed.
  pm.addPass(createCanonicalizerPass());
}

static void addPrecision(OpPassManager &pm, const PipelineOptions &options) {
  // FindLossGradient multiplies values by a seed; these products need precision
  // decisions too, so run this pass first.
  pm.addPass(createFindLossGradientPass());
  AssignPrecisionPassOptions assign;
  assign.listFollowers = options.listsFollowers;
  pm.addPass(createAssignPrecisionPass(assign));
  // Convert again, in case passes since the first conversion have added f32
  // values.
  if (isFloat64(options.precision.mode))
    pm.addPass(createConvertFloatTypePass());
  pm.addPass(createInsertCastsPass());
  pm.addPass(createOptimizeCastsPass());
  // Insert the loss scale after casts are final, since unscaling depends on
  // types. Master weights come last, because low copies replace casts.
  pm.addPass(createInsertLossScalingPass());
  pm.addPass(createInsertMasterWeightsPass());
  pm.addPass(createVerifyPrecisionPass());
  if (options.evaluationAlone)
    pm.addPass(createKeepEvaluationPass());
}

static void addFusion(OpPassManager &pm, const PipelineOptions &options) {
  // Note the types that the Precision stage has decided, to compare with the
  // kernels at the end.
  pm.addPass(createLimitKernelTypesPass());
  // First replace conditions and attention by ordinary ops, which later passes
  // can process.
  pm.addNestedPass<func::FuncOp>(createConvertIfToSelectPass());
  pm.addNestedPass<func::FuncOp>(createPlaceAttentionPass({options.attention}));
  pm.addNestedPass<func::FuncOp>(createDecomposeAttentionPass());
  if (options.recompute)
    pm.addNestedPass<func::FuncOp>(createTileProductsPass());
  pm.addPass(createOutlineBodiesPass());
  // Rewrite all ops into the primitive ops of kernels.
  OpPassManager &nested = pm.nest<func::FuncOp>();
  nested.addPass(createUpdateRowsPass());
  nested.addPass(createConvertLayoutPass());
  nested.addPass(createDecomposePass());
  nested.addPass(createFoldScalingPass());
  nested.addPass(createSinkMovementPass());
  nested.addPass(createSimplifyMovementPass());
  nested.addPass(createSplitContractionsPass());
  nested.addPass(createConvertConvToMatmulPass());
  nested.addPass(createNormalizeReductionsPass());
  // Merge equal ops, so that kernels share their results.
  nested.addPass(createCanonicalizerPass());
  nested.addPass(createCSEPass());
  // Form the kernels. Recompute values only after CSE, which would merge the
  // copies again.
  if (options.recompute)
    nested.addPass(createRecomputeElementwisePass());
  nested.addPass(createFormRegionsPass());
  nested.addPass(createCSEPass());
  nested.addPass(createVerifyFusionPass());
  pm.addPass(createVerifyKernelTypesPass());
}

static void addPlanning(OpPassManager &pm, const PipelineOptions &options) {
  // Choose who computes each contraction (library or mpc), and which movements
  // the contraction fuses.
  PlaceContractionsPassOptions place;
  place.contractions = options.contractions;
  pm.addNestedPass<func::FuncOp>(createPlaceContractionsPass(std::move(place)));
  pm.addNestedPass<func::FuncOp>(createFoldMovementPass());
  // Merge and remove steps, to save launches and memory.
  pm.addNestedPass<func::FuncOp>(createRecomputeUnscalePass());
  pm.addNestedPass<func::FuncOp>(createMergeUpdatesPass());
  pm.addNestedPass<func::FuncOp>(createFoldPartsPass());
  pm.addNestedPass<func::FuncOp>(createAssembleJoinsPass());
  pm.addNestedPass<func::FuncOp>(createPadRowsPass());
  pm.addNestedPass<func::FuncOp>(createFillConstantsPass());
  pm.addNestedPass<func::FuncOp>(createSumOperandsPass());
  pm.addNestedPass<func::FuncOp>(createJoinColumnSumsPass());
  // Fix the order of steps, which determines the lifetimes of buffers.
  pm.addNestedPass<func::FuncOp>(createOrderPass());
  // Join reductions over ranks in the order in which gradients are ready.
  pm.addNestedPass<func::FuncOp>(createFormBucketsPass());
  pm.addPass(createPackFiltersPass());
  // Turn kernels into functions, merge equal functions, and turn steps into
  // launches.
  pm.addPass(createOutlineKernelsPass());
  pm.addPass(createDeduplicateKernelsPass());
  // Divide the optimizer among ranks, once every step and its order are known.
  pm.addPass(createShardUpdatesPass());
  pm.addPass(createBuildProgramsPass());
  // Assign each buffer an offset in the arena.
  pm.addPass(createAssignOffsetsPass());
  pm.addPass(createVerifyPlanPass());
}

/// True if `target` names a GPU. False for unknown names, which AttachTarget
/// reports.
static bool isGPU(llvm::StringRef target) {
  llvm::Expected<TargetInfo> info = TargetInfo::get(target);
  if (!info)
    llvm::consumeError(info.takeError());
  return info && info->isGPU();
}

static void addCodegen(OpPassManager &pm, llvm::StringRef target) {
  // First lower kernels from tensors to loops.
  pm.addPass(createEmitKernelsPass());
  pm.addPass(createLoopInvariantCodeMotionPass());
  pm.addPass(createCSEPass());
  pm.addPass(createCanonicalizerPass());
  pm.addPass(createLowerMathPass());
  // Then lower the loops to the LLVM dialect.
  if (isGPU(target)) {
    pm.addPass(createSCFToControlFlowPass());
    pm.addPass(createConvertToNVVMPass());
    pm.addPass(createCSEPass());
    return;
  }
  // Expand arithmetic that CPUs have no instruction for, before any conversion.
  pm.addPass(arith::createArithExpandOpsPass());
  pm.addPass(createSCFToControlFlowPass());
  pm.addPass(createConvertVectorToLLVMPass());
  pm.addPass(createConvertMathToLLVMPass());
  pm.addPass(createFinalizeMemRefToLLVMConversionPass());
  pm.addPass(createArithToLLVMConversionPass());
  pm.addPass(createConvertControlFlowToLLVMPass());
  ConvertFuncToLLVMPassOptions functions;
  functions.useBarePtrCallConv = true;
  pm.addPass(createConvertFuncToLLVMPass(functions));
  pm.addPass(createReconcileUnrealizedCastsPass());
  pm.addPass(createConvertHalvesToBitsPass());
  pm.addPass(createAddKernelEntriesPass());
}

void mpc::buildPipeline(OpPassManager &pm, const PipelineOptions &options,
                        Stage last, Stage done) {
  auto wants = [&](Stage stage) { return done < stage && stage <= last; };
  if (last > Stage::Differentiate)
    pm.addPass(createAttachTargetPass({options.target}));
  if (wants(Stage::Recognize))
    addRecognition(pm, options);
  if (wants(Stage::Differentiate))
    addDifferentiation(pm, options);
  if (wants(Stage::Precision))
    addPrecision(pm, options);
  if (wants(Stage::Fusion))
    addFusion(pm, options);
  if (wants(Stage::Plan))
    addPlanning(pm, options);
  if (wants(Stage::Codegen))
    addCodegen(pm, options.target);
}

LogicalResult mpc::runStage(ModuleOp module, const PipelineOptions &options,
                            Stage stage) {
  if (stage == Stage::Differentiate &&
      failed(setRecipe(module, options.recipe)))
    return failure();
  if (stage == Stage::Precision) {
    amp::setRequest(module, options.precision);
    if (failed(applyOptions(module, {options.unsupportedMode})))
      return failure();
  }
  PassManager pm(module.getContext());
  buildPipeline(pm, options, stage, static_cast<Stage>(int(stage) - 1));
#ifdef NDEBUG
  pm.enableVerifier(stage <= Stage::Differentiate);
#endif
  return success(succeeded(pm.run(module)) && succeeded(verify(module)));
}

namespace {
struct CodegenOptions : PassPipelineOptions<CodegenOptions> {
  Option<std::string> target{*this, "target",
                             llvm::cl::desc("the target to compile for"),
                             llvm::cl::init("native")};
};
} // namespace

static void registerStagePipelines() {
  static PassPipelineRegistration<CodegenOptions> codegen(
      "mpc-codegen", "the Codegen stage: kernels to the LLVM dialect",
      [](OpPassManager &pm, const CodegenOptions &options) {
        pm.addPass(createAttachTargetPass({options.target}));
        addCodegen(pm, options.target);
      });
}

void mpc::registerAllPasses() {
  registerTransformsPasses();
  registerTargetPasses();
  registerRecognitionPasses();
  registerDifferentiationPasses();
  registerPrecisionPasses();
  registerFusionPasses();
  registerPlanningPasses();
  registerCodegenPasses();
  registerStagePipelines();
}
