// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Model/FileInput.h"

#include "llvm/ADT/StringExtras.h"

#include <xxhash.h>

using namespace mpc::onnx_frontend;

class FileInput::Hash {
public:
  Hash() : state(XXH3_createState()) { XXH3_64bits_reset(state); }
  Hash(const Hash &) = delete;
  ~Hash() { XXH3_freeState(state); }

  void add(const void *bytes, size_t count) {
    XXH3_64bits_update(state, bytes, count);
  }
  uint64_t get() const { return XXH3_64bits_digest(state); }

private:
  XXH3_state_t *state;
};

FileInput::FileInput(const File &file)
    : file(file), hash(std::make_unique<Hash>()) {}

FileInput::~FileInput() { llvm::consumeError(std::move(error)); }

llvm::Expected<llvm::StringRef> FileInput::peek(size_t size) {
  size_t filled = ahead.size();
  ahead.resize(std::max(size, filled));
  while (filled < ahead.size()) {
    auto bytes = file.readNext({ahead.data() + filled, ahead.size() - filled});
    if (!bytes)
      return bytes.takeError();
    if (*bytes == 0)
      break;
    filled += *bytes;
  }
  ahead.resize(filled);
  return ahead;
}

int FileInput::Read(void *buffer, int size) {
  llvm::MutableArrayRef<char> to(static_cast<char *>(buffer), size);
  size_t bytes = std::min(to.size(), ahead.size() - aheadUsed);
  if (bytes > 0) {
    std::copy_n(ahead.begin() + aheadUsed, bytes, to.begin());
    aheadUsed += bytes;
  } else if (auto next = file.readNext(to)) {
    bytes = *next;
  } else {
    error = llvm::joinErrors(std::move(error), next.takeError());
    return -1;
  }
  hash->add(buffer, bytes);
  count += bytes;
  return bytes;
}

llvm::Error FileInput::takeError() {
  llvm::Error taken = std::move(error);
  error = llvm::Error::success();
  return taken;
}

std::string FileInput::getHash() const {
  return llvm::utohexstr(hash->get(), /*LowerCase=*/true, /*Width=*/16);
}
