// Implements ModuleImporter: variables, roles, errors, and the final
// verification.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Importer/Importer.h"

#include "compiler/Dialect/MPC/Fold/ConstantElements.h"
#include "frontends/ONNX/Model/Names.h"
#include "runtime/VariableNames.h"

#include "mlir/IR/Verifier.h"

#include <cmath>

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx_frontend;

std::string mpc::onnx_frontend::getVariableName(StringRef onnxName) {
  return isReservedOrEscaped(onnxName)
             ? std::string(kVariableEscape) + onnxName.str()
             : onnxName.str();
}

StringRef mpc::onnx_frontend::getONNXName(StringRef variableName) {
  return onnxNameOf(variableName);
}

ModuleImporter::ModuleImporter(const ImportOptions &options,
                               MLIRContext *context, Rebatch *rebatch)
    : options(options),
      trainableScalars(makeNamePatterns(options.trainableScalars)),
      context(context), rebatch(rebatch) {
  context->loadDialect<MPCDialect, func::FuncDialect>();
  module = ModuleOp::create(UnknownLoc::get(context));
}

// Declares a variable. In the module, variables come before functions, in the
// order of their first use.
VariableOp ModuleImporter::declare(StringRef symbol, Role role,
                                   RankedTensorType type, ElementsAttr init) {
  assert(!module->lookupSymbol(symbol) && "a variable is declared once");
  auto builder = OpBuilder::atBlockBegin(module->getBody());
  if (lastVariable)
    builder.setInsertionPointAfter(lastVariable);
  auto loc = NameLoc::get(builder.getStringAttr(symbol));
  lastVariable = VariableOp::create(
      builder, loc, builder.getStringAttr(symbol), TypeAttr::get(type),
      RoleAttr::get(context, role), init, FloatAttr(), StringAttr());
  return lastVariable;
}

// Describes the first NaN or infinity, such as "nan at [2,3]"; empty if all
// elements are finite.
static std::string findNonFinite(const HostTensor &tensor) {
  std::optional<int64_t> index = tensor.findNonFinite();
  if (!index)
    return {};
  std::string place;
  int64_t rest = *index;
  for (int64_t extent : llvm::reverse(tensor.getShape())) {
    place = std::to_string(rest % extent) + (place.empty() ? "" : ",") + place;
    rest /= extent;
  }
  double value = tensor.getDouble(*index);
  const char *what = std::isnan(value) ? "nan" : value < 0 ? "-inf" : "inf";
  return std::string(what) + " at [" + place + "]";
}

VariableOp ModuleImporter::getVariable(StringRef name, Role role,
                                       RankedTensorType type,
                                       const HostTensor *init) {
  VariableOp &variable = variables[name];
  if (variable)
    return variable;
  assert((!init || init->type == type) && "an initial value has the type");
  std::string found;
  if (init && readsValues())
    found = findNonFinite(*init);
  // Do not warn of infinities in tensors that are not trained: attention masks
  // hold -inf.
  bool isMask = role == Role::Frozen && StringRef(found).contains("inf");
  if (!found.empty() && !isMask)
    warn("initial value of '" + name + "' holds " + found);
  std::string symbol = getVariableName(name);
  variable = declare(symbol, role, type,
                     init ? toAttribute(*init, symbol) : ElementsAttr());
  return variable;
}

bool ModuleImporter::readsValues() const {
  return options.readsValues && !(rebatch && rebatch->isRecording());
}

ElementsAttr ModuleImporter::toAttribute(const HostTensor &tensor,
                                         StringRef name) const {
  bool isSmall = tensor.getNumElements() <= kMostFoldedElements;
  if (readsValues() || isSmall)
    return tensor.toAttribute(name);
  Attribute zero = Builder(context).getZeroAttr(tensor.type.getElementType());
  return DenseElementsAttr::get(tensor.type, zero);
}

int64_t ModuleImporter::getBatchAxis(StringRef name,
                                     RankedTensorType type) const {
  if (auto given = options.batchAxes.find(name.str());
      given != options.batchAxes.end())
    return given->second;
  return type.getRank() == 0 ? kNoBatchAxis : 0;
}

// A float tensor that is not trained by default becomes frozen state, so that
// the user can select it for training. A scalar, or a number that an exporter
// computed, becomes state only if --train selects it.
std::optional<Role>
ModuleImporter::getParameterRole(StringRef name, RankedTensorType type) const {
  if (trainable.contains(name))
    return Role::Parameter;
  const bool selected = matchesAny(trainableScalars, name);
  const bool isConstant = type.getRank() == 0 || constants.contains(name);
  return !isConstant || selected ? std::optional(Role::Frozen) : std::nullopt;
}

VariableOp ModuleImporter::getCounter(StringRef name) {
  assert(isReservedSymbol(name) && "counters have names of mpc's own");
  // Use `name` as symbol, without the prefix "onnx:": a counter is mpc's own
  // variable, no ONNX value.
  VariableOp &variable = counters[name];
  if (!variable)
    variable = declare(name, Role::Counter,
                       RankedTensorType::get({}, IntegerType::get(context, 64)),
                       ElementsAttr());
  return variable;
}

bool ModuleImporter::succeeds(llvm::function_ref<void()> attempt) {
  llvm::Error before = std::move(errors);
  bool failedBefore = failed;
  errors = llvm::Error::success();
  failed = false;
  attempt();
  bool succeeded = !failed;
  llvm::consumeError(std::move(errors));
  errors = std::move(before);
  failed = failedBefore;
  return succeeded;
}

llvm::Expected<OwningOpRef<ModuleOp>> ModuleImporter::finish() {
  if (failed)
    return std::move(errors);
  std::string message;
  ScopedDiagnosticHandler handler(context, [&](Diagnostic &diagnostic) {
    if (message.empty())
      message = diagnostic.str();
    return success();
  });
  llvm::cantFail(std::move(errors));
  // Every op was verified when created, so a failure here is a bug of mpc.
  if (mlir::failed(verify(*module)))
    return makeError(ErrorKind::Internal,
                     "internal error of the importer: " + message);
  return std::move(module);
}
