// What the evaluations of a run decide: `--best`, `--early-stopping` and the
// learning rate of a plateau.
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

  /// Whether evaluations decide anything.
  bool any() const {
    return options.best || options.earlyStopping || plateau();
  }

  /// Usage where the evaluations of that model lack a figure, or where nothing
  /// is evaluated.
  Status check(const TraineeInfo &info, bool evaluates) const;

  /// Forgets of a run that goes on what was known of other figures.
  void adopt(EvaluationState &state) const;

  /// Counts an evaluation; whether it was the best. One `outsideSchedule`, at
  /// the end of a run that ends between two, is for the best alone, and one at
  /// a step that has been counted too: a run in parts is the run in one.
  bool count(const EvalResult &evaluation, int64_t step, bool outsideSchedule,
             EvaluationState &state) const;

  /// Whether the run is to end by early stopping.
  bool isOver(const EvaluationState &state) const {
    return options.earlyStopping &&
           options.earlyStopping->isOver(state.earlyStopping);
  }

private:
  /// Null with another schedule.
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
