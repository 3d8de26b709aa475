// See owners.h.
#include "observe/owners.h"

#include <new>

namespace gpufence::observe {

void Owners::remember(Kind kind, const void* handle, Owner owner) noexcept {
  const Key key{handle, kind};
  owner.epoch = epoch_.load(std::memory_order_relaxed);
  Shard& shard = shard_of(key);
  const std::lock_guard guard(shard.lock);
  try {
    if (shard.table == nullptr) shard.table = new Table;
    shard.table->insert_or_assign(key, owner);
  } catch (...) {
    if (shard.table != nullptr) shard.table->erase(key);
  }
}

std::optional<Owner> Owners::forget(Kind kind, const void* handle) noexcept {
  const Key key{handle, kind};
  Shard& shard = shard_of(key);
  const std::lock_guard guard(shard.lock);
  if (shard.table == nullptr) return std::nullopt;
  const auto found = shard.table->find(key);
  if (found == shard.table->end()) return std::nullopt;
  const Owner owner = found->second;
  shard.table->erase(found);
  return owner;
}

std::optional<Owner> Owners::find(Kind kind, const void* handle) const noexcept {
  const Key key{handle, kind};
  const Shard& shard = shard_of(key);
  const std::lock_guard guard(shard.lock);
  if (shard.table == nullptr) return std::nullopt;
  const auto found = shard.table->find(key);
  if (found == shard.table->end()) return std::nullopt;
  return found->second;
}

template <class Gone>
void Owners::forget_if(Gone gone) noexcept {
  for (Shard& shard : shards_) {
    const std::lock_guard guard(shard.lock);
    if (shard.table == nullptr) continue;
    std::erase_if(*shard.table, [&](const auto& entry) { return gone(entry.first, entry.second); });
  }
}

void Owners::forget_context(const void* context, std::uint64_t mark) noexcept {
  forget_if([&](const Key& key, const Owner& owner) {
    const bool itself = key.kind == Kind::context && key.handle == context;
    return (owner.context == context || itself) && owner.epoch <= mark;
  });
}

void Owners::forget_module(const void* module, std::uint64_t mark) noexcept {
  forget_if([&](const Key& key, const Owner& owner) {
    const bool itself = key.kind == Kind::module && key.handle == module;
    return (owner.parent == module || itself) && owner.epoch <= mark;
  });
}

const char* Owners::interned(std::string_view name) noexcept {
  try {
    const std::lock_guard guard(names_lock_);
    return names_.emplace(name).first->c_str();  // nodes of a set stay where they are
  } catch (...) {
    return nullptr;
  }
}

std::size_t Owners::size() const noexcept {
  std::size_t size = 0;
  for (const Shard& shard : shards_) {
    const std::lock_guard guard(shard.lock);
    if (shard.table != nullptr) size += shard.table->size();
  }
  return size;
}

void Owners::forget_after_fork() noexcept {
  for (Shard& shard : shards_) {
    new (&shard.lock) std::mutex;
    shard.table = nullptr;  // leaked: a thread of the parent may have been amid a change of it
  }
  new (&names_lock_) std::mutex;
  new (&names_) std::unordered_set<std::string>;
}

}  // namespace gpufence::observe
