// Recognises training steps and gradients in plain graphs.
//
// Tools that do not use training_info write the whole step into one graph:
// forward, backward and update, with the new parameters as outputs. Such a file
// does not say which output is the next value of which initializer. The inputs
// of an optimizer node tell, or an update in the form `p - rate * gradient`.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Training/StepGraph.h"

#include "frontends/ONNX/Training/OptimizerNodes.h"
#include "frontends/ONNX/Training/StepRecogniser.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx_frontend;
using llvm::Error;
using llvm::Expected;

//===----------------------------------------------------------------------===//
// The graph
//===----------------------------------------------------------------------===//

void StepRecogniser::indexGraph() {
  for (const proto::NodeProto *node : graph.getNodes())
    for (StringRef value : getReadValues(*node))
      ++readers[value];
  hasScalar = llvm::any_of(graph.getOutputs(), isDeclaredScalar);
}

//===----------------------------------------------------------------------===//
// Updates
//===----------------------------------------------------------------------===//

Error StepRecogniser::addUpdate(StringRef state, StringRef value,
                                const Twine &by) {
  std::string &known = updates[state];
  if (known == value)
    return Error::success();
  if (!known.empty())
    return graph.getModel().error(
        ErrorKind::Unsupported,
        by + ": '" + state + "' is updated by '" + known + "' and by '" +
            value + "'; take one of these outputs out of the graph");
  known = value.str();
  updated[value] = state.str();
  step.updates.push_back({state.str(), value.str()});
  return Error::success();
}

Error StepRecogniser::readOptimizers() {
  for (const proto::NodeProto *node : graph.getNodes()) {
    std::optional<OptimizerNode> optimizer = readOptimizerNode(*node);
    if (!optimizer)
      continue;
    std::string by = "node '" + getNodeName(*node) + "'";
    bool isStep = llvm::all_of(optimizer->parameters, [&](auto &parameter) {
      return values.isState(values.resolve(node->input(parameter.input)));
    });
    if (!isStep)
      continue;
    ++byNode;
    step.optimizerNodes.insert(node);
    auto add = [&](const OptimizerNode::Update &update) -> Error {
      StringRef state = values.resolve(node->input(update.input));
      StringRef value = node->output(update.output);
      // Several optimizers may read one count, and each returns the next count.
      // Keep the first as the update.
      if (!values.isState(state) ||
          (update.input == optimizer->count && updates.count(state)))
        return Error::success();
      return addUpdate(state, value, by);
    };
    for (const auto &parameter : optimizer->parameters) {
      step.parameters.insert(values.resolve(node->input(parameter.input)));
      if (Error error = add(parameter))
        return error;
    }
    for (const auto &state : optimizer->states)
      if (Error error = add(state))
        return error;
    if (optimizer->rate >= 0)
      findRate(node->input(optimizer->rate), /*mayBeAnything=*/true);
    if (optimizer->lossScale >= 0)
      if (StringRef scale =
              values.findScalarInput(node->input(optimizer->lossScale));
          !scale.empty())
        step.lossScales.insert(scale);
    if (optimizer->count >= 0)
      addCount(values.resolve(node->input(optimizer->count)),
               optimizer->firstCount);
  }
  return Error::success();
}

// Records the value `name`, read by an optimizer, as a count of updates. mpc
// passes the value of an input; a state must be updated by the graph.
void StepRecogniser::addCount(StringRef name, int64_t first) {
  if (values.isState(name))
    counts.insert(name);
  else if (values.isInput(name))
    step.stepCounts[name] = first;
}

// Collects new running statistics, outputs 1 and 2 of batch normalizations. The
// import of such a node also updates the statistics.
void StepRecogniser::readStatistics() {
  for (const proto::NodeProto *node : graph.getNodes()) {
    bool isNorm = node->op_type() == "BatchNormalization" ||
                  node->op_type() == "BatchNormInternal";
    for (int i = 1; isNorm && i < std::min(3, node->output_size()); ++i)
      if (!node->output(i).empty())
        statistics.insert(node->output(i));
  }
}

