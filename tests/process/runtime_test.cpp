// The stand-in runtime's API from inside one process, on two simulated GPUs: what each chapter answers.
// Linked with the library itself, so it runs under ThreadSanitizer as well. Every test also runs alone, in a
// fresh process.
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <thread>
#include <vector>

// nvcc's host code calls these; no public header declares them.
extern "C" {
unsigned int __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, cudaStream_t stream);
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared, void* stream);
void** __cudaRegisterFatBinary(void* fatbin);
void __cudaUnregisterFatBinary(void** handle);
cudaError_t cudaMemcpy_ptds(void* to, const void* from, size_t bytes, cudaMemcpyKind kind);
cudaError_t cudaMemsetAsync_ptsz(void* to, int value, size_t bytes, cudaStream_t stream);
cudaError_t cudaStreamSynchronize_ptsz(cudaStream_t stream);
}

namespace {

constexpr size_t kMiB = size_t{1} << 20;

std::vector<unsigned char> counted(size_t size) {
  std::vector<unsigned char> bytes(size);
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<unsigned char>(i * 131 + 7);
  return bytes;
}

TEST(RuntimeErrors, HaveTheNamesAndSentencesPeopleKnow) {
  EXPECT_STREQ(cudaGetErrorName(cudaSuccess), "cudaSuccess");
  EXPECT_STREQ(cudaGetErrorString(cudaSuccess), "no error");
  EXPECT_STREQ(cudaGetErrorName(cudaErrorMemoryAllocation), "cudaErrorMemoryAllocation");
  EXPECT_STREQ(cudaGetErrorString(cudaErrorMemoryAllocation), "out of memory");
  EXPECT_STREQ(cudaGetErrorString(cudaErrorInvalidDevice), "invalid device ordinal");
  EXPECT_STREQ(cudaGetErrorName(static_cast<cudaError_t>(103)), "cudaErrorSoftwareValidityNotEstablished");
  EXPECT_STREQ(cudaGetErrorName(static_cast<cudaError_t>(801)), "cudaErrorNotSupported");
  EXPECT_STREQ(cudaGetErrorName(static_cast<cudaError_t>(12345)), "unrecognized error code");
  EXPECT_STREQ(cudaGetErrorString(static_cast<cudaError_t>(12345)), "unrecognized error code");
}

TEST(RuntimeErrors, AreKeptForEachThreadUntilAskedFor) {
  EXPECT_EQ(cudaSetDevice(5), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaSetDevice(0), cudaSuccess);
  EXPECT_EQ(cudaPeekAtLastError(), cudaErrorInvalidDevice);
  std::thread([] { EXPECT_EQ(cudaGetLastError(), cudaSuccess); }).join();
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

TEST(RuntimeVersion, IsThatOfTheToolkitAndOfTheDriver) {
  int runtime = 0, driver = 0;
  EXPECT_EQ(cudaRuntimeGetVersion(&runtime), cudaSuccess);
  EXPECT_EQ(cudaDriverGetVersion(&driver), cudaSuccess);
  EXPECT_EQ(runtime, 13000);
  EXPECT_EQ(driver, 13000);
}

TEST(RuntimeStart, HappensOnceUnderManyThreads) {
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&wrong, i] {
      int count = 0, device = -1;
      void* memory = nullptr;
      if (cudaGetDeviceCount(&count) != cudaSuccess || count != 2) ++wrong;
      if (cudaSetDevice(i % 2) != cudaSuccess || cudaMalloc(&memory, kMiB) != cudaSuccess) ++wrong;
      if (cudaGetDevice(&device) != cudaSuccess || device != i % 2) ++wrong;
      if (cudaFree(memory) != cudaSuccess) ++wrong;
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

TEST(RuntimeDevice, IsTheFirstForEveryNewThread) {
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  int other = -1;
  std::thread([&] {
    EXPECT_EQ(cudaFree(nullptr), cudaSuccess);
    EXPECT_EQ(cudaGetDevice(&other), cudaSuccess);
  }).join();
  EXPECT_EQ(other, 0);
  int mine = -1;
  EXPECT_EQ(cudaGetDevice(&mine), cudaSuccess);
  EXPECT_EQ(mine, 1);
}

TEST(RuntimeDevice, IsFoundByPciIdAndProperties) {
  char id[32] = "";
  ASSERT_EQ(cudaDeviceGetPCIBusId(id, sizeof id, 1), cudaSuccess);
  int device = -1;
  EXPECT_EQ(cudaDeviceGetByPCIBusId(&device, id), cudaSuccess);
  EXPECT_EQ(device, 1);
  EXPECT_EQ(cudaDeviceGetByPCIBusId(&device, "0000:99:00.0"), cudaErrorInvalidDevice);

  cudaDeviceProp has{};
  ASSERT_EQ(cudaGetDeviceProperties(&has, 0), cudaSuccess);
  EXPECT_EQ(has.totalGlobalMem, 1024 * kMiB);
  EXPECT_EQ(has.warpSize, 32);
  int major = 0;
  EXPECT_EQ(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0), cudaSuccess);
  EXPECT_EQ(major, has.major);
  EXPECT_GT(major, 0);
  EXPECT_EQ(cudaGetDeviceProperties(&has, 2), cudaErrorInvalidDevice);

  cudaDeviceProp wanted{};
  std::strcpy(wanted.name, has.name);
  EXPECT_EQ(cudaChooseDevice(&device, &wanted), cudaSuccess);
  EXPECT_EQ(device, 0);
}

TEST(RuntimeDevice, WorksAgainAfterItsReset) {
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  size_t before = 0, after = 0, total = 0;
  ASSERT_EQ(cudaMemGetInfo(&before, &total), cudaSuccess);
  void* memory = nullptr;
  ASSERT_EQ(cudaMalloc(&memory, 64 * kMiB), cudaSuccess);
  ASSERT_EQ(cudaDeviceReset(), cudaSuccess);
  EXPECT_EQ(cudaMemGetInfo(&after, &total), cudaSuccess);
  EXPECT_EQ(after, before);
  EXPECT_EQ(cudaFree(memory), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMalloc(&memory, kMiB), cudaSuccess);
  EXPECT_EQ(cudaFree(memory), cudaSuccess);
}

TEST(RuntimeDevice, IsTheDriversCurrentContextWhereThereIsOne) {
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  CUcontext own = nullptr;
  ASSERT_EQ(cuCtxCreate(&own, nullptr, 0, 1), CUDA_SUCCESS);
  int device = -1;
  EXPECT_EQ(cudaGetDevice(&device), cudaSuccess);
  EXPECT_EQ(device, 1);
  void* memory = nullptr;
  EXPECT_EQ(cudaMalloc(&memory, kMiB), cudaSuccess);
  cudaPointerAttributes attributes{};
  EXPECT_EQ(cudaPointerGetAttributes(&attributes, memory), cudaSuccess);
  EXPECT_EQ(attributes.device, 1);
  EXPECT_EQ(cuCtxDestroy(own), CUDA_SUCCESS);
}

// What a library with a static runtime of its own finds when it was closed and is opened again.
TEST(RuntimeDevice, WorksWhereAnotherRuntimeLeftItsReleasedContextCurrent) {
  EXPECT_EQ(cuInit(0), CUDA_SUCCESS);
  CUcontext released = nullptr, current = nullptr;
  EXPECT_EQ(cuDevicePrimaryCtxRetain(&released, 0), CUDA_SUCCESS);
  EXPECT_EQ(cuCtxSetCurrent(released), CUDA_SUCCESS);
  EXPECT_EQ(cuDevicePrimaryCtxRelease(0), CUDA_SUCCESS);
  void* memory = nullptr;
  EXPECT_EQ(cudaMalloc(&memory, kMiB), cudaSuccess);
  EXPECT_EQ(cudaMemset(memory, 0, kMiB), cudaSuccess);
  EXPECT_EQ(cuCtxGetCurrent(&current), CUDA_SUCCESS);
  EXPECT_EQ(current, released);  // a primary context keeps its handle
}

TEST(RuntimeMemory, OfNoBytesIsANullPointer) {
  void* memory = &memory;
  EXPECT_EQ(cudaMalloc(&memory, 0), cudaSuccess);
  EXPECT_EQ(memory, nullptr);
  EXPECT_EQ(cudaFree(nullptr), cudaSuccess);
  EXPECT_EQ(cudaMalloc(nullptr, kMiB), cudaErrorInvalidValue);
  EXPECT_EQ(cudaMalloc(&memory, size_t{1} << 60), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
}

TEST(RuntimeMemory, TellsWhatAPointerIs) {
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  void *device = nullptr, *host = nullptr, *managed = nullptr;
  ASSERT_EQ(cudaMalloc(&device, kMiB), cudaSuccess);
  ASSERT_EQ(cudaMallocHost(&host, kMiB), cudaSuccess);
  ASSERT_EQ(cudaMallocManaged(&managed, kMiB, cudaMemAttachGlobal), cudaSuccess);
  int plain = 0;
  cudaPointerAttributes a{};
  EXPECT_EQ(cudaPointerGetAttributes(&a, static_cast<char*>(device) + 100), cudaSuccess);
  EXPECT_EQ(a.type, cudaMemoryTypeDevice);
  EXPECT_EQ(a.device, 1);
  EXPECT_EQ(a.devicePointer, static_cast<char*>(device) + 100);
  EXPECT_EQ(cudaPointerGetAttributes(&a, host), cudaSuccess);
  EXPECT_EQ(a.type, cudaMemoryTypeHost);
  EXPECT_EQ(a.hostPointer, host);
  EXPECT_EQ(cudaPointerGetAttributes(&a, managed), cudaSuccess);
  EXPECT_EQ(a.type, cudaMemoryTypeManaged);
  EXPECT_EQ(cudaPointerGetAttributes(&a, &plain), cudaSuccess);
  EXPECT_EQ(a.type, cudaMemoryTypeUnregistered);
  EXPECT_EQ(a.device, -2);
  EXPECT_EQ(a.devicePointer, nullptr);
  EXPECT_EQ(cudaFree(device), cudaSuccess);
  EXPECT_EQ(cudaFreeHost(host), cudaSuccess);
  EXPECT_EQ(cudaFree(managed), cudaSuccess);
}

TEST(RuntimeMemory, OfTheHostIsRegisteredOnce) {
  std::vector<unsigned char> bytes(4 * kMiB);
  EXPECT_EQ(cudaHostRegister(bytes.data(), bytes.size(), cudaHostRegisterMapped), cudaSuccess);
  EXPECT_EQ(cudaHostRegister(bytes.data(), bytes.size(), cudaHostRegisterMapped),
            cudaErrorHostMemoryAlreadyRegistered);
  void* seen = nullptr;
  EXPECT_EQ(cudaHostGetDevicePointer(&seen, bytes.data(), 0), cudaSuccess);
  EXPECT_NE(seen, nullptr);
  EXPECT_EQ(cudaHostUnregister(bytes.data()), cudaSuccess);
  EXPECT_EQ(cudaHostUnregister(bytes.data()), cudaErrorHostMemoryNotRegistered);

  void* pinned = nullptr;
  unsigned int flags = 0;
  ASSERT_EQ(cudaHostAlloc(&pinned, kMiB, cudaHostAllocPortable | cudaHostAllocMapped), cudaSuccess);
  EXPECT_EQ(cudaHostGetFlags(&flags, pinned), cudaSuccess);
  EXPECT_EQ(flags & cudaHostAllocPortable, cudaHostAllocPortable + 0u);
  EXPECT_EQ(cudaFreeHost(pinned), cudaSuccess);
}

TEST(RuntimeCopy, GoesEveryWay) {
  const auto sent = counted(kMiB);
  for (const bool async : {false, true}) {
    std::vector<unsigned char> back(kMiB);
    void *a = nullptr, *b = nullptr;
    ASSERT_EQ(cudaMalloc(&a, kMiB), cudaSuccess);
    ASSERT_EQ(cudaMalloc(&b, kMiB), cudaSuccess);
    const auto copy = [&](void* to, const void* from, cudaMemcpyKind kind) {
      if (!async) return cudaMemcpy(to, from, kMiB, kind);
      const cudaError_t queued = cudaMemcpyAsync(to, from, kMiB, kind, nullptr);
      return queued != cudaSuccess ? queued : cudaStreamSynchronize(nullptr);
    };
    EXPECT_EQ(copy(a, sent.data(), cudaMemcpyHostToDevice), cudaSuccess);
    EXPECT_EQ(copy(b, a, cudaMemcpyDeviceToDevice), cudaSuccess);
    EXPECT_EQ(copy(back.data(), b, cudaMemcpyDeviceToHost), cudaSuccess);
    EXPECT_EQ(back, sent);
    back.assign(kMiB, 0);
    EXPECT_EQ(cudaMemset(a, 0, kMiB), cudaSuccess);
    EXPECT_EQ(copy(a, sent.data(), cudaMemcpyDefault), cudaSuccess);
    EXPECT_EQ(copy(back.data(), a, cudaMemcpyDefault), cudaSuccess);
    EXPECT_EQ(back, sent);
    back.assign(kMiB, 0);
    EXPECT_EQ(copy(back.data(), sent.data(), cudaMemcpyHostToHost), cudaSuccess);
    EXPECT_EQ(back, sent);
    EXPECT_EQ(copy(b, a, static_cast<cudaMemcpyKind>(9)), cudaErrorInvalidMemcpyDirection);
    EXPECT_EQ(cudaFree(a), cudaSuccess);
    EXPECT_EQ(cudaFree(b), cudaSuccess);
  }
}

TEST(RuntimeCopy, GoesBetweenGpus) {
  const auto sent = counted(kMiB);
  std::vector<unsigned char> back(kMiB);
  void *first = nullptr, *second = nullptr;
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  ASSERT_EQ(cudaMalloc(&first, kMiB), cudaSuccess);
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  ASSERT_EQ(cudaMalloc(&second, kMiB), cudaSuccess);
  ASSERT_EQ(cudaMemcpy(first, sent.data(), kMiB, cudaMemcpyHostToDevice), cudaSuccess);
  EXPECT_EQ(cudaMemcpyPeer(second, 1, first, 0, kMiB), cudaSuccess);
  EXPECT_EQ(cudaMemcpy(back.data(), second, kMiB, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_EQ(back, sent);
  EXPECT_EQ(cudaMemcpyPeer(second, 2, first, 0, kMiB), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaFree(first), cudaSuccess);
  EXPECT_EQ(cudaFree(second), cudaSuccess);
}

TEST(RuntimeCopy, KeepsToItsPitch) {
  constexpr size_t kWidth = 100, kHeight = 33;
  const auto sent = counted(kWidth * kHeight);
  std::vector<unsigned char> back(kWidth * kHeight);
  void* device = nullptr;
  size_t pitch = 0;
  ASSERT_EQ(cudaMallocPitch(&device, &pitch, kWidth, kHeight), cudaSuccess);
  EXPECT_GE(pitch, kWidth);
  EXPECT_EQ(cudaMemset2D(device, pitch, 0xAB, pitch, kHeight), cudaSuccess);
  EXPECT_EQ(cudaMemcpy2D(device, pitch, sent.data(), kWidth, kWidth, kHeight, cudaMemcpyHostToDevice),
            cudaSuccess);
  EXPECT_EQ(
      cudaMemcpy2DAsync(back.data(), kWidth, device, pitch, kWidth, kHeight, cudaMemcpyDeviceToHost, nullptr),
      cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(nullptr), cudaSuccess);
  EXPECT_EQ(back, sent);
  unsigned char beyond = 0;
  if (pitch > kWidth) {
    EXPECT_EQ(cudaMemcpy(&beyond, static_cast<char*>(device) + kWidth, 1, cudaMemcpyDeviceToHost),
              cudaSuccess);
    EXPECT_EQ(beyond, 0xAB);
  }
  EXPECT_EQ(cudaMemcpy2D(device, 10, sent.data(), kWidth, kWidth, kHeight, cudaMemcpyHostToDevice),
            cudaErrorInvalidPitchValue);
  EXPECT_EQ(cudaFree(device), cudaSuccess);
}

TEST(RuntimeCopy, KeepsToItsSlices) {
  const cudaExtent extent{60, 7, 5};
  const auto sent = counted(60 * 7 * 5);
  std::vector<unsigned char> back(sent.size());
  cudaPitchedPtr device{};
  ASSERT_EQ(cudaMalloc3D(&device, extent), cudaSuccess);
  EXPECT_EQ(device.ysize, 7u);
  cudaMemcpy3DParms to{};
  to.srcPtr = {const_cast<unsigned char*>(sent.data()), 60, 60, 7};
  to.dstPtr = device;
  to.extent = extent;
  to.kind = cudaMemcpyHostToDevice;
  EXPECT_EQ(cudaMemcpy3D(&to), cudaSuccess);
  cudaMemcpy3DParms from{};
  from.srcPtr = device;
  from.dstPtr = {back.data(), 60, 60, 7};
  from.extent = extent;
  from.kind = cudaMemcpyDeviceToHost;
  EXPECT_EQ(cudaMemcpy3DAsync(&from, nullptr), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(nullptr), cudaSuccess);
  EXPECT_EQ(back, sent);

  // Three rows of each slice are filled, the other four keep what they had.
  EXPECT_EQ(cudaMemset3D(device, 0x5A, {60, 3, 5}), cudaSuccess);
  EXPECT_EQ(cudaMemcpy3D(&from), cudaSuccess);
  for (size_t z = 0; z < 5; ++z) {
    EXPECT_EQ(back[z * 420], 0x5A);
    EXPECT_EQ(back[z * 420 + 2 * 60 + 59], 0x5A);
    EXPECT_EQ(back[z * 420 + 3 * 60], sent[z * 420 + 3 * 60]);
    EXPECT_EQ(back[z * 420 + 6 * 60 + 59], sent[z * 420 + 6 * 60 + 59]);
  }
  EXPECT_EQ(cudaFree(device.ptr), cudaSuccess);
}

TEST(RuntimeCopy, HasTwinsForADefaultStreamPerThread) {
  void* device = nullptr;
  ASSERT_EQ(cudaMalloc(&device, 256), cudaSuccess);
  EXPECT_EQ(cudaMemsetAsync_ptsz(device, 0x11, 256, nullptr), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize_ptsz(nullptr), cudaSuccess);
  std::vector<unsigned char> back(256);
  EXPECT_EQ(cudaMemcpy_ptds(back.data(), device, 256, cudaMemcpyDeviceToHost), cudaSuccess);
  EXPECT_EQ(back, std::vector<unsigned char>(256, 0x11));
  EXPECT_EQ(cudaFree(device), cudaSuccess);
}

TEST(RuntimeStreams, OrderWorkByEvents) {
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  cudaStream_t first = nullptr, second = nullptr;
  cudaEvent_t start = nullptr, end = nullptr;
  ASSERT_EQ(cudaStreamCreate(&first), cudaSuccess);
  ASSERT_EQ(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking), cudaSuccess);
  ASSERT_EQ(cudaEventCreate(&start), cudaSuccess);
  ASSERT_EQ(cudaEventCreateWithFlags(&end, cudaEventDefault), cudaSuccess);
  void* device = nullptr;
  ASSERT_EQ(cudaMalloc(&device, kMiB), cudaSuccess);
  EXPECT_EQ(cudaEventRecord(start, first), cudaSuccess);
  EXPECT_EQ(cudaMemsetAsync(device, 3, kMiB, first), cudaSuccess);
  EXPECT_EQ(cudaEventRecord(end, first), cudaSuccess);
  EXPECT_EQ(cudaStreamWaitEvent(second, end, 0), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(second), cudaSuccess);
  EXPECT_EQ(cudaEventSynchronize(end), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(end), cudaSuccess);
  EXPECT_EQ(cudaStreamQuery(first), cudaSuccess);
  float milliseconds = -1;
  EXPECT_EQ(cudaEventElapsedTime(&milliseconds, start, end), cudaSuccess);
  EXPECT_GE(milliseconds, 0);
  unsigned int flags = 99;
  EXPECT_EQ(cudaStreamGetFlags(second, &flags), cudaSuccess);
  EXPECT_EQ(flags, cudaStreamNonBlocking + 0u);
  int device_of = -1;
  EXPECT_EQ(cudaStreamGetDevice(first, &device_of), cudaSuccess);
  EXPECT_EQ(device_of, 1);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(cudaFree(device), cudaSuccess);
  EXPECT_EQ(cudaEventDestroy(start), cudaSuccess);
  EXPECT_EQ(cudaEventDestroy(end), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(first), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(second), cudaSuccess);
}

TEST(RuntimeEntryPoints, AreTheDriversOwn) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult status = cudaDriverEntryPointSymbolNotFound;
  EXPECT_EQ(cudaGetDriverEntryPointByVersion("cuMemAlloc", &found, 12000, cudaEnableDefault, &status),
            cudaSuccess);
  EXPECT_EQ(status, cudaDriverEntryPointSuccess);
  EXPECT_EQ(found, reinterpret_cast<void*>(&cuMemAlloc));  // cuda.h makes that cuMemAlloc_v2
  EXPECT_EQ(cudaGetDriverEntryPointByVersion("cuNoSuchThing", &found, 12000, cudaEnableDefault, &status),
            cudaSuccess);
  EXPECT_EQ(status, cudaDriverEntryPointSymbolNotFound);
  EXPECT_EQ(cudaGetDriverEntryPointByVersion("cuMemAllocAsync", &found, 10000, cudaEnableDefault, &status),
            cudaSuccess);
  EXPECT_EQ(status, cudaDriverEntryPointVersionNotSufficent);
}

TEST(RuntimeLaunch, ConfigurationIsHandedFromCallerToStub) {
  EXPECT_EQ(__cudaPushCallConfiguration({2, 3, 4}, {5, 6, 7}, 89, cudaStreamPerThread), 0u);
  dim3 grid, block;
  size_t shared = 0;
  cudaStream_t stream = nullptr;
  EXPECT_EQ(__cudaPopCallConfiguration(&grid, &block, &shared, &stream), cudaSuccess);
  EXPECT_EQ(grid.y, 3u);
  EXPECT_EQ(block.z, 7u);
  EXPECT_EQ(shared, 89u);
  EXPECT_EQ(stream, cudaStreamPerThread);
  EXPECT_EQ(__cudaPopCallConfiguration(&grid, &block, &shared, &stream), cudaErrorMissingConfiguration);
}

TEST(RuntimeLaunch, RegistrationIsTakenInSilence) {
  testing::internal::CaptureStderr();
  int fatbin = 0;
  void** handle = __cudaRegisterFatBinary(&fatbin);
  EXPECT_NE(handle, nullptr);
  __cudaUnregisterFatBinary(handle);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
}

TEST(RuntimeUnsupported, IsSaidOnceForEachFunction) {
  testing::internal::CaptureStderr();
  cudaExternalMemory_t memory = nullptr;
  const cudaExternalMemoryHandleDesc description{};
  EXPECT_EQ(cudaImportExternalMemory(&memory, &description), cudaErrorNotSupported);
  EXPECT_EQ(cudaImportExternalMemory(&memory, &description), cudaErrorNotSupported);
  EXPECT_EQ(cudaGetLastError(), cudaErrorNotSupported);
  EXPECT_EQ(
      testing::internal::GetCapturedStderr(),
      "gpufence[" + std::to_string(getpid()) +
          "] GF601 warning: the simulator has no cudaImportExternalMemory: it answered "
          "cudaErrorNotSupported; share memory by cudaIpcGetMemHandle, events by cudaIpcGetEventHandle\n");
}

}  // namespace

int main(int argc, char** argv) {
  std::string directory = std::filesystem::temp_directory_path() / "gpufence-runtime-XXXXXX";
  if (mkdtemp(directory.data()) == nullptr) return 1;
  setenv("GPUFENCE_SIM", "2x1GiB", 1);
  setenv("GPUFENCE_SIM_DIR", directory.c_str(), 1);
  unsetenv("CUDA_VISIBLE_DEVICES");
  testing::InitGoogleTest(&argc, argv);
  const int result = RUN_ALL_TESTS();
  std::filesystem::remove_all(directory);
  return result;
}
