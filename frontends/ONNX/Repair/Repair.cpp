// Runs the repairs.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Repair/Repair.h"

using namespace mpc::onnx_frontend;

llvm::ArrayRef<RepairInfo> mpc::onnx_frontend::getRepairs() {
  static constexpr RepairInfo repairs[] = {
#define MPC_REPAIR(FUNCTION, ...) {__VA_ARGS__, FUNCTION, nullptr},
#define MPC_LOSS(FUNCTION, ...) {__VA_ARGS__, nullptr, FUNCTION},
#include "frontends/ONNX/Repair/Repairs.def"
  };
  return repairs;
}

void mpc::onnx_frontend::printRepairs(llvm::raw_ostream &os) {
  os << "| defect | exporter | repaired | you do | name |\n"
     << "|---|---|---|---|---|\n";
  for (const RepairInfo &info : getRepairs())
    os << "| " << info.defect << " | " << info.exporter << " | "
       << info.repaired << " | " << info.remedy << " | `" << info.name
       << "` |\n";
}

static std::string nameFlag(llvm::StringRef repair) {
  return ("; --no-repair " + repair + " leaves the file as it is").str();
}

void RepairContext::note(std::string message) {
  if (!message.empty())
    model.addToLog({repair, /*isNote=*/true, message + nameFlag(repair)});
}

void RepairContext::warn(std::string message) {
  model.addToLog({repair, /*isNote=*/false, message + nameFlag(repair)});
}

void RepairContext::warnOfLoss(std::string message) {
  model.addToLog({repair, /*isNote=*/false, std::move(message)});
}

llvm::StringSet<> RepairContext::findNames() const {
  proto::ModelProto &file = model.getProto();
  llvm::StringSet<> names;
  auto addNodes = [&](const auto &nodes) {
    for (const proto::NodeProto &node : nodes)
      names.insert(node.output().begin(), node.output().end());
  };
  for (const proto::GraphProto *graph : findGraphs(file)) {
    for (const proto::TensorProto &tensor : graph->initializer())
      names.insert(tensor.name());
    for (const proto::ValueInfoProto &input : graph->input())
      names.insert(input.name());
    addNodes(graph->node());
  }
  for (const proto::FunctionProto &function : file.functions()) {
    names.insert(function.input().begin(), function.input().end());
    addNodes(function.node());
  }
  return names;
}

llvm::Error mpc::onnx_frontend::repair(Model &model) {
  for (const RepairInfo &info : getRepairs()) {
    if (!info.rewrite || model.skipsRepair(info.name))
      continue;
    RepairContext context(model, info.name);
    if (llvm::Error error = info.rewrite(context))
      return error;
  }
  return llvm::Error::success();
}

void mpc::onnx_frontend::warnOfLosses(const LossContext &context) {
  for (const RepairInfo &info : getRepairs())
    if (info.warn && !context.getModel().skipsRepair(info.name))
      info.warn(context);
}

llvm::Expected<std::shared_ptr<Model>>
mpc::onnx_frontend::readRepaired(llvm::StringRef path,
                                 mlir::MLIRContext *context,
                                 llvm::ArrayRef<std::string> skipped) {
  auto model = Model::read(path, context);
  if (!model)
    return model;
  if (llvm::is_contained(skipped, kAllRepairs)) {
    std::vector<std::string> names;
    for (const RepairInfo &info : getRepairs())
      names.push_back(info.name.str());
    (*model)->skipRepairs(names);
  } else {
    (*model)->skipRepairs(skipped);
  }
  if (llvm::Error error = repair(**model))
    return error;
  return model;
}
