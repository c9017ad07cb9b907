// Entry points: streams, events, capture, graphs.
//
// SPDX-License-Identifier: Apache-2.0
#include "test/emulator/cuda/Driver.h"

using namespace mpc::emulator;

static CUresult launchAll(Driver &driver, const std::vector<Work> &nodes) {
  for (const Work &node : nodes)
    if (CUresult result = driver.run(node))
      return result;
  return CUDA_SUCCESS;
}

/// Ends a capture that may have been invalidated.
static CUresult endCapture(Driver &driver, Stream &stream, CUgraph *graph) {
  *graph = nullptr;
  if (stream.capture == None)
    return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
  if (stream.mode != Relaxed && stream.thread != std::this_thread::get_id())
    return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
  bool isValid = stream.capture == Active;
  stream.capture = None;
  std::unique_ptr<Graph> captured = std::move(stream.graph);
  for (auto &[handle, event] : driver.events)
    if (event->capturedBy == &stream)
      event->capturedBy = nullptr;
  if (!isValid)
    return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  *graph = captured.get();
  driver.graphs[*graph] = std::move(captured);
  return CUDA_SUCCESS;
}

extern "C" {

MPC_EXPORT CUresult cuStreamCreate(CUstream *stream, unsigned flags) {
  return call("cuStreamCreate", {{"flags", flags}}, Needs::Context,
              [&](Driver &d) {
                if (flags > CU_STREAM_NON_BLOCKING)
                  return CUDA_ERROR_INVALID_VALUE;
                auto created = std::make_unique<Stream>();
                created->context = currentContext();
                created->blocking = flags != CU_STREAM_NON_BLOCKING;
                *stream = created.get();
                d.streams[*stream] = std::move(created);
                return CUDA_SUCCESS;
              });
}

MPC_EXPORT CUresult cuStreamDestroy_v2(CUstream stream) {
  return call("cuStreamDestroy_v2", {{"stream", stream}}, Needs::Context,
              [&](Driver &d) {
                auto found = d.streams.find(stream);
                if (found == d.streams.end())
                  return CUDA_ERROR_INVALID_HANDLE;
                // destroying ends the work
                CUresult result = d.finish(found->second->queue);
                d.forget(found->second->queue);
                d.streams.erase(found);
                return result;
              });
}

static CUresult waitFor(Driver &d, CUstream handle) {
  Stream *stream = d.find(handle);
  if (!stream)
    return CUDA_ERROR_INVALID_HANDLE;
  if (CUresult result = d.checkWait(*stream))
    return result;
  return d.finish(d.queueOf(*stream));
}

MPC_EXPORT CUresult cuStreamSynchronize(CUstream stream) {
  return call("cuStreamSynchronize", {{"stream", stream}}, Needs::Context,
              [&](Driver &d) { return waitFor(d, stream); });
}

/// A program may poll until the work is done: execute it now.
MPC_EXPORT CUresult cuStreamQuery(CUstream stream) {
  return call("cuStreamQuery", {{"stream", stream}}, Needs::Context,
              [&](Driver &d) { return waitFor(d, stream); });
}

MPC_EXPORT CUresult cuStreamWaitEvent(CUstream stream, CUevent event,
                                      unsigned flags) {
  return call("cuStreamWaitEvent", {{"stream", stream}, {"event", event}},
              Needs::Context, [&](Driver &d) {
                Stream *target = d.find(stream);
                if (!target || !d.events.count(event))
                  return CUDA_ERROR_INVALID_HANDLE;
                // Only one stream is captured at a time. Captures that fork are
                // not emulated.
                if (event->capturedBy != (target->capture ? target : nullptr)) {
                  target->capture = target->capture ? Invalidated : None;
                  return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
                }
                if (!target->capture)
                  d.merge(event->before, d.queueOf(*target));
                return CUDA_SUCCESS;
              });
}

MPC_EXPORT CUresult cuLaunchHostFunc(CUstream stream, CUhostFn function,
                                     void *data) {
  return call("cuLaunchHostFunc", {{"stream", stream}}, Needs::Context,
              [&](Driver &d) {
                return d.enqueue(stream, {"cuLaunchHostFunc", [=] {
                                            function(data);
                                            return CUDA_SUCCESS;
                                          }});
              });
}

//===----------------------------------------------------------------------===//
// Events
//===----------------------------------------------------------------------===//

MPC_EXPORT CUresult cuEventCreate(CUevent *event, unsigned flags) {
  return call("cuEventCreate", {{"flags", flags}}, Needs::Context,
              [&](Driver &d) {
                auto created = std::make_unique<Event>();
                created->hasTime = !(flags & CU_EVENT_DISABLE_TIMING);
                *event = created.get();
                d.events[*event] = std::move(created);
                return CUDA_SUCCESS;
              });
}

MPC_EXPORT CUresult cuEventDestroy_v2(CUevent event) {
  return call(
      "cuEventDestroy_v2", {{"event", event}}, Needs::Context, [&](Driver &d) {
        if (CUresult result = d.finish())
          return result;
        return d.events.erase(event) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
      });
}

static CUresult recordEvent(const char *name, CUevent event, CUstream stream,
                            unsigned flags) {
  return call(name, {{"event", event}, {"stream", stream}, {"flags", flags}},
              Needs::Context, [&](Driver &d) {
                Stream *target = d.find(stream);
                if (!target || !d.events.count(event))
                  return CUDA_ERROR_INVALID_HANDLE;
                // External records belong to captured streams: each launch of
                // the graph records the event.
                bool isExternal = flags == CU_EVENT_RECORD_EXTERNAL;
                if (flags > CU_EVENT_RECORD_EXTERNAL ||
                    (isExternal && !target->capture))
                  return CUDA_ERROR_INVALID_VALUE;
                event->capturedBy =
                    target->capture && !isExternal ? target : nullptr;
                auto note = [event] {
                  event->recorded = true;
                  event->time = std::chrono::steady_clock::now();
                  return CUDA_SUCCESS;
                };
                CUresult result = d.enqueue(stream, {"", note});
                if (!result && !target->capture)
                  event->before = d.queueOf(*target).seen;
                return result;
              });
}

MPC_EXPORT CUresult cuEventRecord(CUevent event, CUstream stream) {
  return recordEvent("cuEventRecord", event, stream, 0);
}

MPC_EXPORT CUresult cuEventRecordWithFlags(CUevent event, CUstream stream,
                                           unsigned flags) {
  return recordEvent("cuEventRecordWithFlags", event, stream, flags);
}

static CUresult waitForEvent(Driver &d, CUevent event) {
  if (!d.events.count(event))
    return CUDA_ERROR_INVALID_HANDLE;
  if (event->capturedBy) {
    event->capturedBy->capture = Invalidated;
    return CUDA_ERROR_CAPTURED_EVENT;
  }
  return d.finish(event->before);
}

MPC_EXPORT CUresult cuEventSynchronize(CUevent event) {
  return call("cuEventSynchronize", {{"event", event}}, Needs::Context,
              [&](Driver &d) { return waitForEvent(d, event); });
}

MPC_EXPORT CUresult cuEventQuery(CUevent event) {
  return call("cuEventQuery", {{"event", event}}, Needs::Context,
              [&](Driver &d) {
                if (CUresult result = d.checkUnsafe())
                  return result;
                return waitForEvent(d, event);
              });
}

static CUresult elapsedTime(const char *name, float *milliseconds,
                            CUevent begin, CUevent end) {
  return call(
      name, {{"begin", begin}, {"end", end}}, Needs::Context, [&](Driver &d) {
        if (!d.events.count(begin) || !d.events.count(end) || !begin->hasTime ||
            !end->hasTime)
          return CUDA_ERROR_INVALID_HANDLE;
        if (!begin->recorded || !end->recorded)
          return CUDA_ERROR_NOT_READY;
        *milliseconds =
            std::chrono::duration<float, std::milli>(end->time - begin->time)
                .count();
        return CUDA_SUCCESS;
      });
}

MPC_EXPORT CUresult cuEventElapsedTime(float *milliseconds, CUevent begin,
                                       CUevent end) {
  return elapsedTime("cuEventElapsedTime", milliseconds, begin, end);
}

MPC_EXPORT CUresult cuEventElapsedTime_v2(float *milliseconds, CUevent begin,
                                          CUevent end) {
  return elapsedTime("cuEventElapsedTime_v2", milliseconds, begin, end);
}

//===----------------------------------------------------------------------===//
// Capture and graphs
//===----------------------------------------------------------------------===//

MPC_EXPORT CUresult cuStreamBeginCapture_v2(CUstream stream,
                                            CUstreamCaptureMode mode) {
  return call("cuStreamBeginCapture_v2", {{"stream", stream}, {"mode", mode}},
              Needs::Context, [&](Driver &d) {
                Stream *target = d.find(stream);
                if (!target)
                  return CUDA_ERROR_INVALID_HANDLE;
                if (target == &d.defaultStream)
                  return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
                if (target->capture || mode < Global || mode > Relaxed)
                  return CUDA_ERROR_INVALID_VALUE;
                target->capture = Active;
                target->mode = mode;
                target->thread = std::this_thread::get_id();
                target->graph = std::make_unique<Graph>();
                return CUDA_SUCCESS;
              });
}

MPC_EXPORT CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph) {
  return call("cuStreamEndCapture", {{"stream", stream}}, Needs::Context,
              [&](Driver &d) {
                Stream *target = d.find(stream);
                return target ? endCapture(d, *target, graph)
                              : CUDA_ERROR_INVALID_HANDLE;
              });
}

