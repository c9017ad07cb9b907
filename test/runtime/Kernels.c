// Kernels for plans built by tests, with the compiler's calling convention.
//
// SPDX-License-Identifier: Apache-2.0
#include <stdint.h>

// out[i] = a[i] + b[i]
void add(void *const *args, int64_t begin, int64_t end, void *scratch) {
  const float *a = args[0], *b = args[1];
  float *out = args[2];
  for (int64_t i = begin; i < end; ++i)
    out[i] = a[i] + b[i];
}

// weight[i] -= rate[0] * gradient[i]
void sgd(void *const *args, int64_t begin, int64_t end, void *scratch) {
  float *weight = args[0];
  const float *gradient = args[1], *rate = args[2];
  for (int64_t i = begin; i < end; ++i)
    weight[i] -= rate[0] * gradient[i];
}

// finite[0] = every value[i] is finite. One slice covers the whole extent.
void all_finite(void *const *args, int64_t begin, int64_t end, void *scratch) {
  const float *value = args[0];
  uint8_t *finite = args[1];
  finite[0] = 1;
  for (int64_t i = begin; i < end; ++i)
    if (!(value[i] - value[i] == 0))
      finite[0] = 0;
}

// visits[i] counts the visits of index i, starts[i] the slices that begin at i.
void count_visits(void *const *args, int64_t begin, int64_t end, void *scratch) {
  int32_t *visits = args[0], *starts = args[1];
  starts[begin] += 1;
  for (int64_t i = begin; i < end; ++i)
    visits[i] += 1;
}

// owned[begin] = the scratch memory is aligned, and no other slice writes to it
// while this slice runs. args: owned, the words of scratch memory.
void own_scratch(void *const *args, int64_t begin, int64_t end, void *scratch) {
  int32_t *owned = args[0];
  int64_t words = *(const int64_t *)args[1];
  volatile int64_t *word = scratch;
  int32_t same = (uintptr_t)scratch % 64 == 0;
  for (int round = 0; round < 20; ++round) {
    for (int64_t i = 0; i < words; ++i)
      word[i] = begin + round;
    for (int64_t i = 0; i < words; ++i)
      same &= word[i] == begin + round;
  }
  owned[begin] = same;
}

// owned[0] = no other thread writes to the words of memory while this runs.
// args: owned, the memory, the value to write, the number of words.
void own_memory(void *const *args, int64_t begin, int64_t end, void *scratch) {
  int32_t *owned = args[0];
  volatile int64_t *word = args[1];
  int64_t value = *(const int64_t *)args[2], words = *(const int64_t *)args[3];
  int32_t same = 1;
  for (int round = 0; round < 20; ++round) {
    for (int64_t i = 0; i < words; ++i)
      word[i] = value + round;
    for (int64_t i = 0; i < words; ++i)
      same &= word[i] == value + round;
  }
  owned[0] = same;
}

// out = max(accumulator + bias[column], 0); args: bias, out, number of columns.
void bias_relu(void *const *args, int64_t row_begin, int64_t row_end,
               int64_t col_begin, int64_t col_end, int64_t ld) {
  const float *accumulator = args[0], *bias = args[1];
  float *out = args[2];
  int64_t columns = *(const int64_t *)args[3];
  for (int64_t row = row_begin; row < row_end; ++row)
    for (int64_t col = col_begin; col < col_end; ++col) {
      float value = accumulator[(row - row_begin) * ld + col - col_begin];
      value += bias[col];
      out[row * columns + col] = value > 0 ? value : 0;
    }
}
