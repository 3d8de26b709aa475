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

void* look_up(const RuntimeCall& call, const char* symbol) {
  const gpufence_gate& to = *gate();
  const char* node = node_text(call.record->node);
  Dl_info info;
  void* object = nullptr;
  const char* file = nullptr;
  if (to.dladdr1(call.caller, &info, &object, RTLD_DL_LINKMAP) != 0 && object != nullptr) {
    file = wanted_file(static_cast<const link_map*>(object), node);
  }
  // NODELETE: the address is kept. A caller without a need of its own got its pointer from dlsym; then the
  // loaded runtime of that version is meant.
  for (const char* name : {file, node}) {
    if (name == nullptr) continue;
    void* runtime = to.dlopen(name, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
    void* found = runtime != nullptr ? to.dlvsym(runtime, symbol, node) : nullptr;
    if (found != nullptr) return found;
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
