// mpc-conv-times: measures the convolutions of a training step one at a time,
// for tools/bench/convs.
//
// Reads a convolution per line, in the format below, and prints the
// milliseconds of a run on a single thread. The time is the median processor
// time of as many runs as fit into SECONDS:
//
//  {forward|input_grad|weight_grad} {f32|bf16} SECONDS AXES
//      BATCH GROUPS IN_CHANNELS OUT_CHANNELS
//      SPATIAL... KERNEL... STRIDES... DILATIONS... PADS...
//
// Each convolution is prepared as in a training session. A 1 x 1 convolution
// with strides of 1, one group and no padding is measured as a matrix product,
// because mpc's Fusion stage turns such convolutions into products.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/CPUFeatures.h"
#include "runtime/cpu/Convert.h"
#include "runtime/cpu/onednn/OneDNNProvider.h"

#include <cstdlib>
#include <ctime>
#include <iostream>
#include <random>
#include <sstream>

using namespace mpc::runtime;

namespace {

/// A 64-byte aligned buffer, as in a session, filled with random numbers
/// between -1 and 1.
class Memory {
public:
  Memory(DType type, int64_t elements) : type(type) {
    const size_t bytes = size_t(elements) * sizeOf(type);
    data.reset(std::aligned_alloc(64, (bytes + 64) & ~size_t(63)));
    if (!data)
      throw std::bad_alloc();
    std::minstd_rand random(1);
    for (int64_t i = 0; i < elements; ++i) {
      const float number = float(int(random() % 2001) - 1000) / 1000;
      narrow(type, &number, operand().at(i), 1);
    }
  }
  Operand operand() const { return {type, data.get()}; }
  std::byte *bytes() const { return static_cast<std::byte *>(data.get()); }

private:
  const DType type;
  std::unique_ptr<void, decltype(&std::free)> data{nullptr, &std::free};
};

struct Request {
  ConvStep step;
  DType type = DType::F32;
  double seconds = 0;

  explicit Request(const std::string &line);
  bool isProduct() const;
};

} // namespace

Request::Request(const std::string &line) {
  std::istringstream words(line);
  std::string kind, typeName;
  int64_t axes = 0;
  words >> kind >> typeName >> seconds >> axes >> step.batch >> step.groups >>
      step.inChannels >> step.outChannels;
  step.kind = kind == "forward"      ? ConvKind::Forward
              : kind == "input_grad" ? ConvKind::InputGrad
                                     : ConvKind::WeightGrad;
  type = typeName == "bf16" ? DType::BF16 : DType::F32;
  for (auto *values : {&step.inSpatial, &step.kernel, &step.strides,
                       &step.dilations, &step.padsBegin})
    for (int64_t axis = 0; axis < axes; ++axis)
      words >> values->emplace_back();
  if (!words) {
    std::cerr << "mpc-conv-times: not a convolution: " << line << "\n";
    std::exit(2);
  }
  step.padsEnd = step.padsBegin;
  for (size_t axis = 0; axis < step.kernel.size(); ++axis)
    step.outSpatial.push_back((step.inSpatial[axis] + 2 * step.padsBegin[axis] -
                               step.dilations[axis] * (step.kernel[axis] - 1) -
                               1) /
                                  step.strides[axis] +
                              1);
}

bool Request::isProduct() const {
  auto areAll = [](const std::vector<int64_t> &values, int64_t expected) {
    return std::all_of(values.begin(), values.end(),
                       [&](int64_t value) { return value == expected; });
  };
  return step.groups == 1 && areAll(step.kernel, 1) &&
         areAll(step.strides, 1) && areAll(step.padsBegin, 0);
}

/// Returns the matrix product that mpc's Fusion stage makes of a 1 x 1
/// convolution: rows are the pixels of the batch, columns are channels.
static MatMulStep productOf(const ConvStep &conv) {
  const int64_t pixels = conv.batch * numElements(conv.inSpatial);
  MatMulStep step;
  step.transA = conv.kind == ConvKind::WeightGrad;
  step.transB = conv.kind == ConvKind::Forward;
  step.m = step.transA ? conv.outChannels : pixels;
  step.n = conv.kind == ConvKind::Forward ? conv.outChannels : conv.inChannels;
  step.k = conv.kind == ConvKind::Forward     ? conv.inChannels
           : conv.kind == ConvKind::InputGrad ? conv.outChannels
                                              : pixels;
  step.lda = step.transA ? step.m : step.k;
  step.ldb = step.transB ? step.k : step.n;
  step.ldc = step.n;
  step.strideA = step.m * step.k;
  step.strideB = step.k * step.n;
  step.strideC = step.m * step.n;
  step.tileM = step.tileN = 256;
  return step;
}

