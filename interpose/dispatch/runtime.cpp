// Which runtime a call means. A process may hold two (a framework's and a plug-in's), and RTLD_NEXT finds
// nothing when the runtime came by RTLD_LOCAL. The caller's own version needs say it best: the ELF entry for
// "libcudart.so.13" names the file that the caller was linked to.
#include <dlfcn.h>
#include <link.h>

#include <array>
#include <cstring>

#include "dispatch/dispatch.h"

namespace gpufence::dispatch {
namespace {

const char* node_text(int node) {
  switch (node) {
    case GPUFENCE_NODE_RUNTIME_11:
      return "libcudart.so.11.0";
    case GPUFENCE_NODE_RUNTIME_12:
      return "libcudart.so.12";
    default:
      return "libcudart.so.13";
  }
}

// The file from which `object` wants symbols of version `node`; null if it wants none (a pointer from dlsym).
const char* wanted_file(const link_map* object, const char* node) {
  const char* strings = nullptr;
  const char* needs = nullptr;
  const auto at = [&](ElfW(Addr) value) {
    return reinterpret_cast<const char*>(value < object->l_addr ? value + object->l_addr : value);
  };
  for (const ElfW(Dyn)* entry = object->l_ld; entry->d_tag != DT_NULL; ++entry) {
    if (entry->d_tag == DT_STRTAB) strings = at(entry->d_un.d_ptr);
    if (entry->d_tag == DT_VERNEED) needs = at(entry->d_un.d_ptr);
  }
  if (strings == nullptr) return nullptr;
  while (needs != nullptr) {
    const auto* need = reinterpret_cast<const ElfW(Verneed)*>(needs);
    const char* version = needs + need->vn_aux;
    for (unsigned i = 0; i < need->vn_cnt; ++i) {
      const auto* aux = reinterpret_cast<const ElfW(Vernaux)*>(version);
      if (std::strcmp(strings + aux->vna_name, node) == 0) return strings + need->vn_file;
      version += aux->vna_next;
    }
    needs = need->vn_next != 0 ? needs + need->vn_next : nullptr;
  }
  return nullptr;
}

// By node: the one library that its calls have led to so far, and whether there was another.
struct Runtimes {
  std::atomic<const void*> first{nullptr};
  std::atomic<bool> several{false};
};
constinit std::array<Runtimes, GPUFENCE_NODE_RUNTIME_13 + 1> runtimes{};

void met(int node, const void* library) {
  Runtimes& of = runtimes[static_cast<std::size_t>(node)];
  const void* first = nullptr;
  if (of.first.compare_exchange_strong(first, library) || first == library) return;
  if (!of.several.exchange(true)) part_runtimes(node);
}

void* look_up(const RuntimeCall& call, const char* symbol) {
  const gpufence_gate& to = *gate();
  const char* node = node_text(call.record->node);
  Dl_info info;
  void* object = nullptr;
  const char* file = nullptr;
  if (to.dladdr1(call.caller, &info, &object, RTLD_DL_LINKMAP) != 0 && object != nullptr) {
    file = wanted_file(static_cast<const link_map*>(object), node);
  }
  // NODELETE: the address is kept. A caller without a need of its own got its pointer from dlsym, or made a
  // tail call through one that has it; then the loaded runtime of that version is meant.
  const auto in = [&](const char* name) -> void* {
    if (name == nullptr || *name == '\0') return nullptr;
    void* runtime = to.dlopen(name, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
    void* found = runtime != nullptr ? to.dlvsym(runtime, symbol, node) : nullptr;
    if (found != nullptr) met(call.record->node, runtime);
    return found;
  };
  if (void* found = in(file)) return found;
  if (void* found = in(node)) return found;
  // Wheels rename the file and the soname.
  for (const auto* one = static_cast<const link_map*>(to.first_object()); one != nullptr; one = one->l_next) {
    int of = 0;
    if (to.object_kind(one, &of) != GPUFENCE_OBJECT_RUNTIME || of != call.record->node) continue;
    if (void* found = in(one->l_name)) return found;
  }
  return nullptr;
}

// By call site, since a site belongs to one object. Entries are only ever added; when it is full, calls are
// right but pay the look-up.
struct Site {
  std::atomic<const void*> caller{nullptr};
  std::atomic<const Record*> record{nullptr};
  std::atomic<void*> function{nullptr};
};
constinit std::array<Site, 2048> sites{};

}  // namespace

bool several_runtimes(int node) {
  return runtimes[static_cast<std::size_t>(node)].several.load();
}

void* runtime_symbol(const RuntimeCall& call, const char* name) {
  return look_up(call, name);
}

void* runtime_function(const RuntimeCall& call) {
  const auto key = reinterpret_cast<std::uintptr_t>(call.caller) * 0x9E3779B97F4A7C15ULL ^
                   reinterpret_cast<std::uintptr_t>(call.record);
  for (std::size_t probe = 0; probe < 8; ++probe) {
    Site& site = sites[((key >> 32) + probe) % sites.size()];
    void* function = site.function.load(std::memory_order_acquire);
    const void* caller = site.caller.load(std::memory_order_relaxed);
    if (function != nullptr && caller == call.caller &&
        site.record.load(std::memory_order_relaxed) == call.record) {
      return function;
    }
    if (caller != nullptr) continue;
    void* found = look_up(call, call.record->name);
    if (found == nullptr) break;
    // Claimed by the caller field; the function is published last, so a reader never takes another site's.
    const void* free = nullptr;
    if (site.caller.compare_exchange_strong(free, call.caller, std::memory_order_acq_rel)) {
      site.record.store(call.record, std::memory_order_relaxed);
      site.function.store(found, std::memory_order_release);
    }
    return found;
  }
  void* found = look_up(call, call.record->name);
  return found != nullptr ? found : gate()->missing(call.record->node);
}

}  // namespace gpufence::dispatch