MPC_EXPORT CUresult cuStreamIsCapturing(CUstream stream,
                                        CUstreamCaptureStatus *status) {
  return call("cuStreamIsCapturing", {{"stream", stream}}, Needs::Context,
              [&](Driver &d) {
                Stream *target = d.find(stream);
                if (!target)
                  return CUDA_ERROR_INVALID_HANDLE;
                *status = target->capture;
                return CUDA_SUCCESS;
              });
}

MPC_EXPORT CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes,
                                    size_t *count) {
  return call("cuGraphGetNodes", {{"graph", graph}}, Needs::Context,
              [&](Driver &d) {
                if (!d.graphs.count(graph) || nodes)
                  return CUDA_ERROR_INVALID_VALUE;
                *count = graph->nodes.size();
                return CUDA_SUCCESS;
              });
}

MPC_EXPORT CUresult cuGraphInstantiateWithFlags(CUgraphExec *executable,
                                                CUgraph graph,
                                                unsigned long long flags) {
  return call("cuGraphInstantiateWithFlags", {{"graph", graph}}, Needs::Context,
              [&](Driver &d) {
                if (!d.graphs.count(graph))
                  return CUDA_ERROR_INVALID_VALUE;
                auto created = std::make_unique<GraphExec>();
                created->nodes = graph->nodes;
                *executable = created.get();
                d.executables[*executable] = std::move(created);
                return CUDA_SUCCESS;
              });
}

