#include "isa.h"

#include <atomic>

namespace gpufence::sim::ptx {

namespace base {
extern const Isa table;
}
#ifdef GPUFENCE_PTX_AVX2
namespace avx2 {
extern const Isa table;
}
#endif

namespace {

std::atomic<bool> only_base{false};

}  // namespace

void use_only_base(bool yes) {
  only_base.store(yes, std::memory_order_relaxed);
}

const Isa& isa() {
#ifdef GPUFENCE_PTX_AVX2
  static const bool has_avx2 = __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0 &&
                               __builtin_cpu_supports("bmi2") != 0;
  if (has_avx2 && !only_base.load(std::memory_order_relaxed)) return avx2::table;
#endif
  return base::table;
}

}  // namespace gpufence::sim::ptx
