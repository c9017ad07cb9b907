// SPDX-License-Identifier: Apache-2.0
#include "compiler/Dialect/AMP/Request.h"

#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/Hashing.h"
#include "llvm/ADT/STLExtras.h"

#include <cmath>

using namespace mlir;
using namespace mpc::amp;

bool Request::operator==(const Request &other) const {
  return mode == other.mode && lossScale == other.lossScale &&
         policy == other.policy && keepFP32 == other.keepFP32 &&
         forceLow == other.forceLow && tf32 == other.tf32;
}

// Hashes two fields only: a process holds few requests, so collisions do not
// matter.
llvm::hash_code mpc::amp::hash_value(const Request &request) {
  return llvm::hash_combine(request.mode, request.policy);
}

LossScaling Request::getLossScaling() const {
  bool isDynamic = mode == PrecisionMode::FP16Mixed;
  LossScaling usual{isDynamic ? LossScale::Dynamic : LossScale::None};
  return lossScale.value_or(usual);
}

//===----------------------------------------------------------------------===//
// Text of flags
//===----------------------------------------------------------------------===//

llvm::Expected<PrecisionMode>
mpc::amp::parsePrecisionMode(StringRef text, bool &isUnsupported) {
  isUnsupported = llvm::is_contained({"16-true", "bf16-true", "auto"}, text);
  if (std::optional<PrecisionMode> mode = symbolizePrecisionMode(text))
    return *mode;
  constexpr llvm::StringLiteral expected =
      "expected 32-true, 16-mixed, bf16-mixed or 64-true";
  if (isUnsupported)
    return llvm::createStringError("precision '" + text +
                                   "' is not supported, " + expected);
  return llvm::createStringError("unknown precision '" + text + "', " +
                                 expected);
}

// True if a run can hold the scale, which is float32 there: 1e39 rounds to
// infinity.
static bool isStorableScale(double scale) {
  const auto stored = static_cast<float>(scale);
  return std::isfinite(stored) && stored > 0.0f;
}

llvm::Expected<LossScaling> mpc::amp::parseLossScaling(StringRef text) {
  std::optional<LossScale> named = symbolizeLossScale(text);
  if (named && *named != LossScale::Static)
    return LossScaling{*named};
  LossScaling scaling{LossScale::Static};
  bool isNumber = !text.getAsDouble(scaling.scale);
  if (isNumber && isStorableScale(scaling.scale))
    return scaling;
  return llvm::createStringError("expected a loss scale of dynamic, none or a "
                                 "number above 0, found '" +
                                 text + "'");
}

//===----------------------------------------------------------------------===//
// The attribute
//===----------------------------------------------------------------------===//

static void printTexts(AsmPrinter &printer, StringRef field,
                       const std::vector<std::string> &texts) {
  if (texts.empty())
    return;
  printer << ", " << field << " = [";
  llvm::interleaveComma(
      texts, printer.getStream(),
      [&](const std::string &text) { printer.printString(text); });
  printer << "]";
}

void RequestAttr::print(AsmPrinter &printer) const {
  const Request &request = getValue();
  printer << "<";
  printer.printString(stringifyPrecisionMode(request.mode));
  if (request.lossScale) {
    printer << ", loss_scale = ";
    if (request.lossScale->kind == LossScale::Static)
      printer.printFloat(llvm::APFloat(request.lossScale->scale));
    else
      printer << stringifyLossScale(request.lossScale->kind);
  }
  if (!request.policy.empty()) {
    printer << ", policy = ";
    printer.printString(request.policy);
  }
  printTexts(printer, "keep_fp32", request.keepFP32);
  printTexts(printer, "force_low", request.forceLow);
  if (request.tf32)
    printer << ", tf32 = true";
  printer << ">";
}

static ParseResult parseScaling(AsmParser &parser,
                                std::optional<LossScaling> &scaling) {
  LossScaling parsed;
  StringRef word;
  SMLoc location = parser.getCurrentLocation();
  if (succeeded(parser.parseOptionalKeyword(&word, {"dynamic", "none"}))) {
    parsed.kind = *symbolizeLossScale(word);
  } else {
    parsed.kind = LossScale::Static;
    if (parser.parseFloat(parsed.scale))
      return failure();
    if (!isStorableScale(parsed.scale))
      return parser.emitError(location, "expected a loss scale above 0, found ")
             << parsed.scale;
  }
  scaling = parsed;
  return success();
}

static ParseResult parseTexts(AsmParser &parser,
                              std::vector<std::string> &texts) {
  return parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, [&] {
    return parser.parseString(&texts.emplace_back());
  });
}

static ParseResult parseTruth(AsmParser &parser, bool &value) {
  StringRef word;
  if (parser.parseOptionalKeyword(&word, {"true", "false"}))
    return parser.emitError(parser.getCurrentLocation(),
                            "expected true or false");
  value = word == "true";
  return success();
}

Attribute RequestAttr::parse(AsmParser &parser, Type) {
  Request request;
  std::string mode;
  SMLoc location = parser.getCurrentLocation();
  if (parser.parseLess() || parser.parseString(&mode))
    return {};
  bool isUnsupported = false;
  llvm::Expected<PrecisionMode> known = parsePrecisionMode(mode, isUnsupported);
  if (!known) {
    parser.emitError(location, llvm::toString(known.takeError()));
    return {};
  }
  request.mode = *known;
  while (succeeded(parser.parseOptionalComma())) {
    StringRef field;
    location = parser.getCurrentLocation();
    if (parser.parseKeyword(&field) || parser.parseEqual())
      return {};
    ParseResult parsed =
        field == "loss_scale"  ? parseScaling(parser, request.lossScale)
        : field == "policy"    ? parser.parseString(&request.policy)
        : field == "keep_fp32" ? parseTexts(parser, request.keepFP32)
        : field == "force_low" ? parseTexts(parser, request.forceLow)
        : field == "tf32"
            ? parseTruth(parser, request.tf32)
            : parser.emitError(location, "a request has no field '")
                  << field << "'";
    if (parsed)
      return {};
  }
  if (parser.parseGreater())
    return {};
  return get(parser.getContext(), std::move(request));
}

//===----------------------------------------------------------------------===//
// The request attribute of a module
//===----------------------------------------------------------------------===//

Request mpc::amp::getRequest(ModuleOp module) {
  auto request = module->getAttrOfType<RequestAttr>(kRequestAttr);
  return request ? request.getValue() : Request();
}

void mpc::amp::setRequest(ModuleOp module, const Request &request) {
  if (request == getRequest(module))
    return;
  MLIRContext *context = module.getContext();
  context->getOrLoadDialect<AMPDialect>();
  module->setAttr(kRequestAttr, RequestAttr::get(context, request));
}
