// Plain C++ parallel schedule generation: the peer that the compiled kernel of
// regal_jax.environments.rcpsp.kernel is held against. CSR arrays, binary heaps, one thread.
//
// A type whose ops all demand the same needs no walk past misfits: its ready ops are a heap by
// priority. Those of another type are a sorted vector of ranks, walked from the front.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <numeric>
#include <queue>
#include <utility>
#include <vector>

using End = std::pair<double, int32_t>;
using Ends = std::priority_queue<End, std::vector<End>, std::greater<End>>;
using Ranks = std::priority_queue<int32_t, std::vector<int32_t>, std::greater<int32_t>>;

extern "C" void plain_machine_scheduling(
    int64_t num_ops, int64_t num_types, const double* duration, const int64_t* demand,
    const int64_t* capacity, const int32_t* machine, const int32_t* num_dependencies,
    const int32_t* successor_offsets, const int32_t* successors, const float* chromosomes,
    int64_t batch, double* makespans) {
  std::vector<int64_t> free(num_types), least(num_types, INT64_MAX), most(num_types, 0);
  for (int64_t o = 0; o < num_ops; ++o) {
    least[machine[o]] = std::min(least[machine[o]], demand[o]);
    most[machine[o]] = std::max(most[machine[o]], demand[o]);
  }
  std::vector<int32_t> order(num_ops), rank(num_ops), waiting(num_ops), touched;
  std::vector<uint8_t> is_touched(num_types, 0);
  std::vector<Ranks> heaps(num_types);
  std::vector<std::vector<int32_t>> lists(num_types);
  for (int64_t b = 0; b < batch; ++b) {
    const float* priority = chromosomes + b * num_ops;
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(), [&](int32_t a, int32_t c) {
      return priority[a] > priority[c] || (priority[a] == priority[c] && a < c);
    });
    for (int64_t r = 0; r < num_ops; ++r) rank[order[r]] = static_cast<int32_t>(r);
    std::copy(capacity, capacity + num_types, free.begin());
    std::copy(num_dependencies, num_dependencies + num_ops, waiting.begin());
    Ends ends;
    auto touch = [&](int32_t m) {
      if (!is_touched[m]) touched.push_back(m);
      is_touched[m] = 1;
    };
    auto make_ready = [&](int32_t o) {
      const int32_t m = machine[o];
      if (least[m] == most[m]) {
        heaps[m].push(rank[o]);
      } else {
        auto& list = lists[m];
        list.insert(std::lower_bound(list.begin(), list.end(), rank[o]), rank[o]);
      }
      touch(m);
    };
    double time = 0.0;
    auto start = [&](int32_t o) {
      free[machine[o]] -= demand[o];
      ends.push({time + duration[o], o});
    };
    for (int32_t o = 0; o < num_ops; ++o)
      if (waiting[o] == 0) make_ready(o);
    while (true) {
      for (const int32_t m : touched) {
        is_touched[m] = 0;
        while (!heaps[m].empty() && least[m] <= free[m]) {
          start(order[heaps[m].top()]);
          heaps[m].pop();
        }
        auto& list = lists[m];
        size_t kept = 0, i = 0;
        for (; i < list.size() && least[m] <= free[m]; ++i) {
          const int32_t o = order[list[i]];
          if (demand[o] <= free[m]) {
            start(o);
          } else {
            list[kept++] = list[i];
          }
        }
        list.erase(list.begin() + kept, list.begin() + i);
      }
      touched.clear();
      if (ends.empty()) break;
      time = ends.top().first;
      while (!ends.empty() && ends.top().first == time) {
        const int32_t o = ends.top().second;
        ends.pop();
        free[machine[o]] += demand[o];
        touch(machine[o]);
        for (int32_t i = successor_offsets[o]; i < successor_offsets[o + 1]; ++i)
          if (--waiting[successors[i]] == 0) make_ready(successors[i]);
      }
    }
    makespans[b] = time;
  }
}
