// Whose a handle is: what the driver can't tell any more when a call has failed. For each context (green ones
// too), stream, event, module and function the GPU it belongs to, and the call that made it. Written where
// handles are made and destroyed, read when a call failed; a launch that succeeds never comes here. A handle
// that is destroyed is forgotten before the driver may hand its address out again, so a reused one never
// tells of its predecessor.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "observe/call.h"

namespace gpufence::observe {

enum class Kind : std::uint8_t { context, green, stream, event, module, function };

struct Owner {
  int device = -1;                // CUDA ordinal; -1: of no GPU in particular (a kernel of a library)
  const void* context = nullptr;  // with which it ends
  const void* parent = nullptr;   // a function's module, with which it ends
  Call made{};                    // by which call of the program
  const char* name = nullptr;     // a function's, mangled; lives as long as the process
  const char* layout = nullptr;   // a function's parameters, as hooks/arguments.cpp wrote them; as long
  std::uint64_t epoch = 0;        // set by remember: tells what a context had before it was destroyed
};

class Owners {
 public:
  // What still stood there had been destroyed unseen. Nothing is remembered where host memory is out.
  void remember(Kind kind, const void* handle, Owner owner) noexcept;
  // A destroying call forgets first, since another thread may get the same handle at once; if the driver
  // refuses, it remembers again.
  std::optional<Owner> forget(Kind kind, const void* handle) noexcept;
  [[nodiscard]] std::optional<Owner> find(Kind kind, const void* handle) const noexcept;

  // Everything remembered later has a larger epoch.
  [[nodiscard]] std::uint64_t mark() noexcept { return epoch_.fetch_add(1, std::memory_order_relaxed); }
  // What belonged to the context at that mark: after the driver destroyed it.
  void forget_context(const void* context, std::uint64_t mark) noexcept;
  void forget_module(const void* module, std::uint64_t mark) noexcept;

  // A copy of `name` that stays, one for each distinct name; null where host memory is out.
  [[nodiscard]] const char* interned(std::string_view name) noexcept;

  [[nodiscard]] std::size_t size() const noexcept;

  // In the child after fork: threads of the parent that may hold locks are gone.
  void forget_after_fork() noexcept;

 private:
  struct Key {
    const void* handle;
    Kind kind;
    bool operator==(const Key&) const = default;
  };
  struct Hash {
    std::size_t operator()(const Key& key) const noexcept {
      // Handles are heap addresses of the driver: the low bits carry nothing.
      return static_cast<std::size_t>(((reinterpret_cast<std::uintptr_t>(key.handle) >> 4) * 8 +
                                       static_cast<std::uintptr_t>(key.kind)) *
                                      0x9E3779B97F4A7C15ULL) >>
             20;
    }
  };
  using Table = std::unordered_map<Key, Owner, Hash>;
  struct alignas(64) Shard {
    mutable std::mutex lock;
    Table* table = nullptr;  // made at the first entry; a plain pointer, so that a child can drop it
    Shard() = default;
    ~Shard() { delete table; }
    Shard(const Shard&) = delete;
    Shard& operator=(const Shard&) = delete;
  };
  static constexpr std::size_t kShards = 16;

  [[nodiscard]] Shard& shard_of(const Key& key) noexcept { return shards_[Hash{}(key) % kShards]; }
  [[nodiscard]] const Shard& shard_of(const Key& key) const noexcept {
    return shards_[Hash{}(key) % kShards];
  }
  template <class Gone>
  void forget_if(Gone gone) noexcept;

  std::array<Shard, kShards> shards_;
  std::atomic<std::uint64_t> epoch_{1};
  std::mutex names_lock_;
  std::unordered_set<std::string> names_;
};

}  // namespace gpufence::observe
