// A default for every export of the ABI table, so that the library has exactly those names: weak, so that the
// behaviour another file gives one of them takes its place at link time. Without cuda.h, whose signatures
// these do not have: a default looks at no argument.
#include <atomic>

namespace gpufence::sim {
int unsupported(const char* name, std::atomic<bool>& said);
}  // namespace gpufence::sim

#define GPUFENCE_DRIVER_EXPORT(exported, name, version, per_thread)     \
  extern "C" [[gnu::weak, gnu::visibility("default")]] int exported() { \
    static constinit std::atomic<bool> said{false};                     \
    return gpufence::sim::unsupported(#exported, said);                 \
  }
#include "driver_exports.inc"
