// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/support/Gzip.h"

#include <algorithm>
#include <zlib.h>

namespace mpc::runtime::train {

namespace {

/// A stream of zlib that expects gzip's header and checks its checksum.
class GzipStream {
public:
  GzipStream() {
    constexpr int kGzip = 16;
    isOpen = inflateInit2(&stream, MAX_WBITS + kGzip) == Z_OK;
  }
  ~GzipStream() {
    if (isOpen)
      inflateEnd(&stream);
  }
  GzipStream(const GzipStream &) = delete;
  GzipStream &operator=(const GzipStream &) = delete;

  z_stream stream = {};
  bool isOpen;
};

} // namespace

bool looksLikeGzip(const std::byte *data, size_t size) {
  return size >= 2 && data[0] == std::byte(0x1f) && data[1] == std::byte(0x8b);
}

StatusOr<std::shared_ptr<const std::vector<std::byte>>>
unpackGzip(const std::byte *data, size_t size, uint64_t maxBytes,
           const std::string &where) {
  // zlib counts in 32 bits, so it gets input and memory in pieces.
  constexpr size_t kPiece = size_t(1) << 24, kLeast = size_t(1) << 16;
  const auto damaged = [&](const std::string &what) {
    return Status(StatusCode::InvalidInput, where + ": " + what);
  };
  GzipStream gzip;
  if (!gzip.isOpen)
    return Status(StatusCode::IO, where + ": does not fit in memory");
  z_stream &stream = gzip.stream;
  auto contents = std::make_shared<std::vector<std::byte>>();
  size_t read = 0, written = 0;
  while (true) {
    if (written == contents->size()) {
      if (written >= maxBytes)
        return damaged("has more than " + std::to_string(maxBytes) +
                       " bytes of contents; unpack it with gunzip, then it is "
                       "read in place");
      // Let memory grow with what is there, since a file may claim any size.
      contents->resize(size_t(std::min<uint64_t>(
          maxBytes, std::max(kLeast, written + written / 2))));
    }
    const size_t input = std::min(size - read, kPiece);
    const size_t room = std::min(contents->size() - written, kPiece);
    stream.next_in = reinterpret_cast<Bytef *>(
        const_cast<std::byte *>(data + read)); // zlib does not write there
    stream.avail_in = uInt(input);
    stream.next_out = reinterpret_cast<Bytef *>(contents->data() + written);
    stream.avail_out = uInt(room);
    const int result = inflate(&stream, Z_NO_FLUSH);
    read += input - stream.avail_in;
    written += room - stream.avail_out;
    if (result == Z_STREAM_END) {
      if (read == size)
        break;
      if (!looksLikeGzip(data + read, size - read))
        return damaged("corrupt gzip file: " + std::to_string(size - read) +
                       " bytes follow its end");
      inflateReset(&stream);
    } else if (result == Z_MEM_ERROR) {
      return Status(StatusCode::IO, where + ": does not fit in memory");
    } else if (result == Z_DATA_ERROR || result == Z_NEED_DICT) {
      return damaged(std::string("corrupt gzip file: ") +
                     (stream.msg ? stream.msg : "unknown dictionary"));
    } else if (read == size && stream.avail_out > 0) {
      return damaged("truncated gzip file: it ends after " +
                     std::to_string(written) + " bytes of contents");
    }
  }
  contents->resize(written);
  return std::shared_ptr<const std::vector<std::byte>>(std::move(contents));
}

} // namespace mpc::runtime::train
