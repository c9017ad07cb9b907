// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/checkpoint/ModelTemplate.h"

#include "runtime/BoundedJSON.h"
#include "runtime/train/support/FileSystem.h"

#include <algorithm>
#include <deque>
#include <nlohmann/json.hpp>

namespace mpc::runtime::train {

using nlohmann::json;

static Status refuseTemplate(const Artifact &artifact,
                             const std::string &problem) {
  return Status(StatusCode::InvalidInput,
                artifact.name() +
                    ": its model template is malformed: " + problem);
}

/// Reads a count of `object`; nullopt if there is none.
static std::optional<uint64_t> countIn(const json &object, const char *key) {
  const json value = object.is_object() ? object.value(key, json()) : json();
  return value.is_number_unsigned() ? std::optional(value.get<uint64_t>())
                                    : std::nullopt;
}

static std::string textIn(const json &object, const char *key) {
  const json value = object.is_object() ? object.value(key, json()) : json();
  return value.is_string() ? value.get<std::string>() : "";
}

/// Appends the bytes of `weight` in the type `type` to `chunks`. `converted`
/// keeps bytes alive that are no part of the weight.
static Status appendValue(const Array &weight, DType type,
                          std::deque<Tensor> &converted,
                          std::vector<std::string_view> &chunks) {
  if (weight.type == toElementType(type)) {
    chunks.emplace_back(reinterpret_cast<const char *>(weight.data),
                        size_t(weight.bytes()));
    return Status();
  }
  StatusOr<Tensor> value = toTensor(weight, type);
  // Only a value that the narrower type cannot hold fails.
  if (!value.ok())
    return Status(StatusCode::Numeric, value.status().message() +
                                           ", the type in the model; write "
                                           ".safetensors");
  converted.push_back(std::move(*value));
  const Tensor &kept = converted.back();
  chunks.emplace_back(reinterpret_cast<const char *>(kept.bytes.data()),
                      kept.bytes.size());
  return Status();
}

Status writeModel(const Artifact &artifact, const std::vector<Array> &weights,
                  const std::string &path) {
  const BoundedDocument document(artifact.planText());
  const json &model = document.json["model"];
  const auto found = model.find("template");
  if (found == model.end()) {
    const std::string why = textIn(model, "no_template");
    return Status(
        StatusCode::Unsupported,
        artifact.name() +
            ": the artifact does not hold its ONNX "
            "model" +
            (why.empty()
                 ? "; compile the model with a loss and an optimizer, or"
                 : ": " + abbreviated(why) + ";") +
            " write .safetensors");
  }
  const auto offset = countIn(*found, "offset");
  const auto bytes = countIn(*found, "bytes");
  if (!offset || !bytes || *offset > artifact.dataBytes() ||
      *bytes > artifact.dataBytes() - *offset)
    return refuseTemplate(artifact, "it is not within the data section");
  const std::string_view text(
      reinterpret_cast<const char *>(artifact.data()) + *offset, *bytes);

  static const json none;
  const auto listed = found->find("holes");
  const json &holes = listed == found->end() ? none : *listed;
  std::vector<std::string_view> chunks;
  std::deque<Tensor> converted;
  uint64_t position = 0;
  for (const json &hole : holes) {
    const std::string name = textIn(hole, "name");
    const auto weight =
        std::find_if(weights.begin(), weights.end(),
                     [&](const Array &array) { return array.name == name; });
    const auto type = symbolize<DType>(textIn(hole, "type"));
    const auto begin = countIn(hole, "position");
    if (weight == weights.end() || !type || !runtime::isFloat(*type) ||
        !begin || *begin < position || *begin > text.size())
      return refuseTemplate(artifact, "the place of '" + abbreviated(name) +
                                          "' is not valid");
    chunks.push_back(text.substr(position, *begin - position));
    position = *begin;
    if (Status status = appendValue(*weight, *type, converted, chunks);
        !status.ok())
      return status;
  }
  if (!holes.is_array() || holes.size() != weights.size())
    return refuseTemplate(artifact, "it takes " + std::to_string(holes.size()) +
                                        " tensors, the state has " +
                                        std::to_string(weights.size()));
  chunks.push_back(text.substr(position));
  return replaceFile(path, chunks);
}

} // namespace mpc::runtime::train
