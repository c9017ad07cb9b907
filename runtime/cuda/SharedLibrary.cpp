// Loads NVIDIA's libraries and finds their functions.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/SharedLibrary.h"

#include <algorithm>
#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
#include <link.h>
#include <sstream>
#include <vector>

namespace mpc::runtime::cuda {

const char *const kCPUAlternative =
    "; to run on the CPU instead, compile the model with --device cpu";

std::string toLibraryVersion(size_t version) {
  return std::to_string(version / 10000) + "." +
         std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

/// Returns the error text of the last dlopen, without the leading `name`, which
/// the caller's message already has.
static std::string lastLoadError(const std::string &name) {
  const char *why = dlerror();
  std::string text = why ? why : "unknown error";
  return text.rfind(name + ": ", 0) == 0 ? text.substr(name.size() + 2) : text;
}

static std::string pathOf(void *handle, const std::string &fallback) {
  link_map *map = nullptr;
  bool known = dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map;
  return known && *map->l_name ? map->l_name : fallback;
}

/// Returns the folders to search, in order and without duplicates. An empty
/// path stands for the system's folders.
static std::vector<std::filesystem::path> searchFolders() {
  std::vector<std::filesystem::path> folders;
  auto add = [&](const std::filesystem::path &folder) {
    auto normal = folder.lexically_normal();
    if (std::find(folders.begin(), folders.end(), normal) == folders.end())
      folders.push_back(normal);
  };
  const char *listed = std::getenv("MPC_CUDA_LIBRARY_PATH");
  std::stringstream list(listed ? listed : "");
  for (std::string folder; std::getline(list, folder, ':');)
    if (!folder.empty())
      add(folder + "/");
  folders.emplace_back();
  const char *home = std::getenv("CUDA_HOME");
  for (const std::string &toolkit :
       {std::string(home ? home : ""), std::string("/usr/local/cuda")})
    if (!toolkit.empty())
      for (const char *folder : {"/lib64/", "/lib/"})
        add(toolkit + folder);
  return folders;
}

namespace {
/// A file that cannot be loaded, and the reason.
struct FailedLoad {
  std::string path, why;
};
} // namespace

/// Loads the first of `names` that can be loaded. Adds the others to `failed`.
static void *load(LibraryNames names, std::string &path,
                  std::vector<FailedLoad> &failed) {
  for (const std::filesystem::path &folder : searchFolders())
    for (const char *name : names) {
      path = folder / name;
      if (void *handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL))
        return handle;
      failed.push_back({path, lastLoadError(path)});
    }
  return nullptr;
}

StatusOr<SharedLibrary> SharedLibrary::open(LibraryNames names,
                                            const char *need) {
  std::string path, tried;
  std::vector<FailedLoad> failed;
  if (void *handle = load(names, path, failed))
    return SharedLibrary(handle, pathOf(handle, path));
  for (const auto &[file, why] : failed)
    tried += (tried.empty() ? "" : "; ") + file + ": " + why;
  return Status(StatusCode::Device,
                "device 'cuda' needs " + std::string(need) +
                    ", which cannot be loaded" + kCPUAlternative +
                    "; MPC_CUDA_LIBRARY_PATH may name the folder of the "
                    "library; tried: " +
                    tried);
}

StatusOr<SharedLibrary> SharedLibrary::look(LibraryNames names) {
  std::string path;
  std::vector<FailedLoad> failed;
  if (void *handle = load(names, path, failed))
    return SharedLibrary(handle, pathOf(handle, path));
  // The text of a library that is nowhere begins like this. If a library that
  // it needs is nowhere, the text begins with the name of that library.
  const std::string absent = "cannot open shared object file: No such file";
  for (const auto &[file, why] : failed)
    if (why.rfind(absent, 0) != 0)
      return Status(StatusCode::Device, file + ": " + why);
  return Status(StatusCode::Device, "not found");
}

StatusOr<void *> SharedLibrary::find(const char *symbol) const {
  if (void *address = dlsym(handle, symbol))
    return address;
  return Status(StatusCode::Device,
                "'" + file + "' has no function '" + symbol +
                    "': it is older than mpc needs" + kCPUAlternative);
}

} // namespace mpc::runtime::cuda
