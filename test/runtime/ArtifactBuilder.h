// Builds artifacts for tests without the compiler, from a plan written in code
// and kernels in a shared object from a C compiler.
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

/// Appends the three sections of an artifact to `library`, and a GPU's kernels
/// unless they are empty. Sets the digest.
Bytes appendSections(Bytes library, const std::string &plan, const Bytes &data,
                     const std::string &ptx = "",
                     const std::string &cubin = "");

/// Sets the digest of an artifact with changed bytes.
void setDigest(Bytes &artifact);

/// Makes an f32 tensor of `shape` from values.
Tensor floats(Shape shape, const std::vector<float> &values);

/// Makes an i64 tensor from values.
Tensor integers(Shape shape, const std::vector<int64_t> &values);

/// The features that a compiler for the host would record, or those of
/// x86-64-v3 if the environment's MPC_TEST_TARGET says so.
std::vector<std::string> testFeatures();

class ArtifactBuilder;

/// A function under construction. Every call that adds a buffer returns its
/// index, for use in steps.
class FunctionBuilder {
public:
  size_t arena(DType type, const Shape &shape);
  size_t input(const std::string &name, DType type, const Shape &shape);
  size_t state(const std::string &name);
  size_t constant(const Tensor &value);
  /// Adds a view of `buffer`: `shape`, from byte `offset` on.
  size_t part(size_t buffer, const Shape &shape, int64_t offset);
  void output(const std::string &name, size_t buffer);
  /// Appends a step. The step's name defaults to its op.
  void step(Json step);
  /// Appends a launch of `kernel` over [0, extent).
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

  /// Makes this an artifact for a GPU with these kernels. Steps of existing
  /// functions stay unchanged.
  void forGPU(const std::string &cpu, const std::string &ptx);

  /// Describes every kernel for the steps that call it. `writes` is the number
  /// of trailing arguments that a kernel writes, by default 0.
  void describeKernels(const std::map<std::string, size_t> &writes = {});

  /// Returns the whole file, with the kernels of Kernels.c or of a GPU.
  /// Describes all kernels that have no description.
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

/// Null, with a failed test, if the artifact is refused.
std::unique_ptr<Session> makeSession(const ArtifactBuilder &builder,
                                     int threads = 1);

} // namespace mpc::runtime::test

#endif // MPC_TEST_RUNTIME_ARTIFACTBUILDER_H
