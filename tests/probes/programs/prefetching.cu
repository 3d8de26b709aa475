// Managed memory: a sparse matrix times a vector over all GPUs, with advice and prefetches as the Programming
// Guide shows them, and a table that host and GPU change in turn.
#include "check.h"

struct Matrix {  // in compressed rows
  int rows;
  int* first;
  int* columns;
  float* values;
};

__global__ void multiply(Matrix m, const float* x, float* y, int from, int to) {
  const int row = from + blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= to) return;
  float sum = 0;
  for (int k = m.first[row]; k < m.first[row + 1]; ++k) sum += m.values[k] * x[m.columns[k]];
  y[row] = sum;
}
__managed__ unsigned histogram[64];
__managed__ int total;
__global__ void tally(const float* y, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  atomicAdd(&histogram[static_cast<int>(fabsf(y[i])) % 64], 1u);
  atomicAdd(&total, 1);
}

template <class T>
static T* managed(size_t count) {
  T* memory;
  MUST(cudaMallocManaged(&memory, count * sizeof(T)));
  return memory;
}

int main() {
  int gpus = 0, concurrent = 0;
  MUST(cudaGetDeviceCount(&gpus));
  for (int i = 0; i < gpus; ++i) {
    MUST(cudaDeviceGetAttribute(&concurrent, cudaDevAttrConcurrentManagedAccess, i));
    if (concurrent == 0) return verdict();  // else the host may not touch it while kernels run
  }
  constexpr int kRows = 6000, kEach = 5;
  Matrix m = {kRows, managed<int>(kRows + 1), managed<int>(kRows * kEach), managed<float>(kRows * kEach)};
  float* x = managed<float>(kRows);
  float* y = managed<float>(kRows);
  for (int row = 0; row <= kRows; ++row) m.first[row] = row * kEach;
  for (int k = 0; k < kRows * kEach; ++k) {
    m.columns[k] = static_cast<int>(k * 7919ll % kRows);
    m.values[k] = static_cast<float>(k % 9 - 4);
  }
  for (int i = 0; i < kRows; ++i) x[i] = static_cast<float>(i % 13);

  const cudaMemLocation host = {cudaMemLocationTypeHost, 0};
  const size_t vector = kRows * sizeof(float);
  MUST(cudaMemAdvise(x, vector, cudaMemAdviseSetReadMostly, host));
  std::vector<cudaStream_t> streams(gpus);
  for (int gpu = 0; gpu < gpus; ++gpu) {
    MUST(cudaSetDevice(gpu));
    MUST(cudaStreamCreateWithFlags(&streams[gpu], cudaStreamNonBlocking));
    const cudaMemLocation here = {cudaMemLocationTypeDevice, gpu};
    MUST(cudaMemAdvise(m.values, kRows * kEach * sizeof(float), cudaMemAdviseSetAccessedBy, here));
    MUST(cudaMemPrefetchAsync(x, vector, here, 0, streams[gpu]));
    const int from = kRows * gpu / gpus, to = kRows * (gpu + 1) / gpus;
    multiply<<<(to - from + 127) / 128, 128, 0, streams[gpu]>>>(m, x, y, from, to);
    MUST(cudaGetLastError());
  }
  for (const cudaStream_t stream : streams) MUST(cudaStreamSynchronize(stream));
  for (int row = 0; row < kRows; ++row) {
    float wanted = 0;
    for (int k = row * kEach; k < (row + 1) * kEach; ++k) wanted += m.values[k] * x[m.columns[k]];
    HOLDS(y[row] == wanted, "row %d: %g, %g", row, y[row], wanted);
  }
  int told[2] = {-1, -1};
  MUST(cudaMemRangeGetAttribute(&told[0], sizeof(int), cudaMemRangeAttributeReadMostly, x, vector));
  MUST(cudaMemRangeGetAttribute(&told[1], sizeof(int), cudaMemRangeAttributeLastPrefetchLocation, x, vector));
  HOLDS(told[0] == 1 && told[1] == gpus - 1, "read mostly %d, prefetched to %d", told[0], told[1]);
  std::vector<int> users(gpus + 2, 99);
  MUST(cudaMemRangeGetAttribute(users.data(), users.size() * sizeof(int), cudaMemRangeAttributeAccessedBy,
                                m.values, kRows * kEach * sizeof(float)));
  std::sort(users.begin(), users.begin() + gpus);
  for (int gpu = 0; gpu < gpus; ++gpu) HOLDS(users[gpu] == gpu, "accessed by %d", users[gpu]);
  HOLDS(users[gpus] == cudaInvalidDeviceId && users[gpus + 1] == cudaInvalidDeviceId, "and no others");

  // Preferred on the host, and back there.
  MUST(cudaSetDevice(0));
  MUST(cudaMemAdvise(y, vector, cudaMemAdviseSetPreferredLocation, host));
  MUST(cudaMemPrefetchAsync(y, vector, host, 0, streams[0]));
  for (int i = 0; i < 64; ++i) histogram[i] = 100;  // the kernel adds to what the host wrote
  tally<<<(kRows + 127) / 128, 128, 0, streams[0]>>>(y, kRows);
  MUST(cudaStreamSynchronize(streams[0]));
  MUST(cudaMemRangeGetAttribute(&told[0], sizeof(int), cudaMemRangeAttributePreferredLocation, y, vector));
  HOLDS(told[0] == cudaCpuDeviceId, "preferred %d", told[0]);
  unsigned wanted[64];
  std::fill_n(wanted, 64, 100);
  for (int row = 0; row < kRows; ++row) ++wanted[static_cast<int>(std::abs(y[row])) % 64];
  for (int i = 0; i < 64; ++i) HOLDS(histogram[i] == wanted[i], "bin %d: %u, %u", i, histogram[i], wanted[i]);
  HOLDS(total == kRows, "%d", total);

  REFUSES(cudaMemAdvise(y, vector, cudaMemAdviseSetAccessedBy, {cudaMemLocationTypeDevice, gpus}),
          cudaErrorInvalidDevice);
  REFUSES(cudaMemAdvise(y, 0, cudaMemAdviseSetReadMostly, host), cudaErrorInvalidValue);
  for (void* memory : {static_cast<void*>(m.first), static_cast<void*>(m.columns),
                       static_cast<void*>(m.values), static_cast<void*>(x), static_cast<void*>(y)})
    MUST(cudaFree(memory));
  return verdict();
}
