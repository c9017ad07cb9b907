// The functions of the C API that need the training loop, for a runtime without
// training: all return MPC_UNSUPPORTED.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/capi/CAPIObjects.h"

using mpc::capi::guarded;
using mpc::capi::Status;
using mpc::capi::StatusCode;

Status mpc::capi::checkLabels(mpc_session &, const char *, const char *,
                              const void *, size_t) {
  return Status();
}

static mpc_status *lacksTraining(const char *function) noexcept {
  return guarded([&] {
    return Status(StatusCode::Unsupported,
                  std::string(function) +
                      ": this runtime was built without training; build it "
                      "with -DMPC_ENABLE_TRAIN=ON");
  });
}

extern "C" {

mpc_status *mpc_session_load_weights(mpc_session *, const char *) noexcept {
  return lacksTraining(__func__);
}
mpc_status *mpc_session_write_weights(mpc_session *, const char *) noexcept {
  return lacksTraining(__func__);
}
mpc_status *mpc_session_write_onnx(mpc_session *, const char *) noexcept {
  return lacksTraining(__func__);
}

mpc_status *mpc_trainer_create(mpc_session *, const mpc_trainer_options *,
                               mpc_trainer **) noexcept {
  return lacksTraining(__func__);
}
void mpc_trainer_free(mpc_trainer *) noexcept {}
mpc_status *mpc_trainer_run_batch(mpc_trainer *, const mpc_array *, size_t,
                                  mpc_batch_result *) noexcept {
  return lacksTraining(__func__);
}
mpc_status *mpc_trainer_get_progress(const mpc_trainer *,
                                     mpc_progress *) noexcept {
  return lacksTraining(__func__);
}
mpc_status *mpc_trainer_set_learning_rate(mpc_trainer *, double) noexcept {
  return lacksTraining(__func__);
}
mpc_status *mpc_trainer_save(mpc_trainer *) noexcept {
  return lacksTraining(__func__);
}
mpc_status *mpc_trainer_check_ranks(mpc_trainer *) noexcept {
  return lacksTraining(__func__);
}
mpc_status *mpc_trainer_count_evaluation(mpc_trainer *, const mpc_evaluation *,
                                         mpc_verdict *) noexcept {
  return lacksTraining(__func__);
}
mpc_status *mpc_trainer_restore_best(mpc_trainer *, int64_t *) noexcept {
  return lacksTraining(__func__);
}
const char *mpc_trainer_notes(const mpc_trainer *) noexcept { return ""; }

mpc_status *mpc_evaluation_create(mpc_session *, const mpc_evaluation_options *,
                                  mpc_evaluation **) noexcept {
  return lacksTraining(__func__);
}
void mpc_evaluation_free(mpc_evaluation *) noexcept {}
mpc_status *mpc_evaluation_add(mpc_evaluation *, const mpc_array *,
                               size_t) noexcept {
  return lacksTraining(__func__);
}
mpc_status *mpc_evaluation_finish(mpc_evaluation *,
                                  mpc_evaluation_result *) noexcept {
  return lacksTraining(__func__);
}
mpc_status *mpc_evaluation_get(const mpc_evaluation *, const char *,
                               double *) noexcept {
  return lacksTraining(__func__);
}

} // extern "C"
