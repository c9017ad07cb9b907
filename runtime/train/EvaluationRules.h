// Applies the results of evaluations to `--best`, `--early-stopping` and
// `--lr-scheduler plateau`.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_TRAIN_EVALUATIONRULES_H
#define MPC_RUNTIME_TRAIN_EVALUATIONRULES_H

#include "runtime/Status.h"
#include "runtime/train/Trainer.h"
#include "runtime/train/evaluate/Monitor.h"

#include <functional>
#include <string>

namespace mpc::runtime::train {

class EvaluationRules {
public:
  using Note = std::function<void(const std::string &)>;

  EvaluationRules(const TrainOptions &options, Note note)
      : options(options), note(std::move(note)) {}

  /// True if a flag makes decisions by the results of evaluations.
  bool any() const {
    return options.best || options.earlyStopping || plateau();
  }

  /// Returns a usage error if a flag watches a metric that evaluations of the
  /// model do not measure, or if the run does not evaluate.
  Status check(const TraineeInfo &info, bool evaluates) const;

  /// Prepares the state of a resumed run: forgets values of metrics that no
  /// flag watches any more.
  void adopt(EvaluationState &state) const;

  /// Counts the evaluation at `step`; true if it is the best so far. Two kinds
  /// of evaluations can be the best, but count for nothing else: an evaluation
  /// `outsideSchedule`, which a run adds at its end, and a second evaluation at
  /// the same step. So a run that was stopped and resumed decides like an
  /// uninterrupted run.
  bool count(const EvalResult &evaluation, int64_t step, bool outsideSchedule,
             EvaluationState &state) const;

  /// True if early stopping ends the run.
  bool isOver(const EvaluationState &state) const {
    return options.earlyStopping &&
           options.earlyStopping->isOver(state.earlyStopping);
  }

private:
  /// The plateau rule; null if the learning rate has another schedule.
  const Plateau *plateau() const {
    return options.schedule.kind == ScheduleKind::Plateau
               ? &options.schedule.plateau
               : nullptr;
  }
  void countPlateau(const EvalResult &evaluation, int64_t step,
                    EvaluationState &state) const;

  const TrainOptions &options;
  const Note note;
};

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_EVALUATIONRULES_H
