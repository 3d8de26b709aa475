// A library that uses CUDA in its constructor, as some plug-ins do: then the first call is made under the
// loader's lock.
#include <cuda.h>

static CUresult begin() {
  CUresult result = cuInit(0);
  CUdevice device = 0;
  CUcontext context = nullptr;
  CUdeviceptr memory = 0;
  if (result == CUDA_SUCCESS) result = cuDeviceGet(&device, 0);
  if (result == CUDA_SUCCESS) result = cuDevicePrimaryCtxRetain(&context, device);
  if (result == CUDA_SUCCESS) result = cuCtxSetCurrent(context);
  if (result == CUDA_SUCCESS) result = cuMemAlloc(&memory, 64 << 20);
  return result;
}

static const CUresult constructed = begin();

extern "C" int result_of_constructor() {
  return constructed;
}
