// A default for every function of nvml.h, weak, as in the driver (defaults.cpp there): the library has all
// the names, and those without behaviour say that this GPU does not support it, as NVML does for many.
namespace gpufence::sim {
int nvml_unsupported();
}

#define GPUFENCE_NVML_EXPORT(exported)                                  \
  extern "C" [[gnu::weak, gnu::visibility("default")]] int exported() { \
    return gpufence::sim::nvml_unsupported();                           \
  }
#include "nvml_exports.inc"
