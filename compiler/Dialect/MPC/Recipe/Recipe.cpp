// SPDX-License-Identifier: Apache-2.0
#include "compiler/Dialect/MPC/Recipe/Recipe.h"

#include "compiler/Dialect/MPC/Words.h"
#include "compiler/Support/ExitCode.h"

#include "llvm/ADT/Hashing.h"

#include <cmath>

using namespace mlir;
using namespace mpc;

std::string RecipeField::word() const {
  std::string text = flag.str();
  std::replace(text.begin(), text.end(), '-', '_');
  return text;
}

//===----------------------------------------------------------------------===//
// Equality
//===----------------------------------------------------------------------===//

bool mpc::operator==(const Recipe &lhs, const Recipe &rhs) {
  bool areEqual = true;
  visitFields([&](const RecipeField &, const auto &a,
                  const auto &b) { areEqual &= a == b; },
              lhs, rhs);
  return areEqual;
}

// Hashes a few fields only: a process holds few recipes, so collisions do not
// matter.
llvm::hash_code mpc::hash_value(const Recipe &recipe) {
  return llvm::hash_combine(recipe.losses.size(), recipe.optimizer.kind,
                            recipe.accumulateGradBatches);
}

//===----------------------------------------------------------------------===//
// Printing
//===----------------------------------------------------------------------===//

static void printField(AsmPrinter &printer, bool value) {
  printer << (value ? "true" : "false");
}

static void printField(AsmPrinter &printer, int64_t value) { printer << value; }

static void printField(AsmPrinter &printer, double value) {
  printer.printFloat(llvm::APFloat(value));
}

static void printField(AsmPrinter &printer, const std::string &value) {
  printer.printString(value);
}

template <typename Enum>
static std::enable_if_t<HasWords<Enum>::value> printField(AsmPrinter &printer,
                                                          Enum value) {
  printer << stringify(value);
}

static void printField(AsmPrinter &printer, const LossSpec &loss) {
  printer << stringify(loss.kind);
  if (!loss.output.empty()) {
    printer << "(";
    printer.printString(loss.output);
    printer << ")";
  }
  if (loss.factor != 1) {
    printer << " * ";
    printField(printer, loss.factor);
  }
}

static void printField(AsmPrinter &printer, const TargetSpec &target) {
  if (target.output) {
    printer.printString(*target.output);
    printer << " = ";
  }
  printer.printString(target.array);
}

template <typename T>
static void printField(AsmPrinter &printer, const std::optional<T> &value) {
  printField(printer, *value); // an absent value is the default
}

template <typename T>
static void printField(AsmPrinter &printer, const std::vector<T> &values) {
  printer << "[";
  llvm::interleaveComma(values, printer.getStream(),
                        [&](const T &value) { printField(printer, value); });
  printer << "]";
}

static void
printField(AsmPrinter &printer,
           const std::map<std::string, std::vector<int64_t>> &shapes) {
  printer << "{";
  llvm::interleaveComma(shapes, printer.getStream(), [&](const auto &entry) {
    printer.printString(entry.first);
    printer << " = ";
    printField(printer, entry.second);
  });
  printer << "}";
}

void RecipeAttr::print(AsmPrinter &printer) const {
  const Recipe defaults;
  StringRef separator;
  printer << "<";
  visitFields(
      [&](const RecipeField &field, const auto &value, const auto &usual) {
        if (value == usual)
          return;
        printer << separator << field.word() << " = ";
        printField(printer, value);
        separator = ", ";
      },
      getValue(), defaults);
  printer << ">";
}

//===----------------------------------------------------------------------===//
// Parsing
//===----------------------------------------------------------------------===//

static ParseResult parseField(AsmParser &parser, bool &value) {
  value = succeeded(parser.parseOptionalKeyword("true"));
  return value ? success() : parser.parseKeyword("false");
}

static ParseResult parseField(AsmParser &parser, int64_t &value) {
  return parser.parseInteger(value);
}

static ParseResult parseField(AsmParser &parser, double &value) {
  return parser.parseFloat(value);
}

static ParseResult parseField(AsmParser &parser, std::string &value) {
  return parser.parseString(&value);
}

template <typename Enum>
static std::enable_if_t<HasWords<Enum>::value, ParseResult>
parseField(AsmParser &parser, Enum &value) {
  FailureOr<Enum> parsed = FieldParser<Enum>::parse(parser);
  if (failed(parsed))
    return failure();
  value = *parsed;
  return success();
}

static ParseResult parseField(AsmParser &parser, LossSpec &loss) {
  if (parseField(parser, loss.kind))
    return failure();
  if (succeeded(parser.parseOptionalLParen()) &&
      (parser.parseString(&loss.output) || parser.parseRParen()))
    return failure();
  return succeeded(parser.parseOptionalStar()) ? parser.parseFloat(loss.factor)
                                               : ParseResult(success());
}

