// Without cuda.h, like defaults.cpp: here every export is an address and nothing else.
#include "exports.h"

#include <cstring>

#define GPUFENCE_DRIVER_EXPORT(exported, name, version, per_thread) extern "C" int exported();
#include "driver_exports.inc"
#ifdef GPUFENCE_SIM_RELAYED
// A driver whose look-ups give other addresses than its exports have: each a jump to the export.
#ifdef __aarch64__
#define GPUFENCE_JUMP "b "
#else
#define GPUFENCE_JUMP "jmp "
#endif
#define GPUFENCE_DRIVER_EXPORT(exported, name, version, per_thread)                         \
  asm(".text\n.p2align 4\nrelayed_" #exported ":\n" GPUFENCE_JUMP #exported "\n.previous"); \
  extern "C" __attribute__((visibility("hidden"))) int relayed_##exported();
#include "driver_exports.inc"
#define GPUFENCE_GIVEN(exported) relayed_##exported
#else
#define GPUFENCE_GIVEN(exported) exported
#endif
#ifdef GPUFENCE_SIM_NEWER
extern "C" int cuMemAlloc_v3();
extern "C" int cuQuantumLeap();
#endif

namespace gpufence::sim {
namespace {

// Programs ask for hundreds of names at their start; most entries are told apart by this alone.
constexpr unsigned hash(const char* name) {
  unsigned h = 2166136261u;
  for (; *name != 0; ++name) h = (h ^ static_cast<unsigned char>(*name)) * 16777619u;
  return h;
}

struct Export {
  int (*address)();
  const char* name;
  int version;
  bool per_thread;
  unsigned hash;
};

constinit const Export kExports[] = {
#define GPUFENCE_DRIVER_EXPORT(exported, name, version, per_thread) \
  {&GPUFENCE_GIVEN(exported), #name, version, per_thread != 0, hash(#name)},
#include "driver_exports.inc"
#ifdef GPUFENCE_SIM_NEWER
    {&cuMemAlloc_v3, "cuMemAlloc", 14000, false, hash("cuMemAlloc")},
    {&cuQuantumLeap, "cuQuantumLeap", 14000, false, hash("cuQuantumLeap")},
#endif
};

}  // namespace

Lookup look_up_export(const char* name, int version, int driver_version, bool per_thread) {
  const Export *best = nullptr, *best_twin = nullptr;
  bool known = false;
  const unsigned wanted = hash(name);
  for (const Export& e : kExports) {
    if (e.hash != wanted || strcmp(e.name, name) != 0) continue;
    known = true;
    if (e.version > version || e.version > driver_version) continue;
    const Export*& slot = e.per_thread ? best_twin : best;
    if (slot == nullptr || e.version > slot->version) slot = &e;
  }
  // A twin as new as the plain one, else the plain one: flags 2 never gives an older ABI.
  if (per_thread && best_twin != nullptr) best = best_twin;
  return {best == nullptr ? nullptr : reinterpret_cast<void*>(best->address), known};
}

}  // namespace gpufence::sim