// Finds the states that may have `output` as next value. Follows sums and
// products with numbers back to states, as in `p - rate * g` or `beta * v + g`.
StepRecogniser::Candidates
StepRecogniser::findCandidates(const proto::ValueInfoProto &output) {
  constexpr unsigned kMostSteps = 32; // for one update
  Candidates found;
  SmallVector<std::pair<StringRef, bool>> worklist = {{output.name(), false}};
  for (unsigned i = 0; i < kMostSteps && !worklist.empty(); ++i) {
    // Walk back from the output until states are reached.
    auto [name, subtracts] = worklist.pop_back_val();
    if (values.isState(name)) {
      if (values.fits(output, name)) {
        found.states.insert(name);
        found.subtracts |= subtracts;
      }
      continue;
    }
    const proto::NodeProto *node = graph.getProducer(name);
    if (!node || !normalizeDomain(node->domain()).empty())
      continue;
    StringRef op = node->op_type();
    // Continue with the operands that may be the state p in `p - rate * g`: the
    // first of Sub, Clip and Identity, either branch of Where, and the other
    // factor beside a number.
    int count = node->input_size();
    if ((op == "Identity" || op == "Clip") && count > 0)
      worklist.push_back({node->input(0), subtracts});
    else if (op == "Sub" && count == 2)
      worklist.push_back({node->input(0), true});
    else if (op == "Where" && count == 3)
      for (int operand : {1, 2})
        worklist.push_back({node->input(operand), subtracts});
    else if (op == "Mul" && count == 2)
      for (int operand : {0, 1})
        if (values.isSmall(node->input(1 - operand)))
          worklist.push_back({node->input(operand), subtracts});
    if (op == "Div" && count == 2 && values.isSmall(node->input(1)))
      worklist.push_back({node->input(0), subtracts});
    // Any operand of a sum may be the state.
    if (op != "Add" && op != "Sum")
      continue;
    found.adds = true;
    for (const std::string &operand : node->input())
      worklist.push_back({operand, subtracts});
  }
  return found;
}

// True if an output proves that the graph is a training step: the graph
// subtracts from a weight that other nodes read too. A sum alone proves
// nothing, because `y = x + bias` is a sum. A sum is a proof only if the output
// is named like `p_new` and the graph has a scalar output, the loss.
bool StepRecogniser::isAnchor(const Open &open) const {
  const Candidates &found = open.candidates;
  if (found.states.size() != 1 || readers.lookup(found.states.front()) < 2)
    return false;
  return found.subtracts || (open.isNamed && found.adds && hasScalar);
}

Error StepRecogniser::ambiguous(const Open &open) const {
  SmallVector<StringRef> states(open.candidates.states.getArrayRef());
  llvm::sort(states);
  return graph.getModel().error(
      ErrorKind::Unsupported,
      "output '" + open.output->name() + "' may be the next value of '" +
          llvm::join(states, "' or '") + "'; call it '" + states.front() +
          "_new' where it is that of '" + states.front() + "'");
}

// Finds outputs that no optimizer node computes and that may be the next value
// of a state. An output with the name `p_new` belongs to the state `p`.
std::vector<StepRecogniser::Open> StepRecogniser::findOpen() {
  std::vector<Open> open;
  for (const proto::ValueInfoProto *output : graph.getOutputs()) {
    StringRef name = output->name();
    if (updated.count(name) || statistics.contains(name) ||
        !output->type().has_tensor_type() || !graph.getProducer(name))
      continue;
    Open each{output, findCandidates(*output)};
    auto &states = each.candidates.states;
    std::optional<StringRef> named = values.findByName(name);
    if (named && values.fits(*output, *named)) {
      each.isNamed = true;
      each.candidates.adds &= states.contains(*named);
      states.clear();
      states.insert(*named);
    } else if (states.size() > 1) {
      // In `count + 1` both operands look like states. The constant 1 is none.
      SmallVector<StringRef> ones = llvm::to_vector(llvm::make_filter_range(
          states, [&](StringRef state) { return values.isOne(state); }));
      for (StringRef one : ones)
        if (states.size() > 1)
          states.remove(one);
    }
    if (!states.empty())
      open.push_back(std::move(each));
  }
  return open;
}

Error StepRecogniser::take(const Open &open) {
  ++speltOut;
  return addUpdate(open.candidates.states.front(), open.output->name(),
                   "output '" + open.output->name() + "'");
}

// Finds the state that each remaining output updates. Outputs with a single
// candidate come first. An assigned state is no candidate for other outputs, so
// these may then have a single candidate. An output whose candidates are all
// assigned is an ordinary output.
Error StepRecogniser::readSpeltOut() {
  std::vector<Open> open = findOpen();
  if (byNode == 0 &&
      llvm::none_of(open, [&](const Open &each) { return isAnchor(each); }))
    return Error::success();
  for (const Open &each : open)
    if (each.isNamed || isAnchor(each))
      if (Error error = take(each))
        return error;
  // For each state, the outputs that may still update it.
  llvm::StringMap<SmallVector<Open *>> waiting;
  std::vector<Open *> certain;
  for (Open &each : open) {
    auto &states = each.candidates.states;
    if (updated.count(each.output->name()))
      continue;
    for (StringRef state : SmallVector<StringRef>(states.getArrayRef()))
      if (updates.count(state))
        states.remove(state);
      else
        waiting[state].push_back(&each);
    if (states.size() == 1)
      certain.push_back(&each);
  }
  for (size_t i = 0; i < certain.size(); ++i) {
    // An earlier output may have been assigned the last candidate of this
    // output.
    if (certain[i]->candidates.states.empty())
      continue;
    StringRef state = certain[i]->candidates.states.front();
    if (Error error = take(*certain[i]))
      return error;
    for (Open *other : waiting.lookup(state))
      if (other != certain[i] && other->candidates.states.remove(state) &&
          other->candidates.states.size() == 1)
        certain.push_back(other);
  }
  for (const Open &each : open)
    if (!updated.count(each.output->name()) && !each.candidates.states.empty())
      return ambiguous(each);
  return Error::success();
}

