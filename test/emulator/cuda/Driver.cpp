// SPDX-License-Identifier: Apache-2.0
#include "test/emulator/cuda/Driver.h"

#include <algorithm>

using namespace mpc::emulator;

Driver &Driver::get() {
  // Never destroyed: libraries still call it while the process exits.
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
    // The legacy stream waits for all blocking streams, but captured ones
    // cannot be waited for.
    for (auto &[other, captured] : streams) {
      if (!captured->capture || !captured->blocking)
        continue;
      captured->capture->isValid = false;
      return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    }
  }
  if (Capture *capture = stream->capture.get()) {
    if (!capture->isValid)
      return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    std::vector<Node> &nodes = capture->graph->nodes;
    nodes.push_back({std::move(work), stream->last, stream != capture->origin});
    stream->last = {nodes.size() - 1};
    return CUDA_SUCCESS;
  }
  Queue &queue = queueOf(*stream);
  if (!isOrdered(queue, work))
    work.run = [] { return CUDA_ERROR_LAUNCH_FAILED; };
  queue.entries.push_back({std::move(work), queue.seen});
  queue.seen[&queue] = queue.end();
  return CUDA_SUCCESS;
}

Queue &Driver::queueOf(Stream &stream) {
  return stream.blocking ? defaultStream.queue : stream.queue;
}

/// True if both touch some memory and one of them writes it.
static bool collide(const Work &a, const Work &b) {
  for (const TouchedMemory &x : a.touched)
    for (const TouchedMemory &y : b.touched)
      if (x.begin < y.end && y.begin < x.end && (x.isWritten || y.isWritten))
        return true;
  return false;
}

/// True if all pending work that touches the same memory precedes `work`. The
/// host has waited for finished work.
bool Driver::isOrdered(const Queue &queue, const Work &work) {
  for (Queue *other : queues()) {
    const auto seen = queue.seen.find(other);
    size_t first = 0;
    if (seen != queue.seen.end() && seen->second > other->done)
      first = seen->second - other->done;
    for (size_t i = first; other != &queue && i < other->entries.size(); ++i) {
      if (!collide(work, other->entries[i].work))
        continue;
      const std::string fault = work.name + " races with " +
                                other->entries[i].work.name +
                                " of another stream";
      environment.log("  fault: " + fault);
      std::fprintf(stderr, "mpc emulator: %s\n", fault.c_str());
      return false;
    }
  }
  return true;
}

void Driver::merge(const Clock &clock, Queue &queue) {
  for (const auto &[other, end] : clock) {
    uint64_t &seen = queue.seen[other];
    seen = std::max(seen, end);
  }
}

void Driver::forget(Queue &queue) {
  for (Queue *other : queues()) {
    other->seen.erase(&queue);
    for (Queue::Entry &entry : other->entries)
      entry.after.erase(&queue);
  }
  for (auto &[handle, event] : events)
    event->before.erase(&queue);
}

std::vector<Queue *> Driver::queues() {
  std::vector<Queue *> all{&defaultStream.queue};
  for (auto &[handle, stream] : streams)
    all.push_back(&stream->queue);
  return all;
}

CUresult Driver::run(const Work &work, bool &hasBegun) {
  if (!hasBegun && environment.logs() && !work.name.empty())
    environment.log("  run " + work.name);
  hasBegun = true;
  return work.run();
}

CUresult Driver::proceed(Queue &queue, uint64_t end) {
  while (queue.done < end && !queue.entries.empty() && !lost) {
    Queue::Entry &entry = queue.entries.front();
    // Dependencies were enqueued earlier, so the recursion ends.
    CUresult result = proceed(entry.after);
    if (!result)
      result = run(entry.work, entry.hasBegun);
    if (result == CUDA_ERROR_NOT_READY)
      return result;
    if (lost)
      break;
    queue.entries.pop_front();
    ++queue.done;
    lost = result;
  }
  if (lost)
    for (Queue *other : queues()) {
      other->done += other->entries.size();
      other->entries.clear();
    }
  return lost;
}

/// Waits also for events after the last work of the queue.
CUresult Driver::proceed(Queue &queue) {
  if (CUresult result = proceed(queue, queue.end()))
    return result;
  return proceed(queue.seen);
}

CUresult Driver::proceed(const Clock &clock) {
  for (const auto &[queue, end] : clock)
    if (CUresult result = proceed(*queue, end))
      return result;
  return lost;
}

CUresult Driver::wait(const std::function<CUresult()> &attempt) {
  constexpr std::chrono::minutes kLimit(1);
  const auto begin = std::chrono::steady_clock::now();
  for (;;) {
    const CUresult result = attempt();
    if (result != CUDA_ERROR_NOT_READY)
      return result;
    if (std::chrono::steady_clock::now() - begin > kLimit) {
      environment.log("  fault: the host waits for ever");
      return lost = CUDA_ERROR_LAUNCH_TIMEOUT;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

CUresult Driver::finish(Queue &queue) {
  return wait([&] { return proceed(queue); });
}

CUresult Driver::finish(const Clock &clock) {
  return wait([&] { return proceed(clock); });
}

CUresult Driver::finish() {
  for (Queue *queue : queues())
    if (CUresult result = finish(*queue))
      return result;
  return lost;
}

CUresult Driver::checkWait(Stream &stream) {
  if (!stream.capture)
    return CUDA_SUCCESS;
  stream.capture->isValid = false;
  return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

CUresult Driver::checkUnsafe() {
  CUresult result = CUDA_SUCCESS;
  for (auto &[handle, stream] : streams) {
    Capture *capture = stream->capture.get();
    if (!capture)
      continue;
    bool forbids = capture->mode == CUstreamCaptureMode::Global ||
                   (capture->mode == CUstreamCaptureMode::ThreadLocal &&
                    capture->thread == std::this_thread::get_id());
    if (!forbids)
      continue;
    capture->isValid = false;
    result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  return result;
}
