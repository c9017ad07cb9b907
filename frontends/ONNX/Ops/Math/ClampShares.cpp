// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Ops/Math/ClampShares.h"

#include "frontends/ONNX/Model/ExportedProgram.h"
#include "frontends/ONNX/Model/Metadata.h"

using namespace mpc;
using namespace mpc::onnx_frontend;
using llvm::StringRef;

// True if PyTorch 2.15 or later wrote the file.
static bool isOfPyTorchSince215(const proto::ModelProto &model) {
  StringRef version = model.producer_version();
  unsigned major = 0, minor = 0;
  return model.producer_name() == "pytorch" &&
         !version.consumeInteger(10, major) && version.consume_front(".") &&
         !version.consumeInteger(10, minor) &&
         std::pair(major, minor) >= std::pair(2u, 15u);
}

// True if the metadata or the name of `node` say that PyTorch's exporter wrote
// the node for `function`, such as "clamp" or "clamp_min".
static bool isWrittenFor(const proto::NodeProto &node, StringRef function) {
  StringRef call = findMetadata(node, kProgramCall);
  return call.contains(("aten." + function).str()) ||
         StringRef(node.name()).starts_with(("node_" + function).str());
}

// True if the metadata of `node` say that a bound of PyTorch's clamp is a
// number. The exporter turns such a number into a tensor with "scalar_tensor"
// in its name, or calls the overload "default".
static bool clampsAtNumber(const proto::NodeProto &node) {
  StringRef call = findMetadata(node, kProgramCall);
  return call.contains("%scalar_tensor") || call.contains(".default]");
}

std::optional<double> mpc::onnx_frontend::findShareAtBound(NodeImporter &node) {
  const proto::NodeProto &proto = node.getNode();
  if (!isWrittenFor(proto, "clamp") || node.getNumInputs() != 2)
    return std::nullopt;
  if (!isOfPyTorchSince215(node.getFunction().getModel().getProto()))
    return 1.0;
  return clampsAtNumber(proto) ? std::optional(0.0) : std::nullopt;
}

std::optional<double>
mpc::onnx_frontend::findShareInClip(NodeImporter &node,
                                    std::optional<double> min,
                                    std::optional<double> max, bool areKnown) {
  const proto::NodeProto &proto = node.getNode();
  if (isWrittenFor(proto, "hardtanh") || isWrittenFor(proto, "relu6") ||
      (min == 0.0 && max == 6.0))
    return 0.0;
  if (!isOfPyTorchSince215(node.getFunction().getModel().getProto()))
    return 1.0;
  const bool namesClamp = findMetadata(proto, kProgramCall).contains("clamp");
  const bool atTensor = !clampsAtNumber(proto) && (namesClamp || !areKnown);
  return atTensor ? std::nullopt : std::optional(0.0);
}
