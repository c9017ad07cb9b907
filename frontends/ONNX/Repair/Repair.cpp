// The order of the repairs.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Repair/Repair.h"

#include "frontends/ONNX/Repair/AtenNodes.h"
#include "frontends/ONNX/Repair/Comments.h"
#include "frontends/ONNX/Repair/DroppedAbsolutes.h"
#include "frontends/ONNX/Repair/DroppedBiases.h"
#include "frontends/ONNX/Repair/DroppedLosses.h"
#include "frontends/ONNX/Repair/DroppedStops.h"
#include "frontends/ONNX/Repair/MendedForms.h"
#include "frontends/ONNX/Repair/MendedNodes.h"
#include "frontends/ONNX/Repair/MergedInitializers.h"
#include "frontends/ONNX/Repair/RandomMasks.h"
#include "frontends/ONNX/Repair/RepeatedElements.h"
#include "frontends/ONNX/Repair/RepeatedInitializers.h"
#include "frontends/ONNX/Repair/ScopedWeights.h"
#include "frontends/ONNX/Repair/SplitInitializers.h"
#include "frontends/ONNX/Repair/StackedGemms.h"
#include "frontends/ONNX/Repair/TransposedWeights.h"

using namespace mpc::onnx_frontend;

llvm::Error mpc::onnx_frontend::repair(Model &model) {
  std::vector<std::string> &warnings = model.getWarnings();
  if (llvm::Error error = dropRepeatedInitializers(model, warnings))
    return error;
  dropComments(model, warnings);
  restoreLosses(model, warnings);
  mendNodes(model, warnings);
  if (llvm::Error error = mendForms(model, warnings))
    return error;
  model.readOpsets();
  splitStackedGemms(model, warnings);
  for (std::string note : {replaceAtenNodes(model), separateInitializers(model),
                           restoreWeights(model), joinInitializers(model),
                           restoreBiases(model), restoreStops(model, warnings),
                           joinRepeats(model), nameScopedWeights(model),
                           restoreAbsolutes(model), replaceRandomMasks(model)})
    if (!note.empty())
      model.getNotes().push_back(std::move(note));
  return llvm::Error::success();
}

llvm::Expected<std::shared_ptr<Model>>
mpc::onnx_frontend::readRepaired(llvm::StringRef path,
                                 mlir::MLIRContext *context) {
  auto model = Model::read(path, context);
  if (model)
    if (llvm::Error error = repair(**model))
      return error;
  return model;
}
