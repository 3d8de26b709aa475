// Memory of graphs' allocation nodes. An allocation has its address from the moment its node is made, and
// memory of the GPU behind it ("backed") from the first upload or launch of the graph until it is trimmed or
// nobody needs it. The GPU keeps what was backed once until cuDeviceGraphMemTrim.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "driver.h"

namespace gpufence::sim {

namespace ptx {
struct Region;
}  // namespace ptx

struct Graph;

struct GraphMemory : std::enable_shared_from_this<GraphMemory> {
  ~GraphMemory();  // gives back the address, and what is behind it

  Device* device = nullptr;
  Block* block = nullptr;  // of Device::graph_heap
  uintptr_t address = 0;
  uint64_t bytes = 0, taken = 0;  // as asked for; as the GPU gives it
  uint64_t id = 0;
  std::map<const Device*, CUmemAccess_flags> access;  // of other GPUs
  // Who may free it; under the graphs' lock.
  const Graph* owner = nullptr;
  bool freed_by_owner = false, freed_by_another = false;
  // Under the lock of graph memory.
  bool backed = false;
  bool live = false;     // allocated by a launch, and to be freed outside of its graph
  unsigned running = 0;  // launches under way that use it
  unsigned execs = 0;    // executable graphs that allocate it
};

// An address without memory. nullptr: the host has none left.
std::shared_ptr<GraphMemory> plan_graph_memory(Device& device, uint64_t bytes);
// The allocation that starts there, run or not.
std::shared_ptr<GraphMemory> graph_memory_at(uintptr_t address);
// True if an allocation covers those bytes, run or not.
bool in_graph_memory(uintptr_t address, uint64_t bytes);
// The live allocation that covers the address, as find() tells it.
bool find_graph_memory(uintptr_t address, Found& found);

using GraphMemories = std::vector<std::shared_ptr<GraphMemory>>;

// Memory for all of them, or CUDA_ERROR_OUT_OF_MEMORY and for none more.
CUresult back(const GraphMemories& memories);
// Of an executable graph as it comes and goes.
void count_exec(const GraphMemories& memories, int more);
bool any_live(const GraphMemories& memories);
// A launch allocates these for whoever comes after it.
void set_live(const GraphMemories& memories);
// False: not live. What the graph's memory held stays with executable graphs that allocate it.
bool free_graph_memory(uintptr_t address);

// While a launch is under way its memory is not trimmed.
class RunningMemory {
 public:
  explicit RunningMemory(GraphMemories memories);
  ~RunningMemory();
  RunningMemory(const RunningMemory&) = delete;

 private:
  GraphMemories memories_;
};

void add_graph_regions(const Context& context, std::vector<ptx::Region>& regions);
bool may_touch_graph_memory(const Device* device, uintptr_t address);
uint64_t graph_memory_changes();

}  // namespace gpufence::sim
