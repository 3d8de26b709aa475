// A long file is checksummed in pieces through two page-locked buffers, with copies beside kernels; then the
// same from memory that was registered, and from mapped memory that kernels read in place.
#include "check.h"

// A rolling sum of 64 bits for every block of 256 bytes.
__global__ void sums(const uint8_t* data, uint64_t* out, int blocks) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= blocks) return;
  uint64_t hash = 14695981039346656037ull;
  for (int k = 0; k < 256; ++k) hash = (hash ^ data[i * 256 + k]) * 1099511628211ull;
  out[i] = hash;
}
static std::vector<uint64_t> on_host(const uint8_t* data, size_t blocks) {
  std::vector<uint64_t> out(blocks, 14695981039346656037ull);
  for (size_t i = 0; i < blocks; ++i)
    for (int k = 0; k < 256; ++k) out[i] = (out[i] ^ data[i * 256 + k]) * 1099511628211ull;
  return out;
}

static void staged(const std::vector<uint8_t>& file) {
  constexpr size_t kPiece = 32 << 10, kBlocks = kPiece / 256;
  uint8_t *in[2], *device[2];
  uint64_t *out[2], *found[2];
  cudaStream_t streams[2];
  cudaEvent_t copied[2];
  for (int i = 0; i < 2; ++i) {
    MUST(cudaHostAlloc(&in[i], kPiece, cudaHostAllocWriteCombined));
    MUST(cudaMallocHost(&out[i], kBlocks * sizeof(uint64_t)));
    MUST(cudaMalloc(&device[i], kPiece));
    MUST(cudaMalloc(&found[i], kBlocks * sizeof(uint64_t)));
    MUST(cudaStreamCreateWithFlags(&streams[i], cudaStreamNonBlocking));
    MUST(cudaEventCreateWithFlags(&copied[i], cudaEventDisableTiming | cudaEventBlockingSync));
  }
  std::vector<uint64_t> all(file.size() / 256);
  const size_t pieces = file.size() / kPiece;
  auto collect = [&](size_t piece) {
    const int slot = piece % 2;
    MUST(cudaStreamSynchronize(streams[slot]));
    std::copy_n(out[slot], kBlocks, all.begin() + piece * kBlocks);
  };
  for (size_t piece = 0; piece < pieces; ++piece) {
    const int slot = piece % 2;
    if (piece >= 2) {
      MUST(cudaEventSynchronize(copied[slot]));  // the buffer may be filled again
      collect(piece - 2);
    }
    memcpy(in[slot], file.data() + piece * kPiece, kPiece);
    MUST(cudaMemcpyAsync(device[slot], in[slot], kPiece, cudaMemcpyHostToDevice, streams[slot]));
    MUST(cudaEventRecord(copied[slot], streams[slot]));
    sums<<<1, kBlocks, 0, streams[slot]>>>(device[slot], found[slot], kBlocks);
    MUST(cudaMemcpyAsync(out[slot], found[slot], kBlocks * sizeof(uint64_t), cudaMemcpyDeviceToHost,
                         streams[slot]));
  }
  for (size_t piece = pieces - 2; piece < pieces; ++piece) collect(piece);
  HOLDS(all == on_host(file.data(), all.size()), "staged");
  for (int i = 0; i < 2; ++i) {
    MUST(cudaFreeHost(in[i]));
    MUST(cudaFreeHost(out[i]));
    MUST(cudaFree(device[i]));
    MUST(cudaFree(found[i]));
    MUST(cudaStreamDestroy(streams[i]));
    MUST(cudaEventDestroy(copied[i]));
  }
}

static void registered(std::vector<uint8_t>& file) {
  MUST(cudaHostRegister(file.data(), file.size(), cudaHostRegisterMapped | cudaHostRegisterPortable));
  cudaPointerAttributes told;
  MUST(cudaPointerGetAttributes(&told, file.data() + 4097));
  HOLDS(told.type == cudaMemoryTypeHost && told.hostPointer == file.data() + 4097, "registered: %d",
        told.type);
  uint8_t* in_place;
  uint64_t *sums_mapped, *sums_device;
  const int blocks = static_cast<int>(file.size() / 256);
  MUST(cudaHostGetDevicePointer(&in_place, file.data(), 0));
  MUST(cudaHostAlloc(&sums_mapped, blocks * sizeof(uint64_t), cudaHostAllocMapped));
  MUST(cudaHostGetDevicePointer(&sums_device, sums_mapped, 0));
  sums<<<(blocks + 127) / 128, 128>>>(in_place, sums_device, blocks);
  MUST_RUN();
  const std::vector<uint64_t> wanted = on_host(file.data(), blocks);
  HOLDS(std::equal(wanted.begin(), wanted.end(), sums_mapped), "in place");
  // Every GPU may read what is portable.
  int gpus = 0;
  MUST(cudaGetDeviceCount(&gpus));
  for (int gpu = 1; gpu < gpus; ++gpu) {
    uint64_t first = 0, *device;
    MUST(cudaSetDevice(gpu));
    MUST(cudaMalloc(&device, sizeof first));
    MUST(cudaHostGetDevicePointer(&in_place, file.data(), 0));
    sums<<<1, 1>>>(in_place, device, 1);
    MUST(cudaGetLastError());
    MUST(cudaMemcpy(&first, device, sizeof first, cudaMemcpyDeviceToHost));
    HOLDS(first == wanted[0], "on GPU %d", gpu);
    MUST(cudaFree(device));
  }
  MUST(cudaSetDevice(0));
  MUST(cudaHostUnregister(file.data()));
  MUST(cudaFreeHost(sums_mapped));
  MUST(cudaPointerGetAttributes(&told, file.data()));
  HOLDS(told.type == cudaMemoryTypeUnregistered, "no longer registered: %d", told.type);
  REFUSES(cudaHostUnregister(file.data()), cudaErrorHostMemoryNotRegistered);
  REFUSES(cudaHostGetDevicePointer(&in_place, file.data(), 1), cudaErrorInvalidValue);
  unsigned flags = 0;
  REFUSES(cudaHostGetFlags(&flags, file.data()), cudaErrorInvalidValue);
}

int main() {
  std::vector<uint8_t> file(8 * (32 << 10));
  uint32_t state = 1;
  for (uint8_t& byte : file) byte = (state = state * 1103515245u + 12345u) >> 16;
  staged(file);
  registered(file);
  return verdict();
}
