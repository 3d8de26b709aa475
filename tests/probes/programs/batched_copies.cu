// Batches: many small copies given to a stream at once, between host and device, linear and of blocks; what a
// game of tiles or a cache of pages does.
#include "check.h"

__global__ void shade(uint32_t* tiles, const int* which, int texels) {
  uint32_t* const tile = tiles + which[blockIdx.x] * texels;
  for (int i = threadIdx.x; i < texels; i += blockDim.x) tile[i] = tile[i] * 3 + which[blockIdx.x];
}

// A cache of pages: those that a step needs come in one batch, what is changed goes back in another.
static void pages(int count) {
  constexpr int kTexels = 64;
  const size_t bytes = kTexels * sizeof(uint32_t);
  uint32_t *file, *cache;
  int* slots;
  MUST(cudaMallocHost(&file, count * bytes));
  MUST(cudaMallocHost(&slots, count * sizeof(int)));
  MUST(cudaMalloc(&cache, count * bytes));
  for (int i = 0; i < count * kTexels; ++i) file[i] = i;
  std::vector<const void*> from;
  std::vector<void*> to;
  std::vector<size_t> sizes(count, bytes);
  for (int page = 0; page < count; ++page) {
    const int slot = (page * 7 + 3) % count;  // count and 7 have no divisor in common
    slots[page] = slot;
    from.push_back(file + page * kTexels);
    to.push_back(cache + slot * kTexels);
  }
  cudaMemcpyAttributes attributes = {};
  attributes.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
  size_t first = 0;
  cudaStream_t stream;
  MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  MUST(cudaMemcpyBatchAsync(to.data(), from.data(), sizes.data(), count, &attributes, &first, 1, stream));
  shade<<<count, 32, 0, stream>>>(cache, slots, kTexels);
  std::vector<const void*> back(to.begin(), to.end());
  std::vector<void*> home;
  for (const void* page : from) home.push_back(const_cast<void*>(page));
  MUST(cudaMemcpyBatchAsync(home.data(), back.data(), sizes.data(), count, attributes, stream));
  MUST(cudaStreamSynchronize(stream));
  size_t wrong = 0;
  for (int i = 0; i < count * kTexels; ++i)
    wrong += file[i] != static_cast<uint32_t>(i) * 3 + slots[i / kTexels];
  HOLDS(wrong == 0, "%zu of %d", wrong, count * kTexels);
  // "It's an error to specify a legacy stream"; attributes start with the first copy.
  REFUSES(cudaMemcpyBatchAsync(to.data(), from.data(), sizes.data(), count, attributes, nullptr),
          cudaErrorInvalidValue);
  first = 1;
  REFUSES(cudaMemcpyBatchAsync(to.data(), from.data(), sizes.data(), count, &attributes, &first, 1, stream),
          cudaErrorInvalidValue);
  MUST(cudaStreamDestroy(stream));
  MUST(cudaFree(cache));
  MUST(cudaFreeHost(file));
  MUST(cudaFreeHost(slots));
}

// Blocks of a volume in one batch: pointers and arrays.
static void blocks() {
  constexpr size_t kWidth = 16, kHeight = 8, kDepth = 4;
  std::vector<int> volume(kWidth * kHeight * kDepth), out(volume.size(), -1);
  for (size_t i = 0; i < volume.size(); ++i) volume[i] = static_cast<int>(i);
  const cudaChannelFormatDesc format = cudaCreateChannelDesc<int>();
  cudaArray_t array;
  MUST(cudaMalloc3DArray(&array, &format, make_cudaExtent(kWidth, kHeight, kDepth)));
  cudaMemcpy3DParms up = {};
  up.srcPtr = make_cudaPitchedPtr(volume.data(), kWidth * sizeof(int), kWidth, kHeight);
  up.dstArray = array;
  up.extent = make_cudaExtent(kWidth, kHeight, kDepth);
  up.kind = cudaMemcpyHostToDevice;
  MUST(cudaMemcpy3D(&up));
  int* device;
  MUST(cudaMalloc(&device, volume.size() * sizeof(int)));
  MUST(cudaMemset(device, 0xff, volume.size() * sizeof(int)));
  MUST(cudaDeviceSynchronize());
  std::vector<cudaMemcpy3DBatchOp> ops;
  for (size_t z = 0; z < kDepth; ++z) {  // slices in the other order
    cudaMemcpy3DBatchOp op = {};
    op.src.type = cudaMemcpyOperandTypeArray;
    op.src.op.array.array = array;
    op.src.op.array.offset = {0, 0, z};
    op.dst.type = cudaMemcpyOperandTypePointer;
    op.dst.op.ptr.ptr = device + (kDepth - 1 - z) * kWidth * kHeight;
    op.dst.op.ptr.rowLength = kWidth;
    op.dst.op.ptr.layerHeight = kHeight;
    op.dst.op.ptr.locHint = {cudaMemLocationTypeDevice, 0};
    op.extent = make_cudaExtent(kWidth, kHeight, 1);
    op.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
    ops.push_back(op);
  }
  cudaStream_t stream;
  MUST(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  MUST(cudaMemcpy3DBatchAsync(ops.size(), ops.data(), 0, stream));
  MUST(cudaMemcpyAsync(out.data(), device, out.size() * sizeof(int), cudaMemcpyDeviceToHost, stream));
  MUST(cudaStreamSynchronize(stream));
  for (size_t i = 0; i < out.size(); ++i) {
    const size_t z = i / (kWidth * kHeight);
    HOLDS(out[i] == volume[(kDepth - 1 - z) * kWidth * kHeight + i % (kWidth * kHeight)], "%zu: %d", i,
          out[i]);
  }
  REFUSES(cudaMemcpy3DBatchAsync(ops.size(), ops.data(), 1, stream), cudaErrorInvalidValue);
  MUST(cudaStreamDestroy(stream));
  MUST(cudaFree(device));
  MUST(cudaFreeArray(array));
}

int main() {
  for (const int count : {1, 10, 300}) pages(count);
  blocks();
  return verdict();
}
