// The default of every runtime export: say once that the simulator has no such call, answer
// cudaErrorNotSupported. Weak, so that a call that behaves replaces its default by being defined; the archive
// is one object, or an archive's index would choose for itself. No CUDA header here: the true signatures do
// not matter to a function that takes nothing and hands back a code.
#include <atomic>

#if defined(GPUFENCE_SIM_RUNTIME_STATIC)
#define GPUFENCE_SIM_RUNTIME_VISIBLE __attribute__((weak, visibility("hidden")))
#else
#define GPUFENCE_SIM_RUNTIME_VISIBLE __attribute__((weak, visibility("default")))
#endif

namespace gpufence::sim::runtime {

int answer_unsupported(const char* call, std::atomic<bool>& said);

}  // namespace gpufence::sim::runtime

#define GPUFENCE_RUNTIME_EXPORT(name)                               \
  extern "C" GPUFENCE_SIM_RUNTIME_VISIBLE int name() {              \
    static constinit std::atomic<bool> said{false};                 \
    return gpufence::sim::runtime::answer_unsupported(#name, said); \
  }
#include "interpose/abi/runtime_exports.inc"
