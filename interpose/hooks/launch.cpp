// The launch chapter. A launch that succeeds costs a compare here: CUDA itself refuses a kernel in a stream
// of another GPU, with "invalid resource handle" and no word on which is whose, and only then is it asked.
#include "hooks/launch.h"

#include "hooks/arguments.h"
#include "hooks/choice.h"
#include "observe/stubs.h"

namespace gpufence::hooks {
namespace {

constexpr unsigned kNeeds = dispatch::kFindings | dispatch::kReport;

// A library's kernel runs on its stream's GPU, and CUDA lets no other be current then.
void count_launch(const Visible& seen) noexcept {
  note_work(current_device);
  if (seen.tally != nullptr) seen.tally->launch(seen.devices.size() == 1 ? 0 : current_device());
}

template <class Launch>
CUresult launched(CUfunction function, CUstream stream, void** params, void** extra, const char* api,
                  const void* caller, Launch launch) noexcept {
  if ((rules().needs & dispatch::kPointers) != 0) [[unlikely]]
    check_arguments(function, stream, params, extra, api, caller);
  const CUresult result = launch();
  if (result == CUDA_SUCCESS) [[likely]] {
    if (const Visible* seen = visible(); seen != nullptr) count_launch(*seen);
    return result;
  }
  explain_fault(result);
  note_use(api, caller);
  if (may_be_of_another_gpu(result)) explain_launch(function, stream, observe::current(api, caller));
  return result;
}

}  // namespace

CUresult launched_graph(CUresult result) noexcept {
  if (const Visible* seen = visible(); result == CUDA_SUCCESS && seen != nullptr) count_launch(*seen);
  return result;
}

void explain_launch(const void* function, CUstream stream, const observe::Call& call,
                    const char* kernel) noexcept {
  observe::Owners* known = owners();
  if (known == nullptr) return;
  const std::optional<observe::Owner> code = known->find(observe::Kind::function, function);
  const StreamPlace place = place_of_stream(stream);
  // A function of a module runs on its module's GPU, a library's kernel where the thread works.
  const bool bound = code && code->device >= 0;
  const int device = bound ? code->device : current_device();
  if (device < 0 || place.device < 0 || device == place.device) return;
  if (code && code->name != nullptr) kernel = code->name;
  Fault fault{"GF203", journal::Severity::warning,
              observe::above_launch_stubs(observe::outside_cuda(call), kernel), device, place.device};
  if (kernel != nullptr) fault.subject = kernel;
  explain(std::move(fault), [&](const Visible& seen) {
    const std::string what = kernel != nullptr ? "kernel " + observe::kernel_text(kernel) : "a kernel";
    if (place.is_default)
      return what + " of " + gpu_text(seen, device) + made_text("loaded", code->made) +
             ", launched in the default stream of " + gpu_text(seen, place.device);
    return what + " launched on " + gpu_text(seen, device) + " with a stream of " +
           gpu_text(seen, place.device) + made_text("created", place.made);
  });
}

HOOK(cuLaunchKernel, kNeeds,
     (CUfunction f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ,
      unsigned int blockDimX, unsigned int blockDimY, unsigned int blockDimZ, unsigned int sharedMemBytes,
      CUstream hStream, void** kernelParams, void** extra)) {
  return launched(f, hStream, kernelParams, extra, "cuLaunchKernel", __builtin_return_address(0), [&] {
    return real<&::cuLaunchKernel>(f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ,
                                   sharedMemBytes, hStream, kernelParams, extra);
  });
}
HOOK(cuLaunchKernel_ptsz, kNeeds,
     (CUfunction f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ,
      unsigned int blockDimX, unsigned int blockDimY, unsigned int blockDimZ, unsigned int sharedMemBytes,
      CUstream hStream, void** kernelParams, void** extra)) {
  return launched(f, hStream, kernelParams, extra, "cuLaunchKernel", __builtin_return_address(0), [&] {
    return real<&::cuLaunchKernel_ptsz>(f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ,
                                        sharedMemBytes, hStream, kernelParams, extra);
  });
}

HOOK(cuLaunchKernelEx, kNeeds,
     (const CUlaunchConfig* config, CUfunction f, void** kernelParams, void** extra)) {
  return launched(f, config != nullptr ? config->hStream : nullptr, kernelParams, extra, "cuLaunchKernelEx",
                  __builtin_return_address(0),
                  [&] { return real<&::cuLaunchKernelEx>(config, f, kernelParams, extra); });
}
HOOK(cuLaunchKernelEx_ptsz, kNeeds,
     (const CUlaunchConfig* config, CUfunction f, void** kernelParams, void** extra)) {
  return launched(f, config != nullptr ? config->hStream : nullptr, kernelParams, extra, "cuLaunchKernelEx",
                  __builtin_return_address(0),
                  [&] { return real<&::cuLaunchKernelEx_ptsz>(config, f, kernelParams, extra); });
}

HOOK(cuLaunchCooperativeKernel, kNeeds,
     (CUfunction f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ,
      unsigned int blockDimX, unsigned int blockDimY, unsigned int blockDimZ, unsigned int sharedMemBytes,
      CUstream hStream, void** kernelParams)) {
  return launched(
      f, hStream, kernelParams, nullptr, "cuLaunchCooperativeKernel", __builtin_return_address(0), [&] {
        return real<&::cuLaunchCooperativeKernel>(f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY,
                                                  blockDimZ, sharedMemBytes, hStream, kernelParams);
      });
}
HOOK(cuLaunchCooperativeKernel_ptsz, kNeeds,
     (CUfunction f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ,
      unsigned int blockDimX, unsigned int blockDimY, unsigned int blockDimZ, unsigned int sharedMemBytes,
      CUstream hStream, void** kernelParams)) {
  return launched(
      f, hStream, kernelParams, nullptr, "cuLaunchCooperativeKernel", __builtin_return_address(0), [&] {
        return real<&::cuLaunchCooperativeKernel_ptsz>(f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY,
                                                       blockDimZ, sharedMemBytes, hStream, kernelParams);
      });
}

}  // namespace gpufence::hooks
