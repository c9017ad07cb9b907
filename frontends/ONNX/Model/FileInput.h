// A file as protobuf reads it: once, from its beginning to its end, hashed on
// the way, so that the hash is of the very bytes that were parsed.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_MODEL_FILEINPUT_H
#define MPC_FRONTENDS_ONNX_MODEL_FILEINPUT_H

#include "frontends/ONNX/Model/File.h"

#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

namespace mpc::onnx_frontend {

class FileInput : public google::protobuf::io::CopyingInputStream {
public:
  /// `file` must outlive the object.
  explicit FileInput(const File &file);
  ~FileInput() override;

  /// The first bytes of the file, up to `count`; they are read again by `Read`.
  /// Before the first call of `Read` only.
  llvm::Expected<llvm::StringRef> peek(size_t count);

  /// The next bytes; 0 at the end of the file, -1 where reading fails.
  int Read(void *buffer, int size) override;

  /// What `Read` failed with; success where it did not.
  llvm::Error takeError();
  /// How many bytes were read.
  int64_t getCount() const { return count; }
  /// XXH3 of what was read, as 16 hexadecimal digits.
  std::string getHash() const;

private:
  class Hash;

  const File &file;
  std::unique_ptr<Hash> hash;
  std::string ahead;
  size_t aheadUsed = 0;
  int64_t count = 0;
  llvm::Error error = llvm::Error::success();
};

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_MODEL_FILEINPUT_H