static ParseResult parseField(AsmParser &parser, TargetSpec &target) {
  if (parser.parseString(&target.array))
    return failure();
  if (failed(parser.parseOptionalEqual()))
    return success();
  target.output = std::move(target.array);
  return parser.parseString(&target.array);
}

template <typename T>
static ParseResult parseField(AsmParser &parser, std::optional<T> &value) {
  return parseField(parser, value.emplace());
}

template <typename T>
static ParseResult parseField(AsmParser &parser, std::vector<T> &values) {
  return parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, [&] {
    return parseField(parser, values.emplace_back());
  });
}

static ParseResult
parseField(AsmParser &parser,
           std::map<std::string, std::vector<int64_t>> &shapes) {
  return parser.parseCommaSeparatedList(
      AsmParser::Delimiter::Braces, [&]() -> ParseResult {
        std::string name;
        if (parser.parseString(&name) || parser.parseEqual())
          return failure();
        return parseField(parser, shapes[name]);
      });
}

// Parses FIELD = VALUE into the member of `recipe` called FIELD.
static ParseResult parseAnyField(AsmParser &parser, Recipe &recipe) {
  StringRef word;
  SMLoc location = parser.getCurrentLocation();
  if (parser.parseKeyword(&word))
    return failure();
  bool isKnown = false;
  ParseResult parsed = success();
  visitFields(
      [&](const RecipeField &field, auto &value) {
        if (field.word() != word)
          return;
        isKnown = true;
        value = {};
        parsed = failure(parser.parseEqual() || parseField(parser, value));
      },
      recipe);
  if (!isKnown)
    return parser.emitError(location, "a recipe has no field '") << word << "'";
  return parsed;
}

Attribute RecipeAttr::parse(AsmParser &parser, Type) {
  Recipe recipe;
  SMLoc location = parser.getCurrentLocation();
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::LessGreater, [&] {
        return parseAnyField(parser, recipe);
      }))
    return {};
  return getChecked([&] { return parser.emitError(location); },
                    parser.getContext(), std::move(recipe));
}

//===----------------------------------------------------------------------===//
// Checks
//===----------------------------------------------------------------------===//

LogicalResult
RecipeAttr::verify(llvm::function_ref<InFlightDiagnostic()> emitError,
                   Recipe recipe) {
  auto usage = [&] { return withExitCode(emitError(), ExitCode::Usage); };
  for (const LossSpec &loss : recipe.losses)
    if (!std::isfinite(loss.factor) || loss.factor <= 0)
      return usage() << "expected a factor above 0 of --loss "
                     << stringify(loss.kind) << ", found " << loss.factor;
  for (const auto &[name, shape] : recipe.labelShapes)
    for (int64_t extent : shape)
      if (extent < 0)
        return usage() << "expected sizes of at least 0 in the label shape of '"
                       << name << "', found " << extent;
  if (recipe.focalGamma &&
      !(std::isfinite(*recipe.focalGamma) && *recipe.focalGamma >= 0))
    return usage() << "expected --focal-gamma of at least 0, found "
                   << *recipe.focalGamma;
  if (recipe.focalAlpha && *recipe.focalAlpha != -1 &&
      !(*recipe.focalAlpha >= 0 && *recipe.focalAlpha <= 1))
    return usage() << "expected --focal-alpha in [0,1], or -1 for no weights, "
                      "found "
                   << *recipe.focalAlpha;
  if (recipe.diceSmooth &&
      !(std::isfinite(*recipe.diceSmooth) && *recipe.diceSmooth > 0))
    return usage() << "expected --dice-smooth above 0, found "
                   << *recipe.diceSmooth;
  if (recipe.ema && !(*recipe.ema >= 0.0 && *recipe.ema < 1.0))
    return usage() << "expected --ema of at least 0 and below 1, found "
                   << *recipe.ema;
  if (recipe.accumulateGradBatches < 1)
    return usage() << "expected --accumulate-grad-batches of at least 1, found "
                   << recipe.accumulateGradBatches;
  return success();
}

//===----------------------------------------------------------------------===//
// The recipe attribute of a module
//===----------------------------------------------------------------------===//

Recipe mpc::getRecipe(ModuleOp module) {
  auto recipe = module->getAttrOfType<RecipeAttr>(kRecipeAttr);
  return recipe ? recipe.getValue() : Recipe();
}

LogicalResult mpc::setRecipe(ModuleOp module, const Recipe &recipe) {
  if (recipe == getRecipe(module))
    return success();
  auto attribute =
      RecipeAttr::getChecked([&] { return mlir::emitError(module.getLoc()); },
                             module.getContext(), recipe);
  if (!attribute)
    return failure();
  module->setAttr(kRecipeAttr, attribute);
  return success();
}
