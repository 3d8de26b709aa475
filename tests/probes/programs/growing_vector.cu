// Virtual memory management with the driver API: a vector that grows in place, a buffer striped over two
// GPUs, and memory that shows at two addresses.
#include "check_driver.h"

__global__ void append(uint32_t* out, size_t first, size_t count) {
  for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
    out[first + i] = static_cast<uint32_t>((first + i) * 2654435761u);
}

static CUmemAllocationProp on_device(int device) {
  CUmemAllocationProp prop = {};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
  return prop;
}

static size_t granularity(int device) {
  const CUmemAllocationProp prop = on_device(device);
  size_t least = 0, recommended = 0;
  CU(cuMemGetAllocationGranularity(&least, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  CU(cuMemGetAllocationGranularity(&recommended, &prop, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED));
  HOLDS(least != 0 && (least & (least - 1)) == 0 && recommended % least == 0, "%zu, %zu", least, recommended);
  return least;
}

// Its elements never move: a large range is reserved, and memory mapped behind what is there.
class Vector {
 public:
  explicit Vector(size_t most) : step_(granularity(0)) {
    reserved_ = (most + step_ - 1) / step_ * step_;
    CU(cuMemAddressReserve(&base_, reserved_, 0, 0, 0));
  }
  ~Vector() {
    if (mapped_ != 0) CU(cuMemUnmap(base_, mapped_));
    CU(cuMemAddressFree(base_, reserved_));
  }
  void grow_to(size_t bytes) {
    if (bytes <= mapped_) return;
    const size_t more = (bytes - mapped_ + step_ - 1) / step_ * step_;
    const CUmemAllocationProp prop = on_device(0);
    CUmemGenericAllocationHandle memory;
    CU(cuMemCreate(&memory, more, &prop, 0));
    CU(cuMemMap(base_ + mapped_, more, 0, memory, 0));
    CU(cuMemRelease(memory));  // stays until it is unmapped
    const CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CU(cuMemSetAccess(base_ + mapped_, more, &access, 1));
    mapped_ += more;
  }
  uint32_t* data() const { return reinterpret_cast<uint32_t*>(base_); }
  size_t capacity() const { return mapped_; }

 private:
  CUdeviceptr base_ = 0;
  size_t step_, reserved_ = 0, mapped_ = 0;
};

static void grows() {
  Vector vector(64 << 20);
  size_t filled = 0;
  uint32_t* const data = vector.data();
  for (const size_t count : {1000ul, 100000ul, 700000ul, 1500000ul}) {
    vector.grow_to((filled + count) * sizeof(uint32_t));
    append<<<32, 128>>>(data, filled, count);
    MUST_RUN();
    filled += count;
  }
  HOLDS(vector.capacity() >= filled * 4 && vector.data() == data, "it grew in place");
  std::vector<uint32_t> host(filled);
  MUST(cudaMemcpy(host.data(), data, filled * sizeof(uint32_t), cudaMemcpyDeviceToHost));
  size_t wrong = 0;
  for (size_t i = 0; i < filled; ++i) wrong += host[i] != static_cast<uint32_t>(i * 2654435761u);
  HOLDS(wrong == 0, "%zu of %zu", wrong, filled);
}

static void at_two_addresses() {
  const size_t bytes = granularity(0);
  const CUmemAllocationProp prop = on_device(0);
  CUmemGenericAllocationHandle memory, again;
  CU(cuMemCreate(&memory, bytes, &prop, 0));
  CUdeviceptr both;
  CU(cuMemAddressReserve(&both, 2 * bytes, bytes, 0, 0));
  HOLDS(both % bytes == 0, "aligned as asked");
  CU(cuMemMap(both, bytes, 0, memory, 0));
  CU(cuMemMap(both + bytes, bytes, 0, memory, 0));
  const CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  CU(cuMemSetAccess(both, 2 * bytes, &access, 1));
  unsigned long long flags = 0;
  const CUmemLocation here = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
  CU(cuMemGetAccess(&flags, &here, both + bytes));
  HOLDS(flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE, "access %llu", flags);
  append<<<1, 128>>>(reinterpret_cast<uint32_t*>(both), 0, 1024);
  uint32_t host[1024];
  MUST(cudaMemcpy(host, reinterpret_cast<void*>(both + bytes), sizeof host, cudaMemcpyDeviceToHost));
  HOLDS(host[1023] == 1023 * 2654435761u, "what is written at one address is read at the other");
  CU(cuMemRetainAllocationHandle(&again, reinterpret_cast<void*>(both + 17)));
  HOLDS(again == memory, "the handle of an address");
  CUmemAllocationProp told = {};
  CU(cuMemGetAllocationPropertiesFromHandle(&told, memory));
  HOLDS(told.location.id == 0 && told.type == CU_MEM_ALLOCATION_TYPE_PINNED, "its properties");
  CU(cuMemRelease(again));
  CU(cuMemUnmap(both, 2 * bytes));
  CU(cuMemRelease(memory));
  CU(cuMemAddressFree(both, 2 * bytes));
  // Sizes are multiples of the granularity.
  HOLDS(cuMemCreate(&memory, bytes + 1, &prop, 0) == CUDA_ERROR_INVALID_VALUE, "an odd size");
}

static void striped() {
  int count = 0;
  MUST(cudaGetDeviceCount(&count));
  if (count < 2) return;
  int can = 0;
  MUST(cudaDeviceCanAccessPeer(&can, 0, 1));
  if (can == 0) return;
  const size_t stripe = std::max(granularity(0), granularity(1));
  CUdeviceptr base;
  CU(cuMemAddressReserve(&base, 4 * stripe, 0, 0, 0));
  for (int i = 0; i < 4; ++i) {
    const CUmemAllocationProp prop = on_device(i % 2);
    CUmemGenericAllocationHandle memory;
    CU(cuMemCreate(&memory, stripe, &prop, 0));
    CU(cuMemMap(base + i * stripe, stripe, 0, memory, 0));
    CU(cuMemRelease(memory));
  }
  const CUmemAccessDesc both[] = {{{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE},
                                  {{CU_MEM_LOCATION_TYPE_DEVICE, 1}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE}};
  CU(cuMemSetAccess(base, 4 * stripe, both, 2));
  const size_t half = 2 * stripe / sizeof(uint32_t);
  for (int device = 0; device < 2; ++device) {
    MUST(cudaSetDevice(device));
    append<<<32, 128>>>(reinterpret_cast<uint32_t*>(base), device * half, half);
    MUST_RUN();
  }
  MUST(cudaSetDevice(0));
  std::vector<uint32_t> host(2 * half);
  for (int i = 0; i < 4; ++i)
    CU(cuMemcpyDtoH(host.data() + i * stripe / sizeof(uint32_t), base + i * stripe, stripe));
  size_t wrong = 0;
  for (size_t i = 0; i < host.size(); ++i) wrong += host[i] != static_cast<uint32_t>(i * 2654435761u);
  HOLDS(wrong == 0, "%zu of %zu", wrong, host.size());
  for (int i = 0; i < 4; ++i) CU(cuMemUnmap(base + i * stripe, stripe));
  CU(cuMemAddressFree(base, 4 * stripe));
}

int main() {
  MUST(cudaFree(nullptr));
  int supported = 0;
  CU(cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 0));
  if (supported != 0) {
    grows();
    at_two_addresses();
    striped();
  }
  return verdict();
}
