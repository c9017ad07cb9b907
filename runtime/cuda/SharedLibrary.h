// NVIDIA's libraries, found when they are needed: nothing of them is linked, so
// one binary serves machines with and without a GPU.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_CUDA_SHAREDLIBRARY_H
#define MPC_RUNTIME_CUDA_SHAREDLIBRARY_H

#include "runtime/Status.h"

#include <initializer_list>
#include <string>

namespace mpc::runtime::cuda {

/// What every message about a GPU that cannot be used ends with.
extern const char *const kCPUAlternative;

/// A library that stays loaded until the process ends: unloading NVIDIA's while
/// their own threads and exit handlers live is not safe.
class SharedLibrary {
public:
  /// Loads the first of `names` that there is: in the folders that
  /// MPC_CUDA_LIBRARY_PATH lists, then where the system looks, then where the
  /// CUDA toolkit is usually installed. `need` says what brings the library,
  /// for the message.
  static StatusOr<SharedLibrary> open(std::initializer_list<const char *> names,
                                      const char *need);

  /// Sets `function` to a symbol's address; a Device error where there is none.
  template <typename Function>
  Status find(const char *symbol, Function &function) const {
    StatusOr<void *> address = find(symbol);
    if (!address.ok())
      return address.status();
    function = reinterpret_cast<Function>(*address);
    return Status();
  }

  /// Where the library lies.
  const std::string &path() const { return file; }

private:
  SharedLibrary(void *handle, std::string file)
      : handle(handle), file(std::move(file)) {}
  StatusOr<void *> find(const char *symbol) const;

  void *handle;
  std::string file;
};

} // namespace mpc::runtime::cuda

#endif // MPC_RUNTIME_CUDA_SHAREDLIBRARY_H
