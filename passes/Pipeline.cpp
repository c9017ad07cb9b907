// Every stage and every pass in order, one straight list.
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
  // `--no-recognize` names ops whose patterns stay as they are, for
  // comparisons.
  auto add = [&](llvm::StringRef op, std::unique_ptr<Pass> pass) {
    if (!llvm::is_contained(unrecognized, op) &&
        !llvm::is_contained(unrecognized, "all"))
      pm.addNestedPass<func::FuncOp>(std::move(pass));
  };
  // Norms first: a normalization in front of attention is one op then.
  add("layer_norm", createRecognizeLayerNormPass());
  add("rms_norm", createRecognizeRMSNormPass());
  add("gelu", createRecognizeGeluPass());
  add("swish", createRecognizeSwishPass());
  // Masks of an attention are found as small as they begin.
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

// Without a loss that is to be differentiated, of gradients that the model has.
static AddOptimizerPassOptions
getOptimizerOptions(const RecipeOptions &recipe) {
  AddOptimizerPassOptions options;
  options.givenGradients = recipe.losses.empty();
  // The update rule and its numbers; below 0 is the default of the rule.
  options.optimizer = recipe.optimizer;
  options.momentum = recipe.momentum;
  options.beta1 = recipe.beta1;
  options.beta2 = recipe.beta2;
  options.alpha = recipe.alpha;
  options.centered = recipe.centered;
  options.epsilon = recipe.epsilon.value_or(-1.0);
  options.weightDecay = recipe.weightDecay.value_or(-1.0);
  // What happens to gradients before the update, and to weights after it.
  options.accumulate = recipe.accumulateGradBatches;
  if (!recipe.accumulateReduction.empty())
    options.accumulateReduction = recipe.accumulateReduction;
  options.clipNorm = recipe.gradientClipVal.value_or(0.0);
  options.ema = recipe.ema.value_or(0.0);
  // Which parameters are trained, and how: regular expressions of names.
  options.train.assign(recipe.train.begin(), recipe.train.end());
  options.freeze.assign(recipe.freeze.begin(), recipe.freeze.end());
  options.noDecay.assign(recipe.noDecay.begin(), recipe.noDecay.end());
  options.lrScale.assign(recipe.lrScale.begin(), recipe.lrScale.end());
  return options;
}

// "7x5" or "scalar".
static std::string printShape(llvm::ArrayRef<int64_t> shape) {
  if (shape.empty())
    return "scalar";
  return llvm::join(
      llvm::map_range(shape,
                      [](int64_t extent) { return std::to_string(extent); }),
      "x");
}

static bool isFloat64(llvm::StringRef mode) {
  return amp::symbolizePrecisionMode(mode) == amp::PrecisionMode::FP64True;
}

// Whether the mode has one float type: then the evaluation does not depend on
// what is decided for gradients, and needs none.
static bool hasOneType(llvm::StringRef mode) {
  return isFloat64(mode) ||
         amp::symbolizePrecisionMode(mode) == amp::PrecisionMode::FP32True;
}

static void addDifferentiation(OpPassManager &pm,
                               const PipelineOptions &options) {
  const RecipeOptions &recipe = options.recipe;
  // In 64-true the loss, gradients and updates are made for a model of float64,
  // so that no number of theirs, such as a label smoothing of 0.1, is rounded.
  if (isFloat64(options.precision.mode))
    pm.addPass(createConvertFloatTypePass());
  // A loss takes the place of the outputs.
  if (!recipe.losses.empty()) {
    AddLossPassOptions loss;
    loss.loss.assign(recipe.losses.begin(), recipe.losses.end());
    loss.targetArrays.assign(recipe.targetArrays.begin(),
                             recipe.targetArrays.end());
    loss.reduction = recipe.reduction.value_or("mean");
    loss.ignoreIndex = recipe.ignoreIndex.value_or(kNoIgnoreIndex);
    loss.labelSmoothing = recipe.labelSmoothing.value_or(0.0);
    loss.classWeights.assign(recipe.classWeights.begin(),
                             recipe.classWeights.end());
    loss.posWeight.assign(recipe.posWeight.begin(), recipe.posWeight.end());
    loss.float64 = isFloat64(options.precision.mode);
    loss.trainAccuracy = recipe.trainAccuracy;
    for (const auto &[name, shape] : recipe.labelShapes)
      loss.labelShapes.push_back(name + "=" + printShape(shape));
    pm.addPass(createAddLossPass(loss));
  }
  // Without a training step only the evaluation stays; with it, gradients and
  // updates are added.
  if (options.evaluationAlone && hasOneType(options.precision.mode))
    pm.addPass(createKeepEvaluationPass());
  else
    pm.addPass(createAddOptimizerPass(getOptimizerOptions(recipe)));
  // Products and sums in a loop's body become one over all iterations, before
  // gradients and again after, since those have loops of their own.
  pm.addNestedPass<func::FuncOp>(createMoveOutOfScansPass());
  pm.addPass(createExpandGradientsPass());
  pm.addNestedPass<func::FuncOp>(createMoveOutOfScansPass());
  // Forward ops that only the dropped outputs used.
  pm.addPass(createCanonicalizerPass());
}

