// Whatever nvcc makes a fatbin of; long enough that packing shows.
__device__ float table[64] = {1, 2, 3};
extern "C" __global__ void first(float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = table[i % 64] * 2 + i;
}
extern "C" __global__ void second(double* out, const double* in, int n) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) out[i] = in[i] / (i + 1);
}
