// Builds artifacts for tests without the compiler: a plan put together in code,
// and kernels from a shared object that a C compiler made.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TEST_RUNTIME_ARTIFACTBUILDER_H
#define MPC_TEST_RUNTIME_ARTIFACTBUILDER_H

#include "runtime/Artifact.h"
#include "runtime/Session.h"
#include "runtime/Tensor.h"

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace mpc::runtime::test {

using Json = nlohmann::json;
using Bytes = std::vector<std::byte>;

/// The shared object of Kernels.c.
Bytes kernelLibrary();

/// The smallest ELF shared object: a header and no sections.
Bytes emptyLibrary();

/// `library` with the three sections of an artifact appended, and a GPU's
/// kernels where they are not empty, and the digest set.
Bytes appendSections(Bytes library, const std::string &plan, const Bytes &data,
                     const std::string &ptx = "",
                     const std::string &cubin = "");

/// Sets the digest of an artifact whose bytes were changed.
void setDigest(Bytes &artifact);

/// A one-dimensional or shaped tensor of f32 from values.
Tensor floats(Shape shape, const std::vector<float> &values);

/// The same of i64.
Tensor integers(Shape shape, const std::vector<int64_t> &values);

/// What a compiler for this machine would record as its features, or for
/// x86-64-v3 where the environment's MPC_TEST_TARGET says so.
std::vector<std::string> testFeatures();

class ArtifactBuilder;

/// A function under construction. Every call that makes a buffer gives its
/// index, for use in steps.
class FunctionBuilder {
public:
  size_t arena(DType type, const Shape &shape);
  size_t input(const std::string &name, DType type, const Shape &shape);
  size_t state(const std::string &name);
  size_t constant(const Tensor &value);
  /// `shape` of the memory of `buffer`, so many bytes behind its begin.
  size_t part(size_t buffer, const Shape &shape, int64_t offset);
  void output(const std::string &name, size_t buffer);
  /// Appends a step; its name defaults to its op.
  void step(Json step);
  /// launch of `kernel` over [0, extent).
  void launch(const std::string &kernel, std::vector<size_t> args,
              int64_t extent, int64_t grain, int64_t scratchBytes = 0);

private:
  friend class ArtifactBuilder;
  FunctionBuilder(ArtifactBuilder &artifact, Json &json)
      : artifact(artifact), json(json) {}
  size_t buffer(const char *space, DType type, const Shape &shape,
                const char *key, int64_t value);

  ArtifactBuilder &artifact;
  Json &json;
};

class ArtifactBuilder {
public:
  ArtifactBuilder();

  void state(const std::string &name, const Tensor &initial,
             const std::string &role = "parameter");
  void filledState(const std::string &name, DType type, const Shape &shape,
                   double fill, const std::string &role = "parameter");
  FunctionBuilder function(const std::string &name);

  /// Makes it an artifact for a GPU with these kernels. Steps of functions that
  /// exist already stay as they are.
  void forGPU(const std::string &cpu, const std::string &ptx);

  /// Says of every kernel that it is made for what the steps have that call
  /// it, and of how many of its last arguments it writes: of those that are not
  /// named none.
  void describeKernels(const std::map<std::string, size_t> &writes = {});

  /// The whole file, over the kernels of Kernels.c or a GPU's; kernels that
  /// nothing is said of are described.
  Bytes build() const;
  std::shared_ptr<const Artifact> open() const;

  Json plan;
  Bytes data;
  std::string ptx, cubin;

private:
  friend class FunctionBuilder;
  int64_t addData(const Tensor &value);
  void describeSteps(const Json &function, const Json &steps,
                     const std::map<std::string, size_t> &writes);
  void describeKernel(const Json &function, const Json &step,
                      const std::map<std::string, size_t> &writes, Json kernel);
};

/// Null, and a failed test, where the artifact is refused.
std::unique_ptr<Session> makeSession(const ArtifactBuilder &builder,
                                     int threads = 1);

} // namespace mpc::runtime::test

#endif // MPC_TEST_RUNTIME_ARTIFACTBUILDER_H
