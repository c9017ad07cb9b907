// SPDX-License-Identifier: Apache-2.0
#include "passes/Differentiation/RecipeOptions.h"

#include "compiler/Dialect/MPC/Words.h"
#include "compiler/Support/ExitCode.h"
#include "passes/Differentiation/LossSpec.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace mpc;

//===----------------------------------------------------------------------===//
// From a field's type to the type of its option
//===----------------------------------------------------------------------===//

namespace {
template <typename T>
struct Unwrapped {
  using Type = T;
};
template <typename T>
struct Unwrapped<std::optional<T>> {
  using Type = T;
};

template <typename T>
inline constexpr bool isNumber =
    std::is_same_v<T, bool> || std::is_same_v<T, int64_t> ||
    std::is_same_v<T, double>;

/// Maps the type T of a recipe's field to the type of the pass option. The
/// default is a list of texts.
template <typename T>
struct OptionOf {
  using Type = Pass::ListOption<std::string>;
};
template <typename T>
struct OptionOf<std::optional<T>> : OptionOf<T> {};
template <>
struct OptionOf<bool> {
  using Type = Pass::Option<bool>;
};
template <>
struct OptionOf<int64_t> {
  using Type = Pass::Option<int64_t>;
};
template <>
struct OptionOf<double> {
  using Type = Pass::Option<double>;
};
template <>
struct OptionOf<Reduction> {
  using Type = Pass::Option<std::string>;
};
template <>
struct OptionOf<OptimizerKind> {
  using Type = Pass::Option<std::string>;
};
template <>
struct OptionOf<AdjustLRFn> {
  using Type = Pass::Option<std::string>;
};
template <>
struct OptionOf<std::vector<double>> {
  using Type = Pass::ListOption<double>;
};

using Report = llvm::function_ref<InFlightDiagnostic()>;
} // namespace

//===----------------------------------------------------------------------===//
// Text to fields
//===----------------------------------------------------------------------===//

template <typename Enum>
static std::enable_if_t<HasWords<Enum>::value, LogicalResult>
readText(StringRef text, Enum &value, Report report) {
  if (std::optional<Enum> known = symbolize<Enum>(text)) {
    value = *known;
    return success();
  }
  InFlightDiagnostic error = report();
  error << "unknown " << StringRef(Words<Enum>::kind) << " '" << text
        << "'; expected one of ";
  llvm::interleaveComma(Words<Enum>::list, error, [&](std::string_view word) {
    error << StringRef(word);
  });
  return error;
}

static LogicalResult readText(StringRef text, std::vector<LossSpec> &losses,
                              Report report) {
  llvm::Expected<LossSpec> loss = parseLoss(text);
  if (!loss)
    return report() << llvm::toString(loss.takeError());
  losses.push_back(*loss);
  return success();
}

static LogicalResult readText(StringRef text, std::vector<TargetSpec> &targets,
                              Report) {
  targets.push_back(parseTarget(text));
  return success();
}

static LogicalResult readText(StringRef text, std::vector<std::string> &texts,
                              Report) {
  texts.push_back(text.str());
  return success();
}

static LogicalResult
readText(StringRef text, std::map<std::string, std::vector<int64_t>> &shapes,
         Report report) {
  auto [name, shapeText] = text.rsplit('=');
  if (!text.contains('='))
    std::swap(name, shapeText);
  std::optional<std::vector<int64_t>> shape = parseLabelShape(shapeText);
  if (!shape)
    return report() << "expected label-shape such as 7x5, or scalar, found '"
                    << shapeText << "'";
  shapes[name.str()] = *shape;
  return success();
}

template <typename T>
static LogicalResult readOption(const typename OptionOf<T>::Type &option,
                                T &value, Report report) {
  using Value = typename Unwrapped<T>::Type;
  if constexpr (isNumber<Value>) {
    value = Value(option);
  } else if constexpr (HasWords<Value>::value) {
    Value read{};
    if (failed(readText(option.getValue(), read, report)))
      return failure();
    value = read;
  } else if constexpr (std::is_same_v<T, std::vector<double>>) {
    value.assign(option.begin(), option.end());
  } else {
    value.clear();
    for (const std::string &text : option)
      if (failed(readText(text, value, report)))
        return failure();
  }
  return success();
}

//===----------------------------------------------------------------------===//
// All options
//===----------------------------------------------------------------------===//

template <typename Visitor>
static void visitPart(RecipeOptions::Part part, Recipe &recipe,
                      Visitor &&visit) {
  switch (part) {
  case RecipeOptions::Part::Loss:
    return visitLossFields(visit, recipe);
  case RecipeOptions::Part::Adapters:
    return visitAdapterFields(visit, recipe);
  case RecipeOptions::Part::Optimizer:
    return visitOptimizerFields(visit, recipe);
  }
}

RecipeOptions::RecipeOptions(Pass &pass, Part part) : part(part) {
  Recipe defaults;
  visitPart(part, defaults, [&](const RecipeField &field, auto &value) {
    using T = std::decay_t<decltype(value)>;
    auto option = std::make_shared<typename OptionOf<T>::Type>(
        pass, field.option(), llvm::cl::desc(field.help));
    if constexpr (isNumber<T>)
      option->setInitialValue(value);
    else if constexpr (HasWords<T>::value)
      option->setInitialValue(std::string(stringify(value)));
    options.push_back(std::move(option));
  });
}

LogicalResult RecipeOptions::applyTo(ModuleOp module) const {
  Recipe recipe = getRecipe(module);
  auto report = [&] {
    return withExitCode(mlir::emitError(module.getLoc()), ExitCode::Usage);
  };
  LogicalResult result = success();
  size_t next = 0;
  visitPart(part, recipe, [&](const RecipeField &, auto &value) {
    using T = std::decay_t<decltype(value)>;
    auto &option =
        *static_cast<const typename OptionOf<T>::Type *>(options[next++].get());
    if (option.hasValue() && succeeded(result))
      result = readOption<T>(option, value, report);
  });
  return succeeded(result) ? setRecipe(module, recipe) : failure();
}
