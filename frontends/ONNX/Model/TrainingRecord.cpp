// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Model/TrainingRecord.h"

#include "frontends/ONNX/Model/File.h"
#include "frontends/ONNX/Model/ONNXProto.h"

#include "llvm/ADT/STLExtras.h"

#include <algorithm>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/wire_format_lite.h>

using namespace mpc::onnx_frontend;
using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

bool mpc::onnx_frontend::isRecordKey(llvm::StringRef key) {
  return llvm::is_contained({kRecordVersion, kRecordClasses, kRecordLoss,
                             kRecordMetrics, kRecordPrecision, kPreparation},
                            key);
}

namespace {
/// Feeds a regular file to protobuf. Skipped bytes are not read.
class SkippingInput : public google::protobuf::io::CopyingInputStream {
public:
  SkippingInput(const File &file, int64_t size) : file(file), size(size) {}

  int Read(void *buffer, int count) override {
    count = take(count);
    llvm::Error error = file.read(position - count,
                                  {static_cast<char *>(buffer), size_t(count)});
    if (!error)
      return count;
    llvm::consumeError(std::move(error));
    return -1;
  }
  int Skip(int count) override { return take(count); }

private:
  int take(int count) {
    count = static_cast<int>(std::min<int64_t>(count, size - position));
    position += count;
    return count;
  }

  const File &file;
  const int64_t size;
  int64_t position = 0;
};
} // namespace

// Reads one entry of metadata_props. False if the file ends early.
static bool readEntry(CodedInputStream &input, TrainingRecord &record) {
  // An entry has a key, a value, and a few bytes for tags and lengths.
  constexpr uint32_t overhead = 64, beginning = 32;
  uint32_t length = 0;
  if (!input.ReadVarint32(&length))
    return false;
  const bool isOversized = length > kLargestRecordEntry + overhead;
  const uint32_t read = isOversized ? beginning : length;
  std::string bytes;
  if (!input.ReadString(&bytes, static_cast<int>(read)))
    return false;
  if (isOversized) {
    // The key is the first field of an entry: a tag, a length, the text.
    record.hasOversized |=
        llvm::StringRef(bytes).drop_front(2).starts_with("mpc.");
    return input.Skip(static_cast<int>(length - read));
  }
  proto::StringStringEntryProto entry;
  if (entry.ParseFromString(bytes) && isRecordKey(entry.key()))
    record.entries.try_emplace(entry.key(), entry.value());
  return true;
}

TrainingRecord mpc::onnx_frontend::readTrainingRecord(llvm::StringRef path) {
  TrainingRecord record;
  // Standard input can be read only once, by the importer.
  if (path == kStandardInput)
    return record;
  llvm::Expected<File> file = File::open(path);
  if (!file) {
    llvm::consumeError(file.takeError());
    return record;
  }
  SkippingInput bytes(*file, file->getSize().value_or(0));
  google::protobuf::io::CopyingInputStreamAdaptor stream(&bytes, 4096);
  CodedInputStream input(&stream);
  const uint32_t wanted =
      WireFormatLite::MakeTag(proto::ModelProto::kMetadataPropsFieldNumber,
                              WireFormatLite::WIRETYPE_LENGTH_DELIMITED);
  while (uint32_t tag = input.ReadTag())
    if (!(tag == wanted ? readEntry(input, record)
                        : WireFormatLite::SkipField(&input, tag)))
      break;
  return record;
}
