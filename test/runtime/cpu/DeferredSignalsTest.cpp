// Tests signal handlers during products: none may run while the stack pointer
// is not a stack.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/DeferredSignals.h"
#include "test/runtime/MatMulCase.h"

#include <csignal>
#include <ctime>
#include <pthread.h>
#include <unistd.h>

using namespace mpc::runtime;
using namespace mpc::runtime::test;

namespace {

/// The calling thread's stack, and counts of handlers that ran on it and
/// elsewhere.
char *stackBegin, *stackEnd;
std::atomic<int> onStack{0}, elsewhere{0};

void countStack(int) {
  char here;
  char *const frame = &here;
  ++(frame >= stackBegin && frame < stackEnd ? onStack : elsewhere);
}

void findStack() {
  pthread_attr_t attributes;
  ASSERT_EQ(pthread_getattr_np(pthread_self(), &attributes), 0);
  void *begin;
  size_t size;
  pthread_attr_getstack(&attributes, &begin, &size);
  pthread_attr_destroy(&attributes);
  stackBegin = static_cast<char *>(begin);
  stackEnd = stackBegin + size;
}

/// Sends SIGALRM to this thread every 200 microseconds while this lives. Other
/// threads of the process may not take the signal while this thread defers it.
/// The handler has no alternate stack, as in a library's host program.
class Alarms {
public:
  Alarms() {
    struct sigaction action = {};
    action.sa_handler = countStack;
    action.sa_flags = SA_RESTART;
    sigaction(SIGALRM, &action, &previous);
    sigevent event = {};
    event.sigev_notify = SIGEV_THREAD_ID;
    event.sigev_signo = SIGALRM;
    event._sigev_un._tid = gettid();
    isRunning = timer_create(CLOCK_MONOTONIC, &event, &timer) == 0;
    const itimerspec often = {{0, 200'000}, {0, 200'000}};
    if (isRunning)
      timer_settime(timer, /*flags=*/0, &often, nullptr);
  }
  ~Alarms() {
    if (isRunning)
      timer_delete(timer);
    sigaction(SIGALRM, &previous, nullptr);
  }

private:
  struct sigaction previous;
  timer_t timer;
  bool isRunning = false;
};

/// oneDNN's products of few rows by many columns use the stack pointer for
/// other purposes.
TEST(DeferredSignals, HandlersRunOnTheStackWhileProductsRun) {
  MatMulCase c = {32, 4096, 512};
  c.tileM = 32;
  c.tileN = 256;
  MatMul matmul(c);
  ArtifactBuilder builder;
  matmul.addTo(builder);
  SessionOptions options;
  options.threads = 1;
  auto session = Session::create(builder.open(), options);
  ASSERT_TRUE(session.ok()) << session.status().message();
  ASSERT_TRUE((*session)->run("step").ok());

  findStack();
  {
    Alarms alarms;
    for (int i = 0; i < 60; ++i)
      ASSERT_TRUE((*session)->run("step").ok());
  }
  EXPECT_GT(onStack, 0);
  EXPECT_EQ(elsewhere, 0);
}

TEST(DeferredSignals, WhatCameMeanwhileIsDelivered) {
  findStack();
  struct sigaction action = {}, previous;
  action.sa_handler = countStack;
  sigaction(SIGUSR2, &action, &previous);
  const int before = onStack;
  {
    DeferredSignals deferred;
    raise(SIGUSR2);
    EXPECT_EQ(onStack, before);
  }
  EXPECT_EQ(onStack, before + 1);
  sigaction(SIGUSR2, &previous, nullptr);
}

} // namespace
