// Feeds a file to protobuf once, from beginning to end, and hashes the bytes.
// So the hash is of exactly the bytes that were parsed.
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

  /// Returns the first bytes of the file, up to `count`; `Read` returns them
  /// again. Call only before the first `Read`.
  llvm::Expected<llvm::StringRef> peek(size_t count);

  /// Returns the next bytes; 0 at the end of the file, -1 on failure.
  int Read(void *buffer, int size) override;

  /// Returns the error of `Read`; success if there was none.
  llvm::Error takeError();
  /// The number of bytes read.
  int64_t getCount() const { return count; }
  /// Returns the XXH3 hash of the bytes read, as 16 hexadecimal digits.
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
