// SPDX-License-Identifier: Apache-2.0
#include "test/emulator/cuda/Driver.h"

using namespace mpc::emulator;

Driver &Driver::get() {
  // Never destroyed: libraries still call while the process ends.
  static Driver *driver = new Driver;
  return *driver;
}

std::vector<Context *> &mpc::emulator::contextStack() {
  thread_local std::vector<Context *> stack;
  return stack;
}

Context *mpc::emulator::currentContext() {
  return contextStack().empty() ? nullptr : contextStack().back();
}

Stream *Driver::find(CUstream handle) {
  // 0, 1 and 2 name the default stream.
  if (reinterpret_cast<uintptr_t>(handle) <= 2)
    return &defaultStream;
  auto found = streams.find(handle);
  return found == streams.end() ? nullptr : found->second.get();
}

CUresult Driver::enqueue(CUstream handle, Work work) {
  Stream *stream = find(handle);
  if (!stream || (stream->context && stream->context != currentContext()))
    return CUDA_ERROR_INVALID_HANDLE;
  if (stream == &defaultStream) {
    // The legacy stream waits for all blocking streams: captured ones cannot.
    for (auto &[other, captured] : streams) {
      if (captured->capture == CUstreamCaptureStatus::None ||
          !captured->blocking)
        continue;
      captured->capture = CUstreamCaptureStatus::Invalidated;
      return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    }
  }
  switch (stream->capture) {
  case CUstreamCaptureStatus::Invalidated:
    return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  case CUstreamCaptureStatus::Active:
    stream->graph->nodes.push_back(std::move(work));
    return CUDA_SUCCESS;
  case CUstreamCaptureStatus::None:
    queue.push_back(std::move(work));
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_UNKNOWN;
}

CUresult Driver::run(const Work &work) {
  if (environment.logs() && !work.name.empty())
    environment.log("  run " + work.name);
  return work.run();
}

CUresult Driver::finish() {
  while (!queue.empty() && !lost) {
    Work work = std::move(queue.front());
    queue.pop_front();
    lost = run(work);
  }
  queue.clear();
  return lost;
}

CUresult Driver::checkWait(Stream &stream) {
  if (stream.capture == CUstreamCaptureStatus::None)
    return CUDA_SUCCESS;
  stream.capture = CUstreamCaptureStatus::Invalidated;
  return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

CUresult Driver::checkUnsafe() {
  CUresult result = CUDA_SUCCESS;
  for (auto &[handle, stream] : streams) {
    if (stream->capture == CUstreamCaptureStatus::None)
      continue;
    bool forbids = stream->mode == CUstreamCaptureMode::Global ||
                   (stream->mode == CUstreamCaptureMode::ThreadLocal &&
                    stream->thread == std::this_thread::get_id());
    if (!forbids)
      continue;
    stream->capture = CUstreamCaptureStatus::Invalidated;
    result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  return result;
}
