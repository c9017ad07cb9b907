// Sliding windows: pooling and its gradients.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Kernels/Heroes/Heroes.h"
#include "compiler/Kernels/Heroes/Partitions.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::heroes;

namespace {
class WindowHero : public KernelHero {
public:
  RegionRole getRole() const override { return RegionRole::Window; }
  Company getCompany() const override { return Company::None; }
  bool readsMemory() const override { return true; }
  KernelPartition partition(func::FuncOp kernel) const override {
    return sliceRows(kernel);
  }
  KernelPartition partition(func::FuncOp kernel,
                            const TargetInfo &gpu) const override {
    return shareRows(kernel, gpu);
  }
};
} // namespace

const KernelHero &heroes::getWindow() {
  static const WindowHero hero;
  return hero;
}
