// What kernels do besides memory: device-side printf and assert, the device heap of malloc and free, and the
// conditions of graphs. One
// a context, made at its first launch; launches write into it from many threads.
#pragma once
#include <map>
#include <mutex>
#include <string>
#include <string_view>

#include "driver.h"
#include "ptx/run.h"

namespace gpufence::sim {

class Output : public ptx::Sinks {
 public:
  explicit Output(Context& context) : context_(context) {}

  // Into the buffer of CU_LIMIT_PRINTF_FIFO_SIZE bytes: what is oldest is lost when it is full, as CUDA
  // documents.
  void print(std::string_view text) override;
  uint64_t heap_allocate(uint64_t bytes) override;
  bool heap_free(uint64_t address) override;
  bool set_condition(uint64_t handle, uint32_t value) override;

  // Takes the heap from the context's GPU, CU_LIMIT_MALLOC_HEAP_SIZE bytes, unless it has it already.
  CUresult open_heap();
  void flush();
  // The heap went with the context's memory.
  void close();

 private:
  Context& context_;
  std::mutex print_lock_;
  std::string printed_;
  std::mutex heap_lock_;
  Block* heap_ = nullptr;
  std::map<uint64_t, uint64_t> free_;   // address → bytes
  std::map<uint64_t, uint64_t> taken_;  // address → bytes
};

Output& output_of(Context& context);

// What kernels of the context printed goes to the program's stdout: at synchronisation, loads, launches and
// the context's end (CUDA C++ programming guide, "Formatted output").
void flush_output(Context& context);
// At the context's end.
void close_output(Context& context);

}  // namespace gpufence::sim
