// Entry points: streams, events, capture, graphs.
//
// SPDX-License-Identifier: Apache-2.0
#include "test/emulator/cuda/Driver.h"

using namespace mpc::emulator;

namespace {
/// A launch of a graph. The nodes of streams that joined the capture run as
/// early as the edges allow, or as late: a missing edge then changes the
/// result.
class GraphLaunch {
public:
  GraphLaunch(const std::vector<Node> &nodes, bool isEarly)
      : nodes(nodes), isDone(nodes.size()), isEarly(isEarly) {
    for (size_t i = 0; i < nodes.size(); ++i)
      waiting[nodes[i].isForked].push_back(i);
  }

  CUresult run(Driver &driver) {
    while (std::deque<size_t> *list = choose()) {
      const size_t node = list->front();
      if (CUresult result = driver.run(nodes[node].work, hasBegun))
        return result;
      hasBegun = false;
      isDone[node] = true;
      list->pop_front();
    }
    return CUDA_SUCCESS;
  }

private:
  /// The list whose first node runs next; null at the end.
  std::deque<size_t> *choose() {
    for (bool isForked : {isEarly, !isEarly}) {
      std::deque<size_t> &list = waiting[isForked];
      if (!list.empty() && isReady(nodes[list.front()]))
        return &list;
    }
    return nullptr;
  }
  bool isReady(const Node &node) const {
    for (size_t before : node.after)
      if (!isDone[before])
        return false;
    return true;
  }

  std::vector<Node> nodes;
  std::vector<bool> isDone;
  bool isEarly;
  bool hasBegun = false;         ///< true if the next node has
  std::deque<size_t> waiting[2]; ///< of the origin, of the other streams
};
} // namespace

/// True if the last nodes of `stream` precede the last nodes of the capture's
/// origin.
static bool hasJoined(const Capture &capture, const Stream &stream) {
  Nodes before = capture.origin->last;
  // Edges lead to earlier nodes.
  for (size_t i = capture.graph->nodes.size(); i-- > 0;)
    if (before.count(i)) {
      const Nodes &after = capture.graph->nodes[i].after;
      before.insert(after.begin(), after.end());
    }
  for (size_t node : stream.last)
    if (!before.count(node))
      return false;
  return true;
}

/// Ends a capture that may have been invalidated.
static CUresult endCapture(Driver &driver, Stream &stream, CUgraph *graph) {
  *graph = nullptr;
  const std::shared_ptr<Capture> capture = stream.capture;
  if (!capture || capture->origin != &stream)
    return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
  if (capture->mode != Relaxed && capture->thread != std::this_thread::get_id())
    return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
  bool isJoined = true;
  for (auto &[handle, other] : driver.streams) {
    if (other->capture != capture)
      continue;
    isJoined = isJoined && hasJoined(*capture, *other);
    other->capture = nullptr;
  }
  for (auto &[handle, event] : driver.events)
    if (event->capturedBy == capture)
      event->capturedBy = nullptr;
  if (!capture->isValid)
    return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (!isJoined)
    return CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
  *graph = capture->graph.get();
  driver.graphs[*graph] = std::move(capture->graph);
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

static CUresult waitFor(Driver &d, CUstream handle, bool isQuery) {
  Stream *stream = d.find(handle);
  if (!stream)
    return CUDA_ERROR_INVALID_HANDLE;
  if (CUresult result = d.checkWait(*stream))
    return result;
  Queue &queue = d.queueOf(*stream);
  return isQuery ? d.proceed(queue) : d.finish(queue);
}

MPC_EXPORT CUresult cuStreamSynchronize(CUstream stream) {
  return call("cuStreamSynchronize", {{"stream", stream}}, Needs::Context,
              [&](Driver &d) { return waitFor(d, stream, /*isQuery=*/false); });
}

/// A program may poll until the work is done: execute it now.
MPC_EXPORT CUresult cuStreamQuery(CUstream stream) {
  return call("cuStreamQuery", {{"stream", stream}}, Needs::Context,
              [&](Driver &d) { return waitFor(d, stream, /*isQuery=*/true); });
}

MPC_EXPORT CUresult cuStreamWaitEvent(CUstream stream, CUevent event,
                                      unsigned flags) {
  return call("cuStreamWaitEvent", {{"stream", stream}, {"event", event}},
              Needs::Context, [&](Driver &d) {
                Stream *target = d.find(stream);
                if (!target || !d.events.count(event))
                  return CUDA_ERROR_INVALID_HANDLE;
                // A stream that waits for a captured event joins the capture.
                if (!target->capture && event->capturedBy) {
                  target->capture = event->capturedBy;
                  target->last.clear();
                }
                if (event->capturedBy != target->capture) {
                  target->capture->isValid = false;
                  return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
                }
                if (target->capture)
                  target->last.insert(event->nodes.begin(), event->nodes.end());
                else
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
                event->capturedBy = isExternal ? nullptr : target->capture;
                if (event->capturedBy) {
                  event->nodes = target->last;
                  return CUDA_SUCCESS;
                }
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

static CUresult waitForEvent(Driver &d, CUevent event, bool isQuery) {
  if (!d.events.count(event))
    return CUDA_ERROR_INVALID_HANDLE;
  if (event->capturedBy) {
    event->capturedBy->isValid = false;
    return CUDA_ERROR_CAPTURED_EVENT;
  }
  return isQuery ? d.proceed(event->before) : d.finish(event->before);
}

MPC_EXPORT CUresult cuEventSynchronize(CUevent event) {
  return call(
      "cuEventSynchronize", {{"event", event}}, Needs::Context,
      [&](Driver &d) { return waitForEvent(d, event, /*isQuery=*/false); });
}

MPC_EXPORT CUresult cuEventQuery(CUevent event) {
  return call("cuEventQuery", {{"event", event}}, Needs::Context,
              [&](Driver &d) {
                if (CUresult result = d.checkUnsafe())
                  return result;
                return waitForEvent(d, event, /*isQuery=*/true);
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
                target->capture = std::make_shared<Capture>();
                target->capture->origin = target;
                target->capture->mode = mode;
                target->capture->thread = std::this_thread::get_id();
                target->last.clear();
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
  return call(
      "cuStreamIsCapturing", {{"stream", stream}}, Needs::Context,
      [&](Driver &d) {
        Stream *target = d.find(stream);
        if (!target)
          return CUDA_ERROR_INVALID_HANDLE;
        const Capture *capture = target->capture.get();
        *status = !capture ? None : capture->isValid ? Active : Invalidated;
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
        const std::vector<Node> &nodes = found->second->nodes;
        std::string name = "graph nodes=" + std::to_string(nodes.size());
        auto state = std::make_shared<GraphLaunch>(
            nodes, /*isEarly=*/found->second->launches++ % 2 == 0);
        Work launch{name, [&d, state] { return state->run(d); }};
        for (const Node &node : nodes)
          launch.touched.insert(launch.touched.end(), node.work.touched.begin(),
                                node.work.touched.end());
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
