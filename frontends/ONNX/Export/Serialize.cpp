// Writes models with one weight in memory at a time.
//
// A message field consists of a tag, a length and fields in numerical order. So
// data can be withheld from protobuf and inserted at the right position of the
// output:
//
//   ModelProto   fields 1 to 6 | 7: graph                         | 8 and more
//   GraphProto                   fields 1, 2 | 5: initializer ... | 10 and more
//   TensorProto                    fields 1 to 8 | 9: raw_data    | 10 and more
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Export/Serialize.h"

#include <cassert>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>
#include <memory>
#include <vector>

using namespace mpc::onnx_frontend;
using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;
using google::protobuf::io::CodedOutputStream;

namespace {

/// The bytes of a message without field `field`, cut at the field's position:
/// `before` has the fields of lower numbers, `after` the fields of higher
/// numbers.
struct Halves {
  Halves(const google::protobuf::MessageLite &message, int field);

  uint64_t size() const { return before.size() + after.size(); }

  std::string before, after;
};

} // namespace

Halves::Halves(const google::protobuf::MessageLite &message, int field)
    : before(message.SerializePartialAsString()) {
  CodedInputStream input(reinterpret_cast<const uint8_t *>(before.data()),
                         static_cast<int>(before.size()));
  // Skip all fields up to the first with a greater number.
  int begin = 0;
  while (uint32_t tag = input.ReadTag()) {
    if (WireFormatLite::GetTagFieldNumber(tag) > field)
      break;
    WireFormatLite::SkipField(&input, tag);
    begin = input.CurrentPosition();
  }
  after = before.substr(begin);
  before.resize(begin);
}

static uint32_t makeTag(int field) {
  return WireFormatLite::MakeTag(field,
                                 WireFormatLite::WIRETYPE_LENGTH_DELIMITED);
}

/// Returns the size of a field in bytes: tag, length, and `bytes` bytes of
/// content.
static uint64_t sizeOfField(int field, uint64_t bytes) {
  return CodedOutputStream::VarintSize32(makeTag(field)) +
         CodedOutputStream::VarintSize64(bytes) + bytes;
}

static void writeStart(int field, uint64_t bytes, CodedOutputStream &output) {
  output.WriteTag(makeTag(field));
  output.WriteVarint64(bytes);
}

/// Returns the size in bytes of an initializer with its elements.
static uint64_t sizeOf(const proto::TensorProto &tensor,
                       const RawElements &elements) {
  std::optional<uint64_t> raw = elements.countBytes(tensor);
  return tensor.ByteSizeLong() +
         (raw ? sizeOfField(proto::TensorProto::kRawDataFieldNumber, *raw) : 0);
}

static void write(const proto::TensorProto &tensor, const RawElements &elements,
                  CodedOutputStream &output) {
  std::optional<uint64_t> raw = elements.countBytes(tensor);
  if (!raw) {
    tensor.SerializePartialToCodedStream(&output);
    return;
  }
  const Halves halves(tensor, proto::TensorProto::kRawDataFieldNumber);
  output.WriteString(halves.before);
  writeStart(proto::TensorProto::kRawDataFieldNumber, *raw, output);
  if (elements.leaveOut) {
    elements.leaveOut(tensor, static_cast<uint64_t>(output.ByteCount()));
  } else {
    HostTensor value = elements.get(tensor);
    assert(value.data.size() == *raw && "the size was said before");
    output.WriteRaw(value.data.data(), static_cast<int>(value.data.size()));
  }
  output.WriteString(halves.after);
}

bool mpc::onnx_frontend::serialize(
    proto::ModelProto &model, const RawElements &elements,
    google::protobuf::io::ZeroCopyOutputStream &stream) {
  // Separate the initializers from the graph, and the graph from the model.
  google::protobuf::RepeatedPtrField<proto::TensorProto> initializers;
  const bool hasGraph = model.has_graph();
  std::unique_ptr<proto::GraphProto> graph(hasGraph ? model.release_graph()
                                                    : new proto::GraphProto());
  initializers.Swap(graph->mutable_initializer());
  const Halves outer(model, proto::ModelProto::kGraphFieldNumber);
  const Halves inner(*graph, proto::GraphProto::kInitializerFieldNumber);

  // A length precedes its content, so compute all sizes first.
  const int field = proto::GraphProto::kInitializerFieldNumber;
  std::vector<uint64_t> sizes;
  uint64_t graphBytes = inner.size();
  for (const proto::TensorProto &tensor : initializers)
    graphBytes +=
        sizeOfField(field, sizes.emplace_back(sizeOf(tensor, elements)));

  // Write one initializer at a time: a second copy of all weights may not fit
  // into memory.
  CodedOutputStream output(&stream);
  output.WriteString(outer.before);
  if (hasGraph) {
    writeStart(proto::ModelProto::kGraphFieldNumber, graphBytes, output);
    output.WriteString(inner.before);
    for (int i = 0; i < initializers.size(); ++i) {
      writeStart(field, sizes[static_cast<size_t>(i)], output);
      write(initializers[i], elements, output);
    }
    output.WriteString(inner.after);
  }
  output.WriteString(outer.after);

  // Put the graph and its initializers back into the model.
  initializers.Swap(graph->mutable_initializer());
  if (hasGraph)
    model.set_allocated_graph(graph.release());
  output.Trim();
  return !output.HadError();
}
