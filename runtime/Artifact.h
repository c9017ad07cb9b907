// An opened .mpc file: its plan, its data and, once asked for, its kernels.
//
// Opening executes nothing of the file. It maps it, checks the digest, and
// parses and checks the plan; an artifact for another machine can therefore be
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
  /// Opens a file. IO where it cannot be read, InvalidInput where it is not a
  /// whole and consistent artifact.
  static StatusOr<std::shared_ptr<const Artifact>>
  open(const std::string &path);

  /// The same of a file that is open for reading, and may have lost its name.
  /// Takes the descriptor, in case of failure too. `name` is used in messages.
  static StatusOr<std::shared_ptr<const Artifact>>
  fromDescriptor(int descriptor, std::string name);

  /// The same from memory; the bytes are copied.
  static StatusOr<std::shared_ptr<const Artifact>>
  fromBytes(const void *bytes, size_t size, std::string name = "<memory>");

  ~Artifact();
  Artifact(const Artifact &) = delete;
  Artifact &operator=(const Artifact &) = delete;

  /// The path it was opened from, or the name given with the bytes.
  const std::string &name() const;
  const Plan &plan() const;
  /// The plan as it stands in the file, JSON.
  std::string_view planText() const;
  /// The data section; aligned to format::kDataAlignment.
  const std::byte *data() const;
  size_t dataBytes() const;
  /// Says that these bytes of the data section will hardly be read again: their
  /// memory is free for other use. They can be read all the same, more slowly.
  void releaseData(size_t offset, size_t bytes) const;
  /// A GPU's kernels: PTX with its final zero byte, and the same assembled for
  /// the target. Empty where the file has none.
  std::string_view ptx() const;
  std::string_view cubin() const;
  /// Size of the whole file.
  size_t fileBytes() const;

  /// The address of a kernel. The first call loads the code into the process,
  /// so the caller checks first that this machine can run it. Thread-safe.
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
