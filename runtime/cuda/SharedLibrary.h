// Loads NVIDIA's libraries on demand. None of them is linked, so one binary
// serves machines with and without a GPU.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_CUDA_SHAREDLIBRARY_H
#define MPC_RUNTIME_CUDA_SHAREDLIBRARY_H

#include "runtime/Status.h"

#include <initializer_list>
#include <string>

namespace mpc::runtime::cuda {

/// Names of files, of which the first that exists is loaded.
using LibraryNames = std::initializer_list<const char *>;
inline constexpr LibraryNames kDriverNames = {"libcuda.so.1"};
inline constexpr LibraryNames kBLASLtNames = {"libcublasLt.so.13",
                                              "libcublasLt.so.12"};
inline constexpr LibraryNames kOlderBLASLtNames = {"libcublasLt.so.12"};
inline constexpr LibraryNames kDNNNames = {"libcudnn.so.9"};
inline constexpr LibraryNames kNVRTCNames = {"libnvrtc.so.13",
                                             "libnvrtc.so.12"};
inline constexpr LibraryNames kNCCLNames = {"libnccl.so.2"};

/// Returns "12.4.5" for 120405.
std::string toLibraryVersion(size_t version);

/// The end of every error message about an unusable GPU: advice to use the CPU.
extern const char *const kCPUAlternative;

/// A library that stays loaded until the process ends. Unloading NVIDIA's
/// libraries is not safe while their threads and exit handlers live.
class SharedLibrary {
public:
  /// Loads the first of `names` that exists. Searches the folders in
  /// MPC_CUDA_LIBRARY_PATH, the system's folders, and the usual folders of the
  /// CUDA toolkit. `need` is the product that provides the library, for the
  /// error message.
  static StatusOr<SharedLibrary> open(LibraryNames names, const char *need);

  /// Like `open`, for a list of what is installed. The error of a library that
  /// is nowhere is "not found"; otherwise the reason why it cannot be loaded.
  static StatusOr<SharedLibrary> look(LibraryNames names);

  /// Sets `function` to a symbol's address. A Device error if there is no such
  /// symbol.
  template <typename Function>
  Status find(const char *symbol, Function &function) const {
    StatusOr<void *> address = find(symbol);
    if (!address.ok())
      return address.status();
    function = reinterpret_cast<Function>(*address);
    return Status();
  }

  /// The path of the loaded library.
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
