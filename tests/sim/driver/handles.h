// Contexts, streams and events as programs hold them: a handle is the address of a slot. Any value can be
// asked after without being followed, without a lock, so that garbage and stale handles get CUDA's error and
// no crash.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <new>

#include "heap.h"

namespace gpufence::sim {

// T has a member `std::atomic<uint32_t> live`.
template <class T>
class Handles {
 public:
  static constexpr size_t kMost = size_t{1} << 20;

  // A fresh T, not live yet: the caller fills it and then publishes it. nullptr: a million of them live.
  T* take() {
    std::lock_guard<std::mutex> held(lock_);
    if (slots_ == nullptr) {
      void* memory = reserve_for_handles(kMost * sizeof(T));
      if (memory == nullptr) return nullptr;
      slots_.store(static_cast<T*>(memory), std::memory_order_release);
    }
    size_t slot = used_.load(std::memory_order_relaxed);
    // The longest dead is reused first, and only when many are: a stale handle stays invalid for long.
    if (dead_.size() > 4096 || slot == kMost) {
      if (dead_.empty()) return nullptr;
      slot = dead_.front();
      dead_.pop_front();
      slots_.load()[slot].~T();
    }
    // Told in steps, as a checker reads all that it is told of.
    constexpr size_t kStep = (65536 + sizeof(T) - 1) / sizeof(T);
    for (; told_ <= slot; told_ += kStep) tell_leak_checker(slots_.load() + told_, kStep * sizeof(T));
    T* fresh = new (slots_.load() + slot) T;
    if (slot == used_.load(std::memory_order_relaxed)) used_.store(slot + 1, std::memory_order_release);
    return fresh;
  }

  // True before the first take().
  bool none() const { return used_.load(std::memory_order_acquire) == 0; }

  void publish(T* object) { object->live.store(1, std::memory_order_release); }

  // The live object of that handle, or nullptr.
  T* check(const void* handle) const {
    const auto first = reinterpret_cast<uintptr_t>(slots_.load(std::memory_order_acquire));
    const uintptr_t offset = reinterpret_cast<uintptr_t>(handle) - first;
    if (first == 0 || offset % sizeof(T) != 0 || offset / sizeof(T) >= used_.load(std::memory_order_acquire))
      return nullptr;
    T* object = reinterpret_cast<T*>(first + offset);
    return object->live.load(std::memory_order_acquire) == 1 ? object : nullptr;
  }

  // False if another thread was quicker.
  bool retire(T* object) {
    uint32_t expected = 1;
    if (!object->live.compare_exchange_strong(expected, 0)) return false;
    std::lock_guard<std::mutex> held(lock_);
    dead_.push_back(static_cast<size_t>(object - slots_.load()));
    return true;
  }

  template <class Each>
  void each_live(Each&& each) {
    T* slots = slots_.load(std::memory_order_acquire);
    const size_t used = used_.load(std::memory_order_acquire);
    for (size_t i = 0; i < used; ++i)
      if (slots[i].live.load(std::memory_order_acquire) == 1) each(&slots[i]);
  }

 private:
  std::atomic<T*> slots_{nullptr};
  std::atomic<size_t> used_{0};
  std::mutex lock_;
  size_t told_ = 0;  // slots
  std::deque<size_t> dead_;
};

}  // namespace gpufence::sim
