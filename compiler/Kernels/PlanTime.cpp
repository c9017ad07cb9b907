// SPDX-License-Identifier: Apache-2.0
#include "compiler/Kernels/PlanTime.h"

#include "compiler/Dialect/MPC/Target.h"
#include "compiler/Kernels/ElementWork.h"
#include "compiler/Kernels/MachineRates.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mpc;

PlanTime &PlanTime::operator+=(const PlanTime &other) {
  kernels += other.kernels;
  products += other.products;
  convolutions += other.convolutions;
  return *this;
}

PlanTime PlanTime::operator*(double times) const {
  return {kernels * times, products * times, convolutions * times};
}

namespace {
class Predictor {
public:
  explicit Predictor(plan::ProgramOp program);

  PlanTime predictAll(Block &steps);

private:
  PlanTime predict(Operation *step);
  PlanTime predict(plan::LaunchOp launch);
  double predict(plan::MatMulOp matmul);
  double predict(plan::ConvOp conv);
  double predict(plan::AttentionOp attention);
  template <typename OpTy>
  double getEpilogueTime(OpTy contraction);
  double getOperationsTime(StringRef kernel);
  double countOperations(func::FuncOp kernel) const;
  double getConversionWork(Type type, bool rounds) const;
  double getBytesTime(ValueRange buffers) const;
  double getOperandTime(double elements, Type type, double packing) const;

  func::FuncOp findKernel(StringRef name) const {
    return symbols.lookup<func::FuncOp>(name);
  }

  SymbolTable symbols;
  const TargetInfo target;
  const MachineRates &rates;
  double bytesPerNs;
  /// The nanoseconds of the elementwise operations of each kernel.
  llvm::StringMap<double> operationTimes;
};
} // namespace

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

/// The caches that a core of a CPU uses. A GPU's rates are equal for both.
static constexpr double kCacheBytes = 16 << 20;

static double countBufferBytes(Value buffer) {
  return static_cast<double>(
      plan::getBufferBytes(cast<MemRefType>(buffer.getType())));
}

Predictor::Predictor(plan::ProgramOp program)
    : symbols(program->getParentOfType<ModuleOp>()), target(getTarget(program)),
      rates(getMachineRates(target)) {
  double bytes = static_cast<double>(program.getArenaBytes().value_or(0));
  program.walk([&](Operation *op) {
    if (isa<plan::StateOp, plan::InputOp, plan::ConstantOp>(op))
      bytes += countBufferBytes(op->getResult(0));
  });
  bytesPerNs = bytes <= kCacheBytes ? rates.cachedBytes : rates.memoryBytes;
}

