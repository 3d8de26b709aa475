#include "isa.h"

namespace gpufence::sim::ptx {

namespace base {
extern const Isa table;
}
#ifdef GPUFENCE_PTX_AVX2
namespace avx2 {
extern const Isa table;
}
#endif

const Isa& isa_base() {
  return base::table;
}

const Isa& isa() {
#ifdef GPUFENCE_PTX_AVX2
  static const bool has_avx2 = __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0 &&
                               __builtin_cpu_supports("bmi2") != 0;
  if (has_avx2) return avx2::table;
#endif
  return base::table;
}

}  // namespace gpufence::sim::ptx
