// Feeds a file to protobuf, from beginning to end, and hashes the bytes on the
// way. So the hash belongs to exactly the parsed bytes.
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

  /// Returns up to `count` bytes from the start of the file, without consuming
  /// them: `Read` returns them again. Call only before the first `Read`.
  llvm::Expected<llvm::StringRef> peek(size_t count);

  /// Reads the next bytes into `buffer`, at most `size`. Returns their number:
  /// 0 at the end of the file, -1 on failure.
  int Read(void *buffer, int size) override;

  /// Returns the error of the last failed `Read`; success if none failed.
  llvm::Error takeError();
  /// The number of bytes returned by `Read`.
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