static void addPrecision(OpPassManager &pm, const PipelineOptions &options) {
  const PrecisionOptions &precision = options.precision;
  // What the scale multiplies is decided on like all else.
  pm.addPass(createFindLossGradientPass({precision.mode, precision.lossScale}));
  AssignPrecisionPassOptions assign;
  assign.mode = precision.mode;
  assign.policy = precision.policyFile;
  assign.keepFP32 = llvm::to_vector(precision.keepFp32);
  assign.forceLow = llvm::to_vector(precision.forceLow);
  pm.addPass(createAssignPrecisionPass(std::move(assign)));
  // In 64-true a training graph that was given as such has f32 values, which
  // become f64 here.
  if (isFloat64(precision.mode))
    pm.addPass(createConvertFloatTypePass());
  pm.addPass(createInsertCastsPass());
  pm.addPass(createOptimizeCastsPass());
  // Loss scaling needs the gradients as the casts have left them; low copies
  // come last, since they stand for casts.
  InsertLossScalingPassOptions scaling;
  scaling.lossScale = precision.lossScale;
  pm.addPass(createInsertLossScalingPass(std::move(scaling)));
  pm.addPass(createInsertMasterWeightsPass());
  pm.addPass(createVerifyPrecisionPass({precision.policyFile}));
  if (options.evaluationAlone)
    pm.addPass(createKeepEvaluationPass());
}

static void addFusion(OpPassManager &pm, const PipelineOptions &options) {
  // Control flow and attention first: what is in them is ordinary afterwards.
  pm.addNestedPass<func::FuncOp>(createConvertIfToSelectPass());
  pm.addNestedPass<func::FuncOp>(createDecomposeAttentionPass());
  if (options.recompute)
    pm.addNestedPass<func::FuncOp>(createTileProductsPass());
  pm.addPass(createOutlineBodiesPass());
  // Ops become those that kernels are made of,
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
  // common ones are merged, so that kernels share them,
  nested.addPass(createCanonicalizerPass());
  nested.addPass(createCSEPass());
  // and kernels are formed. Copies of recomputed ops must not be merged before.
  if (options.recompute)
    nested.addPass(createRecomputeElementwisePass());
  nested.addPass(createFormRegionsPass());
  nested.addPass(createCSEPass());
  nested.addPass(createVerifyFusionPass());
}

static void addPlanning(OpPassManager &pm, const PipelineOptions &options) {
  // Who computes each product, and what it takes along,
  PlaceContractionsPassOptions place;
  place.contractions = options.contractions;
  pm.addNestedPass<func::FuncOp>(createPlaceContractionsPass(std::move(place)));
  pm.addNestedPass<func::FuncOp>(createFoldMovementPass());
  // then which steps become one, or none: fewer launches and buffers.
  pm.addNestedPass<func::FuncOp>(createRecomputeUnscalePass());
  pm.addNestedPass<func::FuncOp>(createMergeUpdatesPass());
  pm.addNestedPass<func::FuncOp>(createFoldPartsPass());
  pm.addNestedPass<func::FuncOp>(createAssembleJoinsPass());
  pm.addNestedPass<func::FuncOp>(createPadRowsPass({options.tf32}));
  pm.addNestedPass<func::FuncOp>(createFillConstantsPass());
  pm.addNestedPass<func::FuncOp>(createSumOperandsPass());
  pm.addNestedPass<func::FuncOp>(createJoinColumnSumsPass());
  // The order of steps is final from here on, so lifetimes are known.
  pm.addNestedPass<func::FuncOp>(createOrderPass());
  pm.addPass(createPackFiltersPass());
  // Kernels become functions, equal ones one, and steps launches of them
  pm.addPass(createOutlineKernelsPass());
  pm.addPass(createDeduplicateKernelsPass());
  BuildProgramsPassOptions build;
  build.tf32 = options.tf32;
  pm.addPass(createBuildProgramsPass(std::move(build)));
  // in buffers, each of which gets its place in the arena.
  pm.addPass(createAssignOffsetsPass());
  pm.addPass(createVerifyPlanPass());
}

/// A name that is no target's is for the pass that attaches it to report.
static bool isGPU(llvm::StringRef target) {
  llvm::Expected<TargetInfo> info = TargetInfo::get(target);
  if (!info)
    llvm::consumeError(info.takeError());
  return info && info->isGPU();
}

static void addCodegen(OpPassManager &pm, llvm::StringRef target) {
  // Tensors to loops.
  pm.addPass(createEmitKernelsPass());
  pm.addPass(createLoopInvariantCodeMotionPass());
  pm.addPass(createCSEPass());
  pm.addPass(createCanonicalizerPass());
  pm.addPass(createLowerMathPass());
  // Loops to the LLVM dialect.
  if (isGPU(target)) {
    pm.addPass(createSCFToControlFlowPass());
    pm.addPass(createConvertToNVVMPass());
    pm.addPass(createCSEPass());
    return;
  }
  // On a CPU what LLVM has no instruction for is spelt out first.
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
