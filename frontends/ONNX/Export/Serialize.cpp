// Writing of models, one weight in memory at a time.
//
// A field that is a message is its tag, its length and its own fields, in the
// order of their numbers. What is left out of a message while protobuf writes
// it can so be put where it belongs:
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

/// The bytes of a message without one field, cut where the field belongs:
/// `before` has the fields of lower numbers, `after` those of higher ones.
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
  // Up to the first field of a greater number.
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

/// The bytes that a field takes: its tag, its length, and `bytes` of content.
static uint64_t sizeOfField(int field, uint64_t bytes) {
  return CodedOutputStream::VarintSize32(makeTag(field)) +
         CodedOutputStream::VarintSize64(bytes) + bytes;
}

static void writeStart(int field, uint64_t bytes, CodedOutputStream &output) {
  output.WriteTag(makeTag(field));
  output.WriteVarint64(bytes);
}

/// The bytes that an initializer takes with its elements.
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
  HostTensor value = elements.get(tensor);
  assert(value.data.size() == *raw && "the size was said before");
  output.WriteRaw(value.data.data(), static_cast<int>(value.data.size()));
  output.WriteString(halves.after);
}

bool mpc::onnx_frontend::serialize(
    proto::ModelProto &model, const RawElements &elements,
    google::protobuf::io::ZeroCopyOutputStream &stream) {
  // The graph without its initializers, and the model without its graph.
  google::protobuf::RepeatedPtrField<proto::TensorProto> initializers;
  const bool hasGraph = model.has_graph();
  std::unique_ptr<proto::GraphProto> graph(hasGraph ? model.release_graph()
                                                    : new proto::GraphProto());
  initializers.Swap(graph->mutable_initializer());
  const Halves outer(model, proto::ModelProto::kGraphFieldNumber);
  const Halves inner(*graph, proto::GraphProto::kInitializerFieldNumber);

  // Lengths come first.
  const int field = proto::GraphProto::kInitializerFieldNumber;
  std::vector<uint64_t> sizes;
  uint64_t graphBytes = inner.size();
  for (const proto::TensorProto &tensor : initializers)
    graphBytes +=
        sizeOfField(field, sizes.emplace_back(sizeOf(tensor, elements)));

  // Initializers go out one at a time, so that no second copy of all weights is
  // in memory.
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

  // All as it was.
  initializers.Swap(graph->mutable_initializer());
  if (hasGraph)
    model.set_allocated_graph(graph.release());
  output.Trim();
  return !output.HadError();
}
