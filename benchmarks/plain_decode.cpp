// A plain C++ decode of chromosomes and their peak memory: the peer that the compiled kernel of
// regal_jax.environments.native is held against. CSR arrays, std::priority_queue, one thread.
#include <algorithm>
#include <cstdint>
#include <queue>
#include <utility>
#include <vector>

struct Ready {
  float priority;
  int64_t step;
  bool operator<(const Ready& other) const {
    return priority < other.priority || (priority == other.priority && step > other.step);
  }
};

extern "C" void plain_decode(
    int64_t num_ops, int64_t num_tensors, int64_t num_devices, const int32_t* producer,
    const int64_t* size, const uint8_t* persistent, const int64_t* consumer_offsets,
    const int32_t* consumers, const int64_t* input_offsets, const int32_t* inputs,
    const int64_t* output_offsets, const int32_t* outputs, const int64_t* workspace,
    const float* chromosomes, int64_t batch, int64_t* peaks) {
  const int64_t genes = num_ops * num_devices + num_ops + num_tensors * num_devices;
  std::vector<int32_t> place(num_ops), waiting(num_ops);
  std::vector<int32_t> uses(num_tensors * num_devices);
  std::vector<int64_t> memory(num_devices), peak(num_devices);
  for (int64_t b = 0; b < batch; ++b) {
    const float* affinity = chromosomes + b * genes;
    const float* op_priority = affinity + num_ops * num_devices;
    const float* transfer_priority = op_priority + num_ops;
    for (int64_t o = 0; o < num_ops; ++o) {
      const float* row = affinity + o * num_devices;
      place[o] = static_cast<int32_t>(std::max_element(row, row + num_devices) - row);
      waiting[o] = 0;
    }
    std::fill(uses.begin(), uses.end(), 0);
    std::fill(memory.begin(), memory.end(), 0);
    for (int64_t t = 0; t < num_tensors; ++t) {
      for (int64_t i = consumer_offsets[t]; i < consumer_offsets[t + 1]; ++i) {
        uses[t * num_devices + place[consumers[i]]]++;
        if (producer[t] >= 0) waiting[consumers[i]]++;
      }
      const int64_t home = producer[t] >= 0 ? place[producer[t]] : -1;
      int32_t transfers = 0;
      for (int64_t d = 0; d < num_devices; ++d) {
        if (uses[t * num_devices + d] == 0) continue;
        if (home < 0) {
          memory[d] += size[t];
        } else if (d != home) {
          ++transfers;
        }
      }
      if (home >= 0) uses[t * num_devices + home] += transfers;
    }
    peak = memory;
    std::priority_queue<Ready> ready;
    for (int64_t o = 0; o < num_ops; ++o)
      if (waiting[o] == 0) ready.push({op_priority[o], o});
    auto arrive = [&](int64_t t, int64_t d) {
      for (int64_t i = consumer_offsets[t]; i < consumer_offsets[t + 1]; ++i) {
        const int32_t c = consumers[i];
        if (place[c] == d && --waiting[c] == 0) ready.push({op_priority[c], c});
      }
    };
    auto free_if_unused = [&](int64_t t, int64_t d) {
      const bool home = producer[t] < 0 || place[producer[t]] == d;
      if (uses[t * num_devices + d] == 0 && !(persistent[t] && home)) memory[d] -= size[t];
    };
    while (!ready.empty()) {
      const int64_t step = ready.top().step;
      ready.pop();
      if (step < num_ops) {
        const int64_t d = place[step];
        for (int64_t i = output_offsets[step]; i < output_offsets[step + 1]; ++i)
          memory[d] += size[outputs[i]];
        peak[d] = std::max(peak[d], memory[d] + workspace[step]);
        for (int64_t i = output_offsets[step]; i < output_offsets[step + 1]; ++i) {
          const int64_t t = outputs[i];
          free_if_unused(t, d);
          arrive(t, d);
          for (int64_t e = 0; e < num_devices; ++e)
            if (e != d && uses[t * num_devices + e] > 0) {
              const int64_t k = t * num_devices + e;
              ready.push({transfer_priority[k], num_ops + k});
            }
        }
        for (int64_t i = input_offsets[step]; i < input_offsets[step + 1]; ++i) {
          uses[inputs[i] * num_devices + d]--;
          free_if_unused(inputs[i], d);
        }
      } else {
        const int64_t t = (step - num_ops) / num_devices, d = (step - num_ops) % num_devices;
        const int64_t home = place[producer[t]];
        memory[d] += size[t];
        peak[d] = std::max(peak[d], memory[d]);
        uses[t * num_devices + home]--;
        free_if_unused(t, home);
        arrive(t, d);
      }
    }
    std::copy(peak.begin(), peak.end(), peaks + b * num_devices);
  }
}
