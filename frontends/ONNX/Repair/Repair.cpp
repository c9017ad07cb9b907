// Checks a file and runs the repairs.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Repair/Repair.h"

#include "frontends/ONNX/Model/CheckModel.h"

using namespace mpc::onnx_frontend;

llvm::ArrayRef<RepairInfo> mpc::onnx_frontend::getRepairs() {
  static constexpr RepairInfo repairs[] = {
#define MPC_UNCHECKED_REPAIR(FUNCTION, ...)                                    \
  {__VA_ARGS__, RepairTime::BeforeCheck, FUNCTION, nullptr},
#define MPC_REPAIR(FUNCTION, ...)                                              \
  {__VA_ARGS__, RepairTime::AfterCheck, FUNCTION, nullptr},
#define MPC_LOSS(FUNCTION, ...)                                                \
  {__VA_ARGS__, RepairTime::AfterImport, nullptr, FUNCTION},
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

// True if a graph of the file has sparse initializers.
static bool hasSparseInitializers(Model &model) {
  return llvm::any_of(findGraphs(model.getProto()),
                      [](const proto::GraphProto *graph) {
                        return graph->sparse_initializer_size() != 0;
                      });
}

// Checks the model after the repair `name`. The file was valid before, so a
// finding is a fault of the repair.
static llvm::Error checkRepaired(const Model &model, llvm::StringRef name) {
  llvm::Error error = checkModel(model);
  if (!error)
    return error;
  llvm::Error errors = model.error(
      ErrorKind::Internal,
      "the repair " + name + " has made the file invalid" + nameFlag(name));
  for (const std::string &message : takeFindings(std::move(error)).messages)
    errors = llvm::joinErrors(std::move(errors),
                              makeError(ErrorKind::Internal, message));
  return errors;
}

llvm::Error mpc::onnx_frontend::repair(Model &model,
                                       llvm::ArrayRef<RepairInfo> repairs) {
  // Graph refuses sparse initializers, also in graphs that the import never
  // reads. Such a file is repaired without checks.
  const bool isChecked = !hasSparseInitializers(model);
  auto runAll = [&](RepairTime time) -> llvm::Error {
    for (const RepairInfo &info : repairs) {
      if (info.time != time || model.skipsRepair(info.name))
        continue;
      RepairContext context(model, info.name);
      if (llvm::Error error = info.rewrite(context))
        return error;
      if (time == RepairTime::BeforeCheck || !isChecked)
        continue;
      if (llvm::Error error = checkRepaired(model, info.name))
        return error;
    }
    return llvm::Error::success();
  };
  if (llvm::Error error = runAll(RepairTime::BeforeCheck))
    return error;
  if (isChecked)
    if (llvm::Error error = checkModel(model))
      return error;
  return runAll(RepairTime::AfterCheck);
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
