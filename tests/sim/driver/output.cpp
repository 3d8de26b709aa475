#include "output.h"

#include "graph.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <unordered_map>

namespace gpufence::sim {
namespace {

struct Outputs {
  std::mutex lock;
  std::unordered_map<Context*, std::unique_ptr<Output>> of;
};

Outputs& outputs() {
  static auto* made = new Outputs;  // leaked, as all state that exit handlers reach
  return *made;
}

// So that contexts that never launched cost a flush nothing.
constinit std::atomic<bool> any{false};

Output* known_output_of(Context& context) {
  if (!any.load(std::memory_order_acquire)) return nullptr;
  std::lock_guard<std::mutex> held(outputs().lock);
  auto it = outputs().of.find(&context);
  return it == outputs().of.end() ? nullptr : it->second.get();
}

// "file:12: void f(): block: [0,0,0], thread: [0,0,0] Assertion `…` failed." is what an assert says, and it
// goes to stderr at once.
bool is_assertion(std::string_view text) {
  return text.find(": block: [") != std::string_view::npos &&
         text.find("] Assertion `") != std::string_view::npos && text.size() > 10 &&
         text.substr(text.size() - 10) == "` failed.\n";
}

constexpr uint64_t kHeapStep = 16;

}  // namespace

Output& output_of(Context& context) {
  std::lock_guard<std::mutex> held(outputs().lock);
  auto& output = outputs().of[&context];
  if (output == nullptr) {
    output = std::make_unique<Output>(context);
    any.store(true, std::memory_order_release);
  }
  return *output;
}

void flush_output(Context& context) {
  if (Output* output = known_output_of(context)) output->flush();
}

void close_output(Context& context) {
  if (Output* output = known_output_of(context)) output->close();
}

void Output::print(std::string_view text) {
  if (is_assertion(text)) {
    [[maybe_unused]] ssize_t n = write(STDERR_FILENO, text.data(), text.size());
    return;
  }
  std::lock_guard<std::mutex> held(print_lock_);
  const size_t room = context_.limits[CU_LIMIT_PRINTF_FIFO_SIZE];
  printed_ += text;
  if (printed_.size() <= room) return;
  // Whole lines go, as whole records do there.
  const size_t excess = printed_.size() - room;
  const size_t line = printed_.find('\n', excess - 1);
  printed_.erase(0, line == std::string::npos ? excess : line + 1);
}

void Output::flush() {
  std::lock_guard<std::mutex> held(print_lock_);
  if (printed_.empty()) return;
  fwrite(printed_.data(), 1, printed_.size(), stdout);
  printed_.clear();
}

CUresult Output::open_heap() {
  std::lock_guard<std::mutex> held(heap_lock_);
  if (heap_ != nullptr) return CUDA_SUCCESS;
  const uint64_t bytes = context_.limits[CU_LIMIT_MALLOC_HEAP_SIZE] / kHeapStep * kHeapStep;
  if (bytes == 0) return CUDA_SUCCESS;  // every malloc answers NULL
  const CUresult result = allocate(context_, bytes, Kind::code, &heap_);
  if (result != CUDA_SUCCESS) return result;
  free_[heap_->address] = bytes;
  return CUDA_SUCCESS;
}

uint64_t Output::heap_allocate(uint64_t bytes) {
  if (bytes == 0 || bytes > UINT64_MAX - kHeapStep) return 0;
  bytes = (bytes + kHeapStep - 1) / kHeapStep * kHeapStep;
  std::lock_guard<std::mutex> held(heap_lock_);
  for (auto it = free_.begin(); it != free_.end(); ++it) {
    if (it->second < bytes) continue;
    const uint64_t address = it->first, rest = it->second - bytes;
    free_.erase(it);
    if (rest != 0) free_[address + bytes] = rest;
    taken_[address] = bytes;
    return address;
  }
  return 0;
}

bool Output::set_condition(uint64_t handle, uint32_t value) {
  return gpufence::sim::set_condition(handle, value);
}

bool Output::heap_free(uint64_t address) {
  std::lock_guard<std::mutex> held(heap_lock_);
  auto taken = taken_.find(address);
  if (taken == taken_.end()) return false;
  auto hole = free_.emplace(address, taken->second).first;
  taken_.erase(taken);
  if (auto next = std::next(hole); next != free_.end() && hole->first + hole->second == next->first) {
    hole->second += next->second;
    free_.erase(next);
  }
  if (hole != free_.begin())
    if (auto before = std::prev(hole); before->first + before->second == hole->first) {
      before->second += hole->second;
      free_.erase(hole);
    }
  return true;
}

void Output::close() {
  flush();
  std::lock_guard<std::mutex> held(heap_lock_);
  heap_ = nullptr;
  free_.clear();
  taken_.clear();
}

}  // namespace gpufence::sim