MPC_EXPORT CUresult cuGraphLaunch(CUgraphExec executable, CUstream stream) {
  return call(
      "cuGraphLaunch", {{"graph", executable}, {"stream", stream}},
      Needs::Context, [&](Driver &d) {
        auto found = d.executables.find(executable);
        if (found == d.executables.end())
          return CUDA_ERROR_INVALID_VALUE;
        std::vector<Work> nodes = found->second->nodes;
        std::string name = "graph nodes=" + std::to_string(nodes.size());
        Work launch{name, [&d, nodes] { return launchAll(d, nodes); }};
        for (const Work &node : nodes)
          launch.touched.insert(launch.touched.end(), node.touched.begin(),
                                node.touched.end());
        return d.enqueue(stream, std::move(launch));
      });
}

MPC_EXPORT CUresult cuGraphExecDestroy(CUgraphExec executable) {
  return call("cuGraphExecDestroy", {{"graph", executable}}, Needs::Context,
              [&](Driver &d) {
                return d.executables.erase(executable)
                           ? CUDA_SUCCESS
                           : CUDA_ERROR_INVALID_VALUE;
              });
}

MPC_EXPORT CUresult cuGraphDestroy(CUgraph graph) {
  return call(
      "cuGraphDestroy", {{"graph", graph}}, Needs::Context, [&](Driver &d) {
        return d.graphs.erase(graph) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
      });
}

} // extern "C"
