// What processes show each other by handles of 64 bytes (cuIpc…): memory of cuMemAlloc, and events. A handle
// tells of a process, a file that it keeps open and a place in that; whoever opens it finds the file by
// /proc/<pid>/fd, so that nothing has a name that outlives the processes.
#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "driver.h"

namespace gpufence::sim {

namespace ptx {
struct Region;
}  // namespace ptx

// ---- Memory (ipc.cpp) ----

// Whether cuIpcGetMemHandle takes it.
bool exportable(const Found& found);
// The block is no longer to be opened: before it is freed, under its device's lock.
void withdraw(const Backing& backing, Block& block);
// What the process opened and covers the address, as find() tells it.
bool find_imported(uintptr_t address, Found& found);
// What that context opened.
void add_imported_regions(const Context& owner, std::vector<ptx::Region>& regions);
// With their context.
void close_imports_of(Context& context);

// What another process keeps open there, if it is the file of that inode; -1. The caller closes it.
int open_of(int32_t pid, int32_t file, uint64_t inode);

// ---- Events (ipc_event.cpp) ----

// An event as all processes that hold it see it: its records are counted, and each is done at some time. A
// record of a process that died counts as done, as nobody else could end the waiting for it.
class SharedEvent {
 public:
  struct Cell;

  static std::shared_ptr<SharedEvent> make();  // nullptr: the host has no memory for it
  static CUresult open(const CUipcEventHandle& handle, std::shared_ptr<SharedEvent>* out);
  CUresult give_handle(CUipcEventHandle* out) const;

  SharedEvent(Cell* cell, uint32_t own_place) : cell_(cell), own_place_(own_place) {}
  SharedEvent(const SharedEvent&) = delete;
  ~SharedEvent();

  uint64_t record();  // the number of a new record
  void complete(uint64_t number);
  [[nodiscard]] uint64_t last() const;  // 0: never recorded
  [[nodiscard]] bool done(uint64_t number) const;
  // Returns when it is done, or soon after `give_up` says so.
  void wait(uint64_t number, const std::function<bool()>& give_up) const;

 private:
  Cell* cell_;
  uint32_t own_place_;  // in this process's file, from 1; 0: it is another's
};

}  // namespace gpufence::sim