static Status runAllSlices(Contraction &contraction, const Memory &shared,
                           const Memory &scratch) {
  for (size_t phase = 0; phase < contraction.phases().size(); ++phase)
    for (int64_t slice = 0; slice < contraction.phases()[phase]; ++slice)
      if (Status status = contraction.runSlice(
              phase, slice, {0, shared.bytes(), scratch.bytes()});
          !status.ok())
        return status;
  return Status();
}

/// Returns the processor time of this thread in seconds. Unlike wall time,
/// excludes other programs.
static double threadSeconds() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return double(time.tv_sec) + double(time.tv_nsec) * 1e-9;
}

static StatusOr<double> measure(ContractionProvider &provider,
                                const Request &request) {
  const ConvStep &step = request.step;
  const bool isWeightGrad = step.kind == ConvKind::WeightGrad;
  const Memory x(request.type,
                 step.batch * step.inChannels * numElements(step.inSpatial));
  const Memory y(request.type,
                 step.batch * step.outChannels * numElements(step.outSpatial));
  // The gradient of a filter is always f32, because the optimizer applies it to
  // an f32 master copy.
  const Memory w(isWeightGrad ? DType::F32 : request.type,
                 step.inChannels / step.groups * step.outChannels *
                     numElements(step.kernel));
  auto prepare = [&]() -> StatusOr<std::unique_ptr<Contraction>> {
    if (!request.isProduct())
      return provider.prepare(step, {x.operand(), w.operand(), y.operand(), {}},
                              1);
    if (isWeightGrad)
      return provider.prepare(productOf(step),
                              {y.operand(), x.operand(), w.operand(), {}}, 1);
    const bool isForward = step.kind == ConvKind::Forward;
    const Operand from = (isForward ? x : y).operand();
    const Operand to = (isForward ? y : x).operand();
    return provider.prepare(productOf(step), {from, w.operand(), to, {}}, 1);
  };
  auto made = prepare();
  if (!made.ok())
    return made.status();
  Contraction &contraction = **made;
  const Memory shared(DType::BF16, int64_t(contraction.sharedBytes() / 2));
  const Memory scratch(DType::BF16, int64_t(contraction.scratchBytes() / 2));

  // The library compiles code in the first run, so drop that time if there are
  // others.
  std::vector<double> times;
  const double begin = threadSeconds();
  double spent = 0;
  do {
    const double start = threadSeconds();
    if (Status status = runAllSlices(contraction, shared, scratch);
        !status.ok())
      return status;
    times.push_back((threadSeconds() - start) * 1000);
    spent = threadSeconds() - begin;
  } while (spent < request.seconds ||
           (times.size() < 3 && spent < 10 * request.seconds));
  if (times.size() > 1)
    times.erase(times.begin());
  std::nth_element(times.begin(), times.begin() + times.size() / 2,
                   times.end());
  return times[times.size() / 2];
}

int main() {
  std::vector<std::string> features = hostFeatures();
  // Request AMX from the system first, as a session for an AMX artifact does;
  // otherwise the library must not use AMX.
  const bool hasAMX = hostHasFeature("amx-bf16") && requestAMXPermission().ok();
  if (!hasAMX)
    features.erase(std::remove(features.begin(), features.end(), "amx-bf16"),
                   features.end());
  auto provider = OneDNNProvider::create(features);
  if (!provider.ok()) {
    std::cerr << "mpc-conv-times: " << provider.status().message() << "\n";
    return 1;
  }
  for (std::string line; std::getline(std::cin, line);) {
    StatusOr<double> time = measure(**provider, Request(line));
    if (!time.ok()) {
      std::cerr << "mpc-conv-times: " << time.status().message() << "\n";
      return 1;
    }
    std::cout << *time << std::endl;
  }
}
