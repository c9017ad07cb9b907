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
  case CUstreamCaptureStatus::None: {
    Queue &queue = queueOf(*stream);
    if (!isOrdered(queue, work))
      work.run = [] { return CUDA_ERROR_LAUNCH_FAILED; };
    queue.entries.push_back({std::move(work), queue.seen});
    queue.seen[&queue] = queue.end();
    return CUDA_SUCCESS;
  }
  }
  return CUDA_ERROR_UNKNOWN;
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

CUresult Driver::run(const Work &work) {
  if (environment.logs() && !work.name.empty())
    environment.log("  run " + work.name);
  return work.run();
}

CUresult Driver::finish(Queue &queue, uint64_t end) {
  while (queue.done < end && !queue.entries.empty() && !lost) {
    Queue::Entry entry = std::move(queue.entries.front());
    queue.entries.pop_front();
    ++queue.done;
    // Dependencies were enqueued earlier, so the recursion ends.
    if (!finish(entry.after))
      lost = run(entry.work);
  }
  if (lost)
    for (Queue *other : queues()) {
      other->done += other->entries.size();
      other->entries.clear();
    }
  return lost;
}

CUresult Driver::finish(Queue &queue) { return finish(queue, queue.end()); }

CUresult Driver::finish(const Clock &clock) {
  for (const auto &[queue, end] : clock)
    (void)finish(*queue, end);
  return lost;
}

CUresult Driver::finish() {
  for (Queue *queue : queues())
    (void)finish(*queue);
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