//===----------------------------------------------------------------------===//
// The recognised step
//===----------------------------------------------------------------------===//

// Finds trained states: the forward pass reads them. Other states belong to the
// optimizer.
void StepRecogniser::findParameters() {
  llvm::StringSet<> read;
  for (const proto::NodeProto *node : graph.getNodesFor(step.evalOutputs))
    for (StringRef value : getReadValues(*node))
      read.insert(value);
  for (const auto &[state, unused] : step.updates)
    if (read.contains(state))
      step.parameters.insert(state);
}

void StepRecogniser::describe(std::vector<std::string> &notes) const {
  std::vector<std::string> trained, others;
  for (const auto &[state, value] : step.updates)
    (step.parameters.contains(state) ? trained : others)
        .push_back(state + " <- " + value);
  notes.push_back(
      "taken as a training step with an optimizer of its own (" +
      (byNode ? "by its optimizer nodes"
              : std::string("its updates are spelt out")) +
      "); it trains " + listFirst(trained, 6) +
      (others.empty() ? "" : "; its state is " + listFirst(others, 6)) +
      "; --as-exported takes the graph as it is");
  // Tell the user which flags have no effect on this graph.
  if (step.learningRates.empty())
    notes.push_back(
        "the graph fixes the learning rate; --lr does not change it");
  if (!step.lossScales.empty())
    notes.push_back("the loss scale '" +
                    step.lossScales.begin()->getKey().str() +
                    "' is 1: --precision and --loss-scale say how the loss is "
                    "scaled");
  // With a constant count, Adam's bias correction stays at the first step.
  for (const auto &count : counts)
    if (!updates.count(count.getKey()))
      notes.push_back("optimizers read '" + count.getKey().str() +
                      "' as the count of updates, but no output is its next "
                      "value: it stays as it is");
}

Expected<std::optional<TrainingStep>>
StepRecogniser::run(std::vector<std::string> &notes) {
  // Find updates in three ways: optimizer nodes, statistics, explicit
  // arithmetic.
  indexGraph();
  if (Error error = readOptimizers())
    return error;
  readStatistics();
  if (byNode > 0 || (options.findsSpeltOutSteps && mayHaveLoss()))
    if (Error error = readSpeltOut())
      return error;
  if (step.updates.empty())
    return std::nullopt;
  collectOutputs();
  if (Error error = findLoss())
    return error;
  findScalars();
  findUpdateNodes();
  findParameters();
  describe(notes);
  return std::optional<TrainingStep>(std::move(step));
}

// Recognises a graph that has gradients as outputs, but no update.
std::optional<TrainingStep>
StepRecogniser::runGradients(std::vector<std::string> &notes) {
  indexGraph();
  // An output w_grad with the type and shape of w is the gradient of w.
  std::vector<std::string> trained, withoutValue;
  for (const proto::ValueInfoProto *output : graph.getOutputs()) {
    StringRef name = output->name(), parameter = name;
    if (!(parameter.consume_back("_grad") || parameter.consume_back(".grad")) ||
        !graph.getProducer(name) || !values.fits(*output, parameter))
      continue;
    // An input with a value in `--weights` is a parameter; any other input is
    // data.
    if (!values.isState(parameter)) {
      withoutValue.push_back(parameter.str());
      continue;
    }
    step.gradients.push_back({parameter.str(), name.str()});
    step.parameters.insert(parameter);
    updated[name] = parameter.str();
    trained.push_back(parameter.str());
  }
  if (!withoutValue.empty())
    notes.push_back("the graph has gradients of " + listFirst(withoutValue, 6) +
                    ", inputs without a value; it trains them where --weights "
                    "gives their values");
  if (trained.empty())
    return std::nullopt;
  readStatistics();
  collectOutputs();
  if (Error error = findLoss()) {
    llvm::consumeError(std::move(error));
    return std::nullopt;
  }
  findScalars();
  // Either mpc adds the optimizer, or the optimizer has a graph of its own.
  StringRef flag =
      options.optimizerModel.empty() ? "--optimizer" : "--optimizer-model";
  notes.push_back("taken as a gradient graph; " + flag.str() + " trains " +
                  listFirst(trained, 6) +
                  " with its gradients; --loss output:NAME derives others, "
                  "--as-exported takes the graph as it is");
  return std::move(step);
}

std::optional<TrainingStep>
mpc::onnx_frontend::findGradientGraph(const Graph &graph,
                                      const ImportOptions &options,
                                      std::vector<std::string> &notes) {
  return StepRecogniser(graph, options).runGradients(notes);
}

Expected<std::optional<TrainingStep>>
mpc::onnx_frontend::findTrainingStep(const Graph &graph,
                                     const ImportOptions &options,
                                     std::vector<std::string> &notes) {
  return StepRecogniser(graph, options).run(notes);
}
