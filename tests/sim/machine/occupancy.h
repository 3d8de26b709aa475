// How much of each simulated GPU is in use, shared by all processes of one user on one machine description:
// the part of a real card that processes share. One mapped file holds a slot a process and bytes a slot and
// GPU. Proof of life is an open-file-description lock on the slot, so a process's bytes go when it dies, by
// SIGKILL too, in whatever PID namespace. A damaged, foreign or full file is replaced or, said once, done
// without: nothing here ever hangs, aborts or fails a program.
#pragma once
#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "machine.h"

namespace gpufence::sim {

class Occupancy {
 public:
  // Takes a slot in the shared file. Never fails: where no file can be had, counts this process alone.
  explicit Occupancy(const Machine& machine);
  Occupancy(const Occupancy&) = delete;

  // bytes on the unit of that index; false when they do not fit beside what all live processes hold.
  bool reserve(size_t gpu, uint64_t bytes);
  void release(size_t gpu, uint64_t bytes);
  uint64_t used(size_t gpu);  // by all live processes, bytes
  // This process has lost the GPU of that host index: NVML tells everybody, for as long as it lives.
  void mark_lost(size_t gpu);
  bool shared() const { return file_inode_ != 0; }

  struct Area;
  class Probe;

 private:
  bool join();
  Area* lock(size_t gpu, Probe* probe);
  void recount(Area& area, size_t gpu);
  void reap(size_t gpu);
  void leave(const char* why);

  const Machine& machine_;
  std::string path_;
  std::atomic<Area*> area_{nullptr};  // the mapping, or private memory of the same shape
  size_t slot_ = 0;
  uint64_t lock_word_ = 0;  // what this process writes into a GPU's lock
  uint64_t file_device_ = 0;
  std::atomic<uint64_t> file_inode_{0};  // 0: private
  std::atomic<uint64_t> last_reap_ns_{0};
};

// Makes fork wait while a descriptor of the file is open. Called by Occupancy; call it earlier where a lock
// that is held round Occupancy's making has a fork handler too: handlers take their locks last registered
// first.
void keep_forks_out();

struct Holder {
  pid_t pid;
  std::vector<uint64_t> bytes;  // by unit
  uint64_t lost = 0;            // GPUs that it lost, a bit for each host index
};

// The live processes with bytes on the machine, or without a GPU of it, read without taking part in it. Empty
// where nothing is shared.
std::vector<Holder> holders(const Machine& machine);

}  // namespace gpufence::sim
