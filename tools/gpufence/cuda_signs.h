// What a program or library has in its constants that tells how it will come to CUDA: names that are handed
// to dlopen, and what a statically linked CUDA runtime brings along. Signs, not proof: a name may stand there
// unused, and one that is put together at run time is not seen.
#pragma once

namespace gpufence::command {

struct CudaSigns {
  bool opens_driver = false;    // "libcuda.so", "libcuda.so.1"
  bool opens_runtime = false;   // "libcudart.so…"
  bool opens_nvml = false;      // "libnvidia-ml.so…"
  bool static_runtime = false;  // a CUDA runtime is linked in
  bool our_runtime = false;     // and it is gpufence's stand-in, not NVIDIA's
};

[[nodiscard]] CudaSigns cuda_signs(int descriptor);

}  // namespace gpufence::command