double Predictor::getBytesTime(ValueRange buffers) const {
  double bytes = 0;
  for (Value buffer : buffers)
    bytes += countBufferBytes(buffer);
  return bytes / bytesPerNs;
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

static double countElements(Type type) {
  auto shaped = dyn_cast<ShapedType>(type);
  return shaped ? static_cast<double>(shaped.getNumElements()) : 1;
}

// Returns the elements that `op` computes on: those of the largest operand or
// result. A reduction, for example, computes on its operand.
static double countLargest(Operation *op) {
  double largest = 0;
  for (Type type : op->getOperandTypes())
    largest = std::max(largest, countElements(type));
  for (Type type : op->getResultTypes())
    largest = std::max(largest, countElements(type));
  return largest;
}

// Returns the work of `op` per element. ElementWork.h leaves out ops that are
// never computed twice. The figures are measured times on Zen 4. Windows and
// reads at computed indices take their elements one by one.
static double getWork(Operation *op) {
  constexpr double kRandom = 64, kUpdate = 10, kWindow = 30, kMovement = 12,
                   kIndexed = 100, kOther = 2;
  if (std::optional<int64_t> work = getElementWork(op))
    return static_cast<double>(*work);
  if (isa<DropoutOp, RandomUniformOp>(op))
    return kRandom;
  if (isa<OptimizerOpInterface>(op))
    return kUpdate;
  if (isa<IndexedOpInterface>(op))
    return kIndexed;
  if (hasRole(op, RegionRole::Window))
    return kWindow;
  return hasRole(op, RegionRole::Movement) ? kMovement : kOther;
}

static bool isComputed(Operation *op) {
  if (auto member = dyn_cast<RegionOpInterface>(op))
    return !llvm::is_contained({RegionRole::Constant, RegionRole::View,
                                RegionRole::Contraction, RegionRole::Collective,
                                RegionRole::Library},
                               member.getRegionRole());
  return false;
}

double mpc::countElementOperations(Operation *op) {
  return isComputed(op) ? countLargest(op) * getWork(op) : 0;
}

// Returns the work of converting an f32 number from `type` or, with `rounds`,
// to `type`; 0 for types that need no conversion.
double Predictor::getConversionWork(Type type, bool rounds) const {
  // Without an instruction, rounding to bf16 takes integer operations, and a
  // conversion of f16 a call.
  constexpr double kInstruction = 1, kIntegers = 8, kCall = 64;
  const Type element = getElementTypeOrSelf(type);
  if (element.isBF16())
    return !rounds || target.hasNativeBF16Conversion() ? kInstruction
                                                       : kIntegers;
  if (element.isF16())
    return target.hasNativeF16Conversion() ? kInstruction : kCall;
  return 0;
}

// Counts the elementwise operations of `kernel`, and the conversions of
// elements that the kernel loads and stores.
double Predictor::countOperations(func::FuncOp kernel) const {
  double operations = 0;
  kernel.walk([&](Operation *op) { operations += countElementOperations(op); });
  for (Type type : kernel.getArgumentTypes())
    operations += countElements(type) * getConversionWork(type, false);
  for (Type type : kernel.getResultTypes())
    operations += countElements(type) * getConversionWork(type, true);
  return operations;
}

double Predictor::getOperationsTime(StringRef kernel) {
  auto [known, isNew] = operationTimes.try_emplace(kernel);
  if (isNew)
    known->second = countOperations(findKernel(kernel)) / rates.elements;
  return known->second;
}

PlanTime Predictor::predict(plan::LaunchOp launch) {
  const StringRef name = launch.getKernel();
  double time = rates.launch + getOperationsTime(name) +
                getBytesTime(launch.getInputs()) +
                getBytesTime(launch.getOutputs());
  func::FuncOp kernel = findKernel(name);
  Operation *hero =
      kernel.isDeclaration() ? nullptr : findContraction(kernel.front());
  if (!hero)
    return {time, 0, 0};
  const ContractionSpace space =
      cast<ContractionOpInterface>(hero).getContractionSpace();
  time += getProductTime({space.rows, space.columns, space.depth},
                         hero->getOperand(0).getType(), target);
  return isa<MatMulOp>(hero) ? PlanTime{0, time, 0} : PlanTime{0, 0, time};
}

//===----------------------------------------------------------------------===//
// Contractions of libraries
//===----------------------------------------------------------------------===//

template <typename OpTy>
double Predictor::getEpilogueTime(OpTy contraction) {
  if (!contraction.getEpilogue())
    return 0;
  return getOperationsTime(*contraction.getEpilogue()) +
         getBytesTime(contraction.getEpilogueInputs()) +
         getBytesTime(contraction.getEpilogueOutputs());
}

// Returns the type that the library multiplies, if the operands have `type`.
static Type getMultipliedType(Type type, std::optional<Compute> compute) {
  return compute == Compute::TF32 ? FloatTF32Type::get(type.getContext())
                                  : getElementTypeOrSelf(type);
}

static double multiply(ArrayRef<int64_t> extents) {
  double product = 1;
  for (int64_t extent : extents)
    product *= static_cast<double>(extent);
  return product;
}

// Returns the time for reading or writing `elements` of `type`, and for packing
// them. Widens them if the library does not multiply the type.
double Predictor::getOperandTime(double elements, Type type,
                                 double packing) const {
  constexpr int64_t kWideBytes = 4;
  const Type element = getElementTypeOrSelf(type);
  const int64_t bytes = plan::getElementBytes(element);
  double time = static_cast<double>(bytes) / bytesPerNs + packing;
  if (bytes < kWideBytes && !target.hasNativeContraction(element))
    time += getConversionWork(element, false) / rates.elements +
            kWideBytes / rates.cachedBytes;
  return elements * time;
}

double Predictor::predict(plan::MatMulOp matmul) {
  const runtime::ProductShape &shape = matmul.getShape();
  const runtime::BatchAxes &axes = matmul.getAxes();
  const double calls = multiply(axes.outer.extents);
  const double count = calls * static_cast<double>(axes.batch);
  // All products of a batch read the same matrix if the strides are 0.
  auto countOperand = [&](int64_t rows, int64_t columns, int64_t stride,
                          ArrayRef<int64_t> strides) {
    const bool isShared =
        stride == 0 && llvm::all_of(strides, [](int64_t s) { return s == 0; });
    return multiply({rows, columns}) * (isShared ? 1 : count);
  };
  const Type a = matmul.getA().getType(), b = matmul.getB().getType();
  const double left =
      countOperand(shape.m, shape.k, axes.strideA, axes.outer.a);
  const double right =
      countOperand(shape.k, shape.n, axes.strideB, axes.outer.b);
  // Each call of a GPU's library starts a kernel.
  double time =
      rates.launch * (target.isGPU() ? calls : 1) + rates.product +
      getOperandTime(left, a, rates.operand) +
      getOperandTime(right, b, rates.operand) +
      count * getProductTime({shape.m, shape.n, shape.k},
                             getMultipliedType(a, matmul.getCompute()), target);
  // Sums go through scratch memory, where epilogues read them.
  const double results = multiply({shape.m, shape.n}) * count;
  time += results * rates.operand;
  if (Value c = matmul.getC())
    time += results *
            static_cast<double>(
                plan::getElementBytes(getElementTypeOrSelf(c.getType()))) /
            bytesPerNs;
  return time + getEpilogueTime(matmul);
}

double Predictor::predict(plan::ConvOp conv) {
  const Type type = (conv.getX() ? conv.getX() : conv.getY()).getType();
  const auto groups = static_cast<int64_t>(conv.getGroups());
  const int64_t batch = static_cast<int64_t>(conv.getBatch());
  const int64_t in = static_cast<int64_t>(conv.getInChannels());
  const int64_t out = static_cast<int64_t>(conv.getOutChannels());
  const double pixels =
      static_cast<double>(batch) * multiply(conv.getOutSpatial());
  const double taps = multiply(conv.getKernel());
  const double images =
      static_cast<double>(batch * in) * multiply(conv.getInSpatial()) +
      pixels * static_cast<double>(out);
  const double filters = static_cast<double>(in / groups * out) * taps;
  const bool isFilterGradient = conv.getKind() == ConvKind::WeightGrad;
  return rates.launch + rates.convolution +
         getOperandTime(images, type, rates.image) +
         filters * (isFilterGradient ? rates.filterGradient : rates.filter) +
         getConvolutionTime(
             {in / groups, out / groups, groups, pixels * taps, conv.getKind()},
             getMultipliedType(type, conv.getCompute()), target) +
         getEpilogueTime(conv);
}

double Predictor::predict(plan::AttentionOp attention) {
  return rates.launch + rates.product + attention.countBytes() / bytesPerNs +
         target.getTensorCoreTime(attention.countOperations(),
                                  /*aligned=*/true);
}

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

PlanTime Predictor::predict(Operation *step) {
  return llvm::TypeSwitch<Operation *, PlanTime>(step)
      .Case([&](plan::LaunchOp launch) { return predict(launch); })
      .Case([&](plan::MatMulOp matmul) {
        return PlanTime{0, predict(matmul), 0};
      })
      .Case([&](plan::ConvOp conv) {
        return PlanTime{0, 0, predict(conv)};
      })
      .Case([&](plan::AttentionOp attention) {
        return PlanTime{0, predict(attention), 0};
      })
      .Case([&](plan::ForOp loop) {
        return predictAll(loop.getBody().front()) *
               static_cast<double>(loop.getCount());
      })
      .Case([&](plan::IfOp conditional) {
        return predictAll(conditional.getThen().front());
      })
      .Case([&](plan::CopyOp copy) {
        // A copy of rows moves no more than the smaller buffer.
        const double bytes = std::min(countBufferBytes(copy.getSource()),
                                      countBufferBytes(copy.getDestination()));
        return PlanTime{rates.launch + 2 * bytes / bytesPerNs, 0, 0};
      })
      .Default([&](Operation *) {
        return PlanTime{rates.launch, 0, 0};
      });
}

PlanTime Predictor::predictAll(Block &steps) {
  PlanTime time;
  for (Operation &op : steps)
    if (isa<plan::StepOpInterface>(op))
      time += predict(&op);
  return time;
}

PlanTime mpc::predictTime(plan::ProgramOp program) {
  return Predictor(program).predictAll(program.getBody().front());
}
