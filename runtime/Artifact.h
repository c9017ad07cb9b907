// An opened .mpc file: its plan, its data and, on demand, its kernels.
//
// Opening executes nothing of the file. It maps the file, checks the digest,
// and parses and checks the plan. So an artifact for another machine can be
// opened and inspected anywhere.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_ARTIFACT_H
#define MPC_RUNTIME_ARTIFACT_H

#include "runtime/Plan.h"
#include "runtime/Status.h"

#include <memory>
#include <string>
#include <string_view>

namespace mpc::runtime {

class Artifact {
public:
  /// Opens a file. IO if the file cannot be read, InvalidInput if the file is
  /// no complete and consistent artifact.
  static StatusOr<std::shared_ptr<const Artifact>>
  open(const std::string &path);

  /// Like open(), for a readable descriptor, whose file may have lost its name.
  /// Takes ownership of the descriptor, also on failure. `name` appears in
  /// messages.
  static StatusOr<std::shared_ptr<const Artifact>>
  fromDescriptor(int descriptor, std::string name);

  /// Like open(), for bytes in memory, which are copied.
  static StatusOr<std::shared_ptr<const Artifact>>
  fromBytes(const void *bytes, size_t size, std::string name = "<memory>");

  ~Artifact();
  Artifact(const Artifact &) = delete;
  Artifact &operator=(const Artifact &) = delete;

  /// The path of the file, or the name given with the bytes or the descriptor.
  const std::string &name() const;
  const Plan &plan() const;
  /// The JSON of the plan as the file has it.
  std::string_view planText() const;
  /// The data section, aligned to format::kDataAlignment.
  const std::byte *data() const;
  size_t dataBytes() const;
  /// Frees the memory of a range of the data section. The range stays readable,
  /// but the next read is slower.
  void releaseData(size_t offset, size_t bytes) const;
  /// The JSON that describes the nodes and the work of each step
  /// (NodesFormat.h). Empty if the file has none.
  std::string_view nodesText() const;
  /// Kernels for a GPU: PTX with a final zero byte, and the PTX assembled for
  /// the target. Empty if the file has none.
  std::string_view ptx() const;
  std::string_view cubin() const;
  /// Size of the whole file.
  size_t fileBytes() const;

  /// Returns the address of a kernel. The first call loads the code into the
  /// process, so check before that this machine can run it. Thread-safe.
  StatusOr<void *> kernel(const std::string &symbol) const;

private:
  struct Impl;
  explicit Artifact(std::unique_ptr<Impl>);
  static StatusOr<std::shared_ptr<const Artifact>>
      finish(std::unique_ptr<Impl>);
  std::unique_ptr<Impl> impl;
};

} // namespace mpc::runtime

#endif // MPC_RUNTIME_ARTIFACT_H
