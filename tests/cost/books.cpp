// What a change in a scope's books costs beside so many other processes that are there and idle: their slots
// are taken, by this process in their place. Prints "processes ns" a line, the ns of one reservation and its
// release.
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "ledger/scope_book.h"

int main() {
  using gpufence::ledger::ScopeBook;
  char directory[] = "/dev/shm/gpufence-cost-XXXXXX";
  if (::mkdtemp(directory) == nullptr) return 1;
  const std::string path = std::string(directory) + "/run";
  std::vector<std::unique_ptr<ScopeBook>> all;
  int status = 0;
  for (const std::size_t processes : {1, 10, 100, 1000}) {
    while (all.size() < processes) {
      auto book = ScopeBook::open(path, {"GPU-a"});
      if (!book) {
        std::fprintf(stderr, "%s\n", book.error().c_str());
        status = 1;
        break;
      }
      all.push_back(*std::move(book));
    }
    if (status != 0) break;
    constexpr int kChanges = 20000;
    std::vector<double> rounds;
    for (int round = 0; round < 41; ++round) {
      const auto start = std::chrono::steady_clock::now();
      for (int i = 0; i < kChanges; ++i) {
        if (all[0]->reserve(0, 4096, 1 << 20, UINT64_MAX) != ScopeBook::Answer::booked) status = 1;
        all[0]->release(0, 4096);
      }
      const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - start;
      rounds.push_back(took.count() / kChanges);
    }
    std::nth_element(rounds.begin(), rounds.begin() + 20, rounds.end());
    std::printf("%zu %.1f\n", processes, rounds[20]);
  }
  all.clear();
  ::unlink(path.c_str());
  ::rmdir(directory);
  return status;
}
