// Applies evaluations to `--best`, `--early-stopping` and the learning rate of
// a plateau.
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

  /// True if evaluations decide anything.
  bool any() const {
    return options.best || options.earlyStopping || plateau();
  }

  /// Returns a usage error if evaluations of the model lack a watched metric,
  /// or if nothing is evaluated.
  Status check(const TraineeInfo &info, bool evaluates) const;

  /// Prepares the state of a resumed run: forgets values of metrics that are no
  /// longer watched.
  void adopt(EvaluationState &state) const;

  /// Counts an evaluation; true for the best so far. An evaluation
  /// `outsideSchedule`, at the end of a run that ends between two, counts only
  /// for the best. So does a second evaluation at the same step. Thus a run in
  /// parts decides like an uninterrupted run.
  bool count(const EvalResult &evaluation, int64_t step, bool outsideSchedule,
             EvaluationState &state) const;

  /// True if early stopping ends the run.
  bool isOver(const EvaluationState &state) const {
    return options.earlyStopping &&
           options.earlyStopping->isOver(state.earlyStopping);
  }

private:
  /// The plateau rule; null with another schedule.
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
