// The simulated driver through its exports, as a program linked with -lcuda calls it. Each test is a child
// with a machine of its own.
#include <cuda.h>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <array>
#include <cstring>
#include <fstream>
#include <thread>

#include "process.h"

namespace gpufence::sim {
namespace {

constexpr size_t kMiB = 1048576, kGiB = 1073741824;
constexpr size_t kContext = 268435456;  // what a context costs on the default machine

#define OK(call) EXPECT_EQ(call, CUDA_SUCCESS)

CUcontext context_on(int ordinal) {
  CUcontext context = nullptr;
  OK(cuCtxCreate(&context, nullptr, 0, ordinal));
  return context;
}

size_t free_bytes() {
  size_t free = 0, total = 0;
  OK(cuMemGetInfo(&free, &total));
  return free;
}

template <class Function>
Function exported(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
}

TEST(Init, FlagsMustBeZeroAndNothingWorksBefore) {
  in_child({{"GPUFENCE_SIM", "2"}}, [] {
    int count = -1;
    EXPECT_EQ(cuDeviceGetCount(&count), CUDA_ERROR_NOT_INITIALIZED);
    EXPECT_EQ(cuMemFree(1), CUDA_ERROR_NOT_INITIALIZED);
    EXPECT_EQ(cuInit(1), CUDA_ERROR_INVALID_VALUE);
    OK(cuInit(0));
    OK(cuInit(0));
    OK(cuDeviceGetCount(&count));
    EXPECT_EQ(count, 2);
    CUdeviceptr memory;
    EXPECT_EQ(cuMemAlloc(&memory, 1), CUDA_ERROR_INVALID_CONTEXT);
  });
}

TEST(Init, WithoutAMachineThereIsNoDevice) {
  for (const Environment& environment : {Environment{}, Environment{{"GPUFENCE_SIM", ""}},
                                         Environment{{"GPUFENCE_SIM", "4"}, {"CUDA_VISIBLE_DEVICES", ""}}}) {
    EXPECT_EQ(stderr_of(environment,
                        [] {
                          EXPECT_EQ(cuInit(0), CUDA_ERROR_NO_DEVICE);
                          int version = 0;
                          OK(cuDriverGetVersion(&version));
                          EXPECT_EQ(version, 13000);
                        }),
              "");
  }
}

TEST(Init, ABadMachineIsSaidInOneLine) {
  EXPECT_EQ(
      stderr_of({{"GPUFENCE_SIM", "lots"}},
                [] {
                  EXPECT_EQ(cuInit(0), CUDA_ERROR_NO_DEVICE);
                  EXPECT_EQ(cuInit(0), CUDA_ERROR_NO_DEVICE);
                }),
      "gpufence: GPUFENCE_SIM: \"lots\" names no known model; use 4, 4x80GiB, 8xh100, h100 or the path of a "
      "machine file (.toml); models: sim, b200, h200, h100, l40s, rtx3090, rtx4090, a100, a100-40, t4\n");
}

TEST(Init, TheMaskIsReadAtCuInitAndNeverAgain) {
  in_child({{"GPUFENCE_SIM", "4"}}, [] {
    setenv("CUDA_VISIBLE_DEVICES", "3,1", 1);  // after load, before cuInit
    OK(cuInit(0));
    setenv("CUDA_VISIBLE_DEVICES", "0", 1);
    OK(cuInit(0));
    int count = 0;
    OK(cuDeviceGetCount(&count));
    EXPECT_EQ(count, 2);
    char id[32];
    OK(cuDeviceGetPCIBusId(id, sizeof id, 0));
    EXPECT_STREQ(id, "0000:81:00.0");
    OK(cuDeviceGetPCIBusId(id, sizeof id, 1));
    EXPECT_STREQ(id, "0000:25:00.0");
    CUdevice device;
    EXPECT_EQ(cuDeviceGet(&device, 2), CUDA_ERROR_INVALID_DEVICE);
    OK(cuDeviceGetByPCIBusId(&device, "0000:25:00.0"));
    EXPECT_EQ(device, 1);
    EXPECT_EQ(cuDeviceGetByPCIBusId(&device, "0000:01:00.0"), CUDA_ERROR_INVALID_DEVICE);
  });
}

TEST(Init, AForkedChildOfAProcessWithCudaLiveGetsNotInitialized) {
  in_child({{"GPUFENCE_SIM", "1"}}, [] {
    OK(cuInit(0));
    context_on(0);
    const pid_t pid = fork();
    if (pid == 0) {
      int count;
      CUdeviceptr memory;
      const bool right = cuInit(0) == CUDA_ERROR_NOT_INITIALIZED &&
                         cuDeviceGetCount(&count) == CUDA_ERROR_NOT_INITIALIZED &&
                         cuMemAlloc(&memory, 1) == CUDA_ERROR_NOT_INITIALIZED;
      _exit(right ? 0 : 1);
    }
    EXPECT_EQ(finish(pid), 0);
    CUdeviceptr memory;
    OK(cuMemAlloc(&memory, 1));
  });
}

TEST(Device, IdentityAgreesWithTheDescription) {
  in_child({{"GPUFENCE_SIM", "2xh100"}}, [] {
    OK(cuInit(0));
    char name[64];
    OK(cuDeviceGetName(name, sizeof name, 1));
    EXPECT_STREQ(name, "NVIDIA H100 80GB HBM3");
    OK(cuDeviceGetName(name, 7, 1));
    EXPECT_STREQ(name, "NVIDIA");
    size_t bytes = 0;
    OK(cuDeviceTotalMem(&bytes, 0));
    EXPECT_EQ(bytes, 85899345920u);
    unsigned low = 0;
    OK(exported<CUresult (*)(unsigned*, CUdevice)>("cuDeviceTotalMem")(&low, 0));
    EXPECT_EQ(low, 4294967295u);
    CUuuid uuid;
    OK(cuDeviceGetUuid(&uuid, 1));
    EXPECT_EQ(static_cast<unsigned char>(uuid.bytes[0]), 0x51);
    EXPECT_EQ(uuid.bytes[1], 0x31);
    int value = 0;
    OK(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0));
    EXPECT_EQ(value, 9);
    OK(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0));
    EXPECT_EQ(value, 132);
    OK(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, 1));
    EXPECT_EQ(value, 0x25);
    for (int which = 1; which < CU_DEVICE_ATTRIBUTE_MAX; ++which)
      OK(cuDeviceGetAttribute(&value, static_cast<CUdevice_attribute>(which), 0)) << which;
    EXPECT_EQ(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_MAX, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_WARP_SIZE, 7), CUDA_ERROR_INVALID_DEVICE);
  });
}

TEST(Context, TheStackPushesPopsAndReplaces) {
  in_child({{"GPUFENCE_SIM", "2"}}, [] {
    OK(cuInit(0));
    CUcontext a = context_on(0), b = context_on(1), current = nullptr;
    OK(cuCtxGetCurrent(&current));
    EXPECT_EQ(current, b);
    CUdevice device = -1;
    OK(cuCtxGetDevice(&device));
    EXPECT_EQ(device, 1);
    OK(cuCtxSetCurrent(a));  // replaces b
    OK(cuCtxPopCurrent(&current));
    EXPECT_EQ(current, a);
    OK(cuCtxPopCurrent(&current));
    EXPECT_EQ(current, a);
    EXPECT_EQ(cuCtxPopCurrent(&current), CUDA_ERROR_INVALID_CONTEXT);
    OK(cuCtxGetCurrent(&current));
    EXPECT_EQ(current, nullptr);
    for (int i = 0; i < 100; ++i) OK(cuCtxPushCurrent(i % 2 == 0 ? a : b));
    for (int i = 99; i >= 0; --i) {
      OK(cuCtxPopCurrent(&current));
      EXPECT_EQ(current, i % 2 == 0 ? a : b);
    }
    EXPECT_EQ(cuCtxSetCurrent(reinterpret_cast<CUcontext>(uintptr_t{0xdead})), CUDA_ERROR_INVALID_CONTEXT);
    OK(cuCtxGetDevice_v2(&device, b));
    EXPECT_EQ(device, 1);
    unsigned long long id_a = 0, id_b = 0;
    OK(cuCtxGetId(a, &id_a));
    OK(cuCtxGetId(b, &id_b));
    EXPECT_NE(id_a, id_b);
  });
}

TEST(Context, DestroyGivesBackItsMemoryAndItsPrice) {
  in_child({{"GPUFENCE_SIM", "1"}}, [] {
    OK(cuInit(0));
    CUcontext keep = context_on(0);
    const size_t before = free_bytes();
    EXPECT_EQ(before, 16 * kGiB - kContext);
    CUcontext other = context_on(0);
    CUdeviceptr memory = 0;
    OK(cuMemAlloc(&memory, kGiB));
    EXPECT_EQ(free_bytes(), before - kContext - kGiB);
    std::thread([&] {
      OK(cuCtxSetCurrent(other));
      OK(cuCtxDestroy(other));
      CUcontext current = other;
      OK(cuCtxGetCurrent(&current));
      EXPECT_EQ(current, nullptr);
    }).join();
    EXPECT_EQ(cuMemAlloc(&memory, 1), CUDA_ERROR_CONTEXT_IS_DESTROYED);  // still current to this thread
    EXPECT_EQ(cuCtxDestroy(other), CUDA_ERROR_INVALID_CONTEXT);
    OK(cuCtxSetCurrent(keep));
    EXPECT_EQ(free_bytes(), before);
    EXPECT_EQ(cuMemFree(memory), CUDA_ERROR_INVALID_VALUE);
  });
}

TEST(Context, PrimaryContextsAreCountedAndReset) {
  in_child({{"GPUFENCE_SIM", "1"}}, [] {
    OK(cuInit(0));
    unsigned flags = 9;
    int active = 9;
    OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
    EXPECT_EQ(active, 0);
    EXPECT_EQ(cuDevicePrimaryCtxRelease(0), CUDA_ERROR_INVALID_CONTEXT);
    CUcontext one = nullptr, two = nullptr;
    OK(cuDevicePrimaryCtxSetFlags(0, CU_CTX_SCHED_YIELD));
    OK(cuDevicePrimaryCtxRetain(&one, 0));
    OK(cuDevicePrimaryCtxRetain(&two, 0));
    EXPECT_EQ(one, two);
    OK(cuCtxSetCurrent(one));
    OK(cuCtxGetFlags(&flags));
    EXPECT_EQ(flags, unsigned{CU_CTX_SCHED_YIELD});
    CUdeviceptr memory = 0;
    OK(cuMemAlloc(&memory, kMiB));
    OK(cuDevicePrimaryCtxRelease(0));
    OK(cuMemFree(memory));
    OK(cuMemAlloc(&memory, kMiB));
    OK(exported<CUresult (*)(CUdevice)>("cuDevicePrimaryCtxRelease")(0));
    EXPECT_EQ(cuMemAlloc(&memory, kMiB), CUDA_ERROR_CONTEXT_IS_DESTROYED);
    OK(cuDevicePrimaryCtxRetain(&two, 0));
    EXPECT_EQ(one, two);
    EXPECT_EQ(free_bytes(), 16 * kGiB - kContext);
    OK(cuMemAlloc(&memory, kMiB));
    OK(cuDevicePrimaryCtxReset(0));
    OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
    EXPECT_EQ(active, 0);
    OK(cuDevicePrimaryCtxRelease(0));
    EXPECT_EQ(cuCtxDestroy(one), CUDA_ERROR_INVALID_CONTEXT);
  });
}

TEST(Memory, OutOfMemoryComesAtTheByte) {
  in_child({{"GPUFENCE_SIM", "1"}}, [] {
    OK(cuInit(0));
    context_on(0);
    const size_t all = free_bytes();
    EXPECT_EQ(all, 16911433728u);
    CUdeviceptr memory = 0, more = 0;
    EXPECT_EQ(cuMemAlloc(&memory, all + 1), CUDA_ERROR_OUT_OF_MEMORY);
    OK(cuMemAlloc(&memory, all - 1));
    EXPECT_EQ(cuMemAlloc(&more, 2), CUDA_ERROR_OUT_OF_MEMORY);
    OK(cuMemAlloc(&more, 1));
    EXPECT_EQ(free_bytes(), 0u);
    OK(cuMemFree(memory));
    EXPECT_EQ(free_bytes(), all - 1);
  });
}

// cuda.h, cuMemAlloc, cuMemAllocManaged, cuMemAllocAsync and cuMemAllocHost: CUDA_ERROR_OUT_OF_MEMORY.
TEST(Memory, SizesThatRoundingWouldWrapAreOutOfMemory) {
  in_child({{"GPUFENCE_SIM", "1"}}, [] {
    OK(cuInit(0));
    context_on(0);
    CUstream stream = nullptr;
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuStreamSynchronize(stream));
    CUmemPoolProps props{};
    props.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
    props.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    CUmemoryPool pool = nullptr;
    OK(cuMemPoolCreate(&pool, &props));
    size_t before = 0, after = 0, total = 0;
    OK(cuMemGetInfo(&before, &total));
    for (const size_t bytes : {0xffff'ffff'ffff'ffff, 0xffff'ffff'ffff'fffe, 0xffff'ffff'ffff'ff9c,
                               0xffff'ffff'ffff'fe00, 0xffff'ffff'ffe0'0000, 0x8000'0000'0000'0000}) {
      SCOPED_TRACE(bytes);
      CUdeviceptr memory = 77;
      void* host = nullptr;
      EXPECT_EQ(cuMemAlloc(&memory, bytes), CUDA_ERROR_OUT_OF_MEMORY);
      EXPECT_EQ(cuMemAllocManaged(&memory, bytes, CU_MEM_ATTACH_GLOBAL), CUDA_ERROR_OUT_OF_MEMORY);
      EXPECT_EQ(cuMemAllocAsync(&memory, bytes, stream), CUDA_ERROR_OUT_OF_MEMORY);
      EXPECT_EQ(cuMemAllocFromPoolAsync(&memory, bytes, pool, stream), CUDA_ERROR_OUT_OF_MEMORY);
      EXPECT_EQ(cuMemHostAlloc(&host, bytes, 0), CUDA_ERROR_OUT_OF_MEMORY);
      EXPECT_EQ(memory, 77u);
    }
    OK(cuMemGetInfo(&after, &total));
    EXPECT_EQ(after, before);
    CUdeviceptr memory = 0;
    OK(cuMemAllocManaged(&memory, 4096, CU_MEM_ATTACH_GLOBAL));
    OK(cuMemFree(memory));
  });
}

TEST(Memory, FreesAreCheckedAndNullIsFine) {
  in_child({{"GPUFENCE_SIM", "1"}}, [] {
    OK(cuInit(0));
    context_on(0);
    CUdeviceptr memory = 0;
    EXPECT_EQ(cuMemAlloc(&memory, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemAlloc(nullptr, 1), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemAlloc(&memory, 4096));
    EXPECT_EQ(memory % 256, 0u);
    EXPECT_EQ(cuMemFree(memory + 512), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemFree(0xdead), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemFree(0));
    OK(cuMemFree(memory));
    EXPECT_EQ(cuMemFree(memory), CUDA_ERROR_INVALID_VALUE);
    size_t total = 0;
    OK(cuMemGetInfo(nullptr, &total));
    EXPECT_EQ(total, 17179869184u);
  });
}

TEST(Memory, PitchIsAMultipleOf512AndIsWhatIsTaken) {
  in_child({{"GPUFENCE_SIM", "1"}}, [] {
    OK(cuInit(0));
    context_on(0);
    const size_t before = free_bytes();
    CUdeviceptr memory = 0;
    size_t pitch = 0;
    EXPECT_EQ(cuMemAllocPitch(&memory, &pitch, 100, 10, 3), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemAllocPitch(&memory, &pitch, 1000, 10, 4));
    EXPECT_EQ(pitch, 1024u);
    EXPECT_EQ(before - free_bytes(), 10240u);
    CUdeviceptr base = 0;
    size_t bytes = 0;
    OK(cuMemGetAddressRange(&base, &bytes, memory + 5000));
    EXPECT_EQ(base, memory);
    EXPECT_EQ(bytes, 10240u);
    EXPECT_EQ(cuMemGetAddressRange(&base, &bytes, memory + 10240), CUDA_ERROR_NOT_FOUND);
  });
}

TEST(Memory, TheFirstAbiGetsAddressesOf32Bits) {
  in_child({{"GPUFENCE_SIM", "1"}}, [] {
    OK(cuInit(0));
    context_on(0);
    unsigned pointer = 0, free = 0, total = 0;
    OK(exported<CUresult (*)(unsigned*, unsigned)>("cuMemAlloc")(&pointer, 10000));
    const std::string text = "through the old door";
    OK(exported<CUresult (*)(unsigned, const void*, unsigned)>("cuMemcpyHtoD")(pointer, text.data(), 20));
    std::string back(20, ' ');
    OK(cuMemcpyDtoH(back.data(), pointer, 20));
    EXPECT_EQ(back, text);
    OK(exported<CUresult (*)(unsigned*, unsigned*)>("cuMemGetInfo")(&free, &total));
    EXPECT_EQ(free, 4294967295u);
    OK(exported<CUresult (*)(unsigned)>("cuMemFree")(pointer));
    EXPECT_EQ(free_bytes(), 16 * kGiB - kContext);
  });
}

TEST(Memory, ManagedMemoryIsTheHostsToo) {
  in_child({{"GPUFENCE_SIM", "1"}}, [] {
    OK(cuInit(0));
    context_on(0);
    CUdeviceptr memory = 0;
    EXPECT_EQ(cuMemAllocManaged(&memory, 100, 0), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemAllocManaged(&memory, 100, CU_MEM_ATTACH_GLOBAL));
    OK(cuMemsetD8(memory, 42, 100));
    EXPECT_EQ(reinterpret_cast<char*>(memory)[99], 42);
    unsigned managed = 0;
    OK(cuPointerGetAttribute(&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, memory));
    EXPECT_EQ(managed, 1u);
  });
}

TEST(Memory, PointersTellDeviceContextAndRange) {
  in_child({{"GPUFENCE_SIM", "2"}}, [] {
    OK(cuInit(0));
    CUcontext context = context_on(1);
    CUdeviceptr memory = 0;
    OK(cuMemAlloc(&memory, 1000));
    int ordinal = -1;
    OK(cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, memory + 999));
    EXPECT_EQ(ordinal, 1);
    CUcontext owner = nullptr;
    CUmemorytype type{};
    size_t size = 0;
    CUpointer_attribute which[] = {CU_POINTER_ATTRIBUTE_CONTEXT, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                   CU_POINTER_ATTRIBUTE_RANGE_SIZE};
    void* data[] = {&owner, &type, &size};
    OK(cuPointerGetAttributes(3, which, data, memory));
    EXPECT_EQ(owner, context);
    EXPECT_EQ(type, CU_MEMORYTYPE_DEVICE);
    EXPECT_EQ(size, 1000u);
    int local = 0;
    const auto unknown = reinterpret_cast<CUdeviceptr>(&local);
    EXPECT_EQ(cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, unknown),
              CUDA_ERROR_INVALID_VALUE);
    CUpointer_attribute one[] = {CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
    void* place[] = {&ordinal};
    OK(cuPointerGetAttributes(1, one, place, unknown));
    EXPECT_EQ(ordinal, -2);
  });
}

TEST(Memory, HostMemoryIsPinnedRegisteredAndFreed) {
  in_child({{"GPUFENCE_SIM", "1"}}, [] {
    OK(cuInit(0));
    context_on(0);
    void* memory = nullptr;
    OK(cuMemHostAlloc(&memory, 10000, CU_MEMHOSTALLOC_PORTABLE));
    memset(memory, 1, 10000);
    CUdeviceptr device = 0;
    OK(cuMemHostGetDevicePointer(&device, static_cast<char*>(memory) + 8, 0));
    EXPECT_EQ(device, reinterpret_cast<CUdeviceptr>(memory) + 8);
    unsigned flags = 0, type = 0;
    OK(cuMemHostGetFlags(&flags, memory));
    EXPECT_EQ(flags, 3u);
    OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, device));
    EXPECT_EQ(type, unsigned{CU_MEMORYTYPE_HOST});
    OK(cuMemFreeHost(memory));
    EXPECT_EQ(cuMemFreeHost(memory), CUDA_ERROR_INVALID_VALUE);
    std::vector<char> own(5000);
    EXPECT_EQ(cuMemHostUnregister(own.data()), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
    OK(cuMemHostRegister(own.data(), own.size(), 0));
    EXPECT_EQ(cuMemHostRegister(own.data() + 100, 10, 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    OK(cuMemHostUnregister(own.data()));
  });
}

TEST(Memory, TheNthAllocationFailsWhereTheMachineSaysSo) {
  const std::string path = private_directory() + "/fault.toml";
  std::ofstream(path) << "[[gpu]]\nfail_alloc_at = 2\n";
  in_child({{"GPUFENCE_SIM", path}}, [] {
    OK(cuInit(0));
    context_on(0);
    CUdeviceptr memory;
    OK(cuMemAlloc(&memory, 1));
    EXPECT_EQ(cuMemAlloc(&memory, 1), CUDA_ERROR_OUT_OF_MEMORY);
    OK(cuMemAlloc(&memory, 1));
  });
}

TEST(Memory, TwoProcessesFillOneGpuUntilOneIsKilled) {
  Signal full;
  const Environment environment{{"GPUFENCE_SIM", "3"}};
  const pid_t first = start(environment, [&] {
    OK(cuInit(0));
    context_on(2);
    CUdeviceptr memory;
    OK(cuMemAlloc(&memory, 10 * kGiB));
    full.send();
    pause();
  });
  full.wait();
  in_child(environment, [&] {
    OK(cuInit(0));
    context_on(2);
    EXPECT_EQ(free_bytes(), 6 * kGiB - 2 * kContext);
    CUdeviceptr memory;
    EXPECT_EQ(cuMemAlloc(&memory, 6 * kGiB), CUDA_ERROR_OUT_OF_MEMORY);
    kill(first, SIGKILL);
    for (int i = 0; i < 2000 && free_bytes() != 16 * kGiB - kContext; ++i) usleep(1000);
    OK(cuMemAlloc(&memory, 6 * kGiB));
    EXPECT_EQ(free_bytes(), 10 * kGiB - kContext);
  });
  EXPECT_TRUE(WIFSIGNALED(finish(first)));
}

TEST(Memory, EightGpusOf80GiBHoldWhatIsWrittenAtBothEnds) {
  in_child({{"GPUFENCE_SIM", "8x80GiB"}}, [] {
    OK(cuInit(0));
    for (int gpu = 0; gpu < 8; ++gpu) {
      context_on(gpu);
      CUdeviceptr memory = 0;
      OK(cuMemAlloc(&memory, 79 * kGiB));
      OK(cuMemsetD32(memory, 0x1234u + static_cast<unsigned>(gpu), 4));
      OK(cuMemsetD8(memory + 79 * kGiB - 4, 7, 4));
      unsigned value = 0;
      OK(cuMemcpyDtoH(&value, memory + 12, 4));
      EXPECT_EQ(value, 0x1234u + static_cast<unsigned>(gpu));
      OK(cuMemcpyDtoH(&value, memory + 79 * kGiB - 4, 4));
      EXPECT_EQ(value, 0x07070707u);
    }
  });
}

TEST(Copy, EveryDirectionAndItsBounds) {
  in_child({{"GPUFENCE_SIM", "2"}}, [] {
    OK(cuInit(0));
    CUcontext a = context_on(0);
    CUdeviceptr on_a = 0, on_b = 0;
    OK(cuMemAlloc(&on_a, 1000));
    CUcontext b = context_on(1);
    OK(cuMemAlloc(&on_b, 1000));
    std::string text(1000, 'x'), back(1000, ' ');
    text[999] = 'y';
    OK(cuMemcpyHtoD(on_a, text.data(), 1000));
    OK(cuMemcpyPeer(on_b, b, on_a, a, 1000));
    OK(cuMemcpyDtoH(back.data(), on_b, 1000));
    EXPECT_EQ(back, text);
    OK(cuCtxSetCurrent(a));
    OK(cuMemsetD8(on_a, 'z', 500));
    OK(cuCtxSynchronize());
    OK(cuCtxSetCurrent(b));
    OK(cuMemcpyDtoD(on_b, on_a, 1000));
    OK(cuMemcpy(reinterpret_cast<CUdeviceptr>(back.data()), on_b, 1000));
    EXPECT_EQ(back, std::string(500, 'z') + std::string(499, 'x') + "y");
    EXPECT_EQ(cuMemcpyHtoD(on_a, text.data(), 1001), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemcpyHtoD(on_a + 999, text.data(), 2), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemcpyDtoH(back.data(), on_b + 1000, 1), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemcpyHtoD(0, text.data(), 1), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemcpyPeer(on_b, b, on_a, nullptr, 1), CUDA_ERROR_INVALID_CONTEXT);
    OK(cuMemcpyHtoD(on_a, nullptr, 0));
    CUstream stream = nullptr;
    OK(cuStreamCreate(&stream, 0));
    OK(cuMemcpyHtoDAsync(on_b, "streamed", 8, stream));
    OK(exported<CUresult (*)(void*, CUdeviceptr, size_t, CUstream)>("cuMemcpyDtoHAsync_v2_ptsz")(
        back.data(), on_b, 8, nullptr));
    EXPECT_EQ(back.substr(0, 8), "streamed");
    EXPECT_EQ(cuMemcpyHtoDAsync(on_b, "streamed", 8, reinterpret_cast<CUstream>(uintptr_t{0x1234})),
              CUDA_ERROR_INVALID_HANDLE);
  });
}

TEST(Copy, RowsAndSlices) {
  in_child({{"GPUFENCE_SIM", "1"}}, [] {
    OK(cuInit(0));
    context_on(0);
    CUdeviceptr memory = 0;
    OK(cuMemAlloc(&memory, 64));
    OK(cuMemsetD8(memory, '.', 64));
    const char rows[] = "abcdefgh";  // two rows of four
    CUDA_MEMCPY2D copy{};
    copy.srcMemoryType = CU_MEMORYTYPE_HOST;
    copy.srcHost = rows;
    copy.srcPitch = 4;
    copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.dstDevice = memory;
    copy.dstPitch = 8;
    copy.dstXInBytes = 1;
    copy.dstY = 1;
    copy.WidthInBytes = 4;
    copy.Height = 2;
    OK(cuMemcpy2D(&copy));
    std::string back(64, ' ');
    OK(cuMemcpyDtoH(back.data(), memory, 64));
    EXPECT_EQ(back.substr(0, 32), ".........abcd....efgh...........");
    copy.Height = 8;
    EXPECT_EQ(cuMemcpy2D(&copy), CUDA_ERROR_INVALID_VALUE);  // one row too many
    copy.Height = 2;
    copy.dstPitch = 4;
    EXPECT_EQ(cuMemcpy2D(&copy), CUDA_ERROR_INVALID_VALUE);  // a row wider than the pitch

    CUDA_MEMCPY3D box{};
    box.srcMemoryType = CU_MEMORYTYPE_DEVICE;
    box.srcDevice = memory;
    box.srcPitch = 8;
    box.srcHeight = 4;
    box.srcXInBytes = 1;
    box.srcY = 1;
    box.dstMemoryType = CU_MEMORYTYPE_HOST;
    std::string out(16, '-');
    box.dstHost = out.data();
    box.dstPitch = 4;
    box.dstHeight = 2;
    box.WidthInBytes = 4;
    box.Height = 2;
    box.Depth = 2;
    OK(cuMemcpy3D(&box));
    EXPECT_EQ(out, "abcdefgh........");
    OK(cuMemsetD2D16(memory, 8, 0x4141, 2, 3));
    OK(cuMemcpyDtoH(back.data(), memory, 32));
    EXPECT_EQ(back.substr(0, 32), "AAAA....AAAAd...AAAAh...........");
    EXPECT_EQ(cuMemsetD32(memory + 2, 0, 1), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemsetD2D8(memory, 8, 0, 8, 9), CUDA_ERROR_INVALID_VALUE);
  });
}

// Pitches and heights whose products are beyond 2^64 lie in no memory; wrapped they would pass
// for a few bytes of it. cuda.h, cuMemsetD2D8, cuMemcpy2D and cuMemcpy3D: CUDA_ERROR_INVALID_VALUE.
TEST(Copy, RowsAndSlicesBeyondAllAddressesAreRefused) {
  in_child({{"GPUFENCE_SIM", "1"}}, [] {
    OK(cuInit(0));
    context_on(0);
    constexpr size_t kTop = 0x8000'0000'0000'0000, kAll = 0xffff'ffff'ffff'ffff;
    CUstream stream = nullptr;
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    CUdeviceptr memory = 0;
    OK(cuMemAlloc(&memory, 4096));
    OK(cuMemsetD8(memory, '.', 4096));
    EXPECT_EQ(cuMemsetD2D8(memory, kTop, 1, 1, 3), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemsetD2D8(memory, kTop / 2, 1, 1, 5), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemsetD2D8(memory, kAll, 1, 1, kAll), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemsetD2D16(memory, kTop, 1, 1, 3), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemsetD2D32(memory, kTop, 1, 1, 3), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemsetD2D32Async(memory, kTop, 1, 1, 3, stream), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemsetD32(memory, 1, 0x4000'0000'0000'0001), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuMemsetD8(memory, 1, kAll - memory + 1), CUDA_ERROR_INVALID_VALUE);

    char host[64] = {};
    const auto rows = [&](size_t count, size_t pitch, size_t x, size_t y) {
      CUDA_MEMCPY2D copy{};
      copy.srcMemoryType = CU_MEMORYTYPE_HOST;
      copy.srcHost = host;
      copy.srcPitch = 16;
      copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
      copy.dstDevice = memory;
      copy.dstPitch = pitch;
      copy.dstXInBytes = x;
      copy.dstY = y;
      copy.WidthInBytes = 16;
      copy.Height = count;
      const CUresult result = cuMemcpy2D(&copy);
      EXPECT_EQ(cuMemcpy2DAsync(&copy, stream), result);
      EXPECT_EQ(cuMemcpy2DUnaligned(&copy), result);
      CUDA_MEMCPY2D back{};  // the other end
      back.srcMemoryType = CU_MEMORYTYPE_DEVICE;
      back.srcDevice = memory;
      back.srcPitch = pitch;
      back.srcXInBytes = x;
      back.srcY = y;
      back.dstMemoryType = CU_MEMORYTYPE_HOST;
      back.dstHost = host;
      back.dstPitch = 16;
      back.WidthInBytes = 16;
      back.Height = count;
      EXPECT_EQ(cuMemcpy2D(&back), result);
      return result;
    };
    EXPECT_EQ(rows(2, 16, 0, 0), CUDA_SUCCESS);
    EXPECT_EQ(rows(3, kTop, 0, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(rows(5, kTop / 2, 0, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(rows(1, kTop / 8, 0, 16), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(rows(2, kTop / 8, 0, 15), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(rows(1, 16, kAll - 15, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(rows(2, 16, 0, kAll), CUDA_ERROR_INVALID_VALUE);

    const auto slices = [&](size_t depth, size_t pitch, size_t height, size_t y, size_t z) {
      CUDA_MEMCPY3D copy{};
      copy.srcMemoryType = CU_MEMORYTYPE_HOST;
      copy.srcHost = host;
      copy.srcPitch = 16;
      copy.srcHeight = 1;
      copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
      copy.dstDevice = memory;
      copy.dstPitch = pitch;
      copy.dstHeight = height;
      copy.dstY = y;
      copy.dstZ = z;
      copy.WidthInBytes = 16;
      copy.Height = 1;
      copy.Depth = depth;
      const CUresult result = cuMemcpy3D(&copy);
      EXPECT_EQ(cuMemcpy3DAsync(&copy, stream), result);
      return result;
    };
    EXPECT_EQ(slices(2, 16, 1, 0, 0), CUDA_SUCCESS);
    EXPECT_EQ(slices(3, 0x1'0000'0000, 0x8000'0000, 0, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(slices(1, 0x1'0000'0000, 0x1'0000'0000, 0, 1), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(slices(1, kTop / 8, 1, 16, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(slices(2, 16, 1, 0, kAll), CUDA_ERROR_INVALID_VALUE);
    OK(cuCtxSynchronize());
    char after[4] = {};
    OK(cuMemcpyDtoH(after, memory + 32, 4));
    EXPECT_EQ(std::string(after, 4), "....");
  });
}

TEST(Stream, HandlesAreCheckedAndKnowTheirGpu) {
  in_child({{"GPUFENCE_SIM", "2"}}, [] {
    OK(cuInit(0));
    CUcontext a = context_on(0), b = context_on(1);
    CUstream stream = nullptr;
    OK(cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, -99));
    OK(cuCtxSetCurrent(a));
    CUdevice device = -1;
    OK(cuStreamGetDevice(stream, &device));
    EXPECT_EQ(device, 1);
    OK(cuStreamGetDevice(nullptr, &device));
    EXPECT_EQ(device, 0);
    CUcontext owner = nullptr;
    OK(cuStreamGetCtx(stream, &owner));
    EXPECT_EQ(owner, b);
    int priority = 0;
    OK(cuStreamGetPriority(stream, &priority));
    EXPECT_EQ(priority, -5);
    unsigned flags = 0;
    OK(cuStreamGetFlags(stream, &flags));
    EXPECT_EQ(flags, 1u);
    OK(cuStreamQuery(stream));
    OK(cuStreamSynchronize(CU_STREAM_PER_THREAD));
    EXPECT_EQ(cuStreamSynchronize(reinterpret_cast<CUstream>(uintptr_t{0x7777})), CUDA_ERROR_INVALID_HANDLE);
    OK(cuStreamDestroy(stream));
    EXPECT_EQ(cuStreamQuery(stream), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_EQ(cuStreamDestroy(stream), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_EQ(cuStreamCreate(&stream, 8), CUDA_ERROR_INVALID_VALUE);
    OK(cuStreamCreate(&stream, 0));
    OK(cuCtxDestroy(a));
    OK(cuCtxSetCurrent(b));
    EXPECT_EQ(cuStreamQuery(stream), CUDA_ERROR_INVALID_HANDLE);  // went with its context
  });
}

TEST(Stream, EventsTimeWithinOneGpuAndNotAcross) {
  in_child({{"GPUFENCE_SIM", "2"}}, [] {
    OK(cuInit(0));
    CUcontext a = context_on(0);
    CUevent first = nullptr, second = nullptr, untimed = nullptr;
    OK(cuEventCreate(&first, 0));
    OK(cuEventCreate(&second, 0));
    OK(cuEventCreate(&untimed, CU_EVENT_DISABLE_TIMING));
    float ms = -1;
    EXPECT_EQ(cuEventElapsedTime(&ms, first, second), CUDA_ERROR_INVALID_HANDLE);  // not recorded
    OK(cuEventRecord(first, nullptr));
    usleep(5000);
    OK(cuEventRecord(second, CU_STREAM_PER_THREAD));
    OK(cuEventRecord(untimed, nullptr));
    OK(cuEventElapsedTime(&ms, first, second));
    EXPECT_GE(ms, 5.0f);
    EXPECT_LT(ms, 5000.0f);
    EXPECT_EQ(cuEventElapsedTime(&ms, first, untimed), CUDA_ERROR_INVALID_HANDLE);
    OK(cuEventSynchronize(second));
    context_on(1);
    CUstream other = nullptr;
    CUevent event = nullptr;
    OK(cuStreamCreate(&other, 0));
    OK(cuEventCreate(&event, 0));
    OK(cuEventRecord(event, other));
    OK(cuStreamWaitEvent(other, first, 0));                             // allowed across GPUs
    EXPECT_EQ(cuEventRecord(first, other), CUDA_ERROR_INVALID_HANDLE);  // not allowed
    EXPECT_EQ(cuEventElapsedTime(&ms, first, event), CUDA_ERROR_INVALID_HANDLE);
    OK(cuCtxSetCurrent(a));
    OK(cuEventDestroy(first));
    EXPECT_EQ(cuEventQuery(first), CUDA_ERROR_INVALID_HANDLE);
  });
}

TEST(Errors, EveryCodeOfCudaHHasItsNameAndAText) {
  in_child({}, [] {
    std::ifstream header(CUDA_H);
    int count = 0, code = 0;
    char declared[100];
    for (std::string line; std::getline(header, line);) {
      if (sscanf(line.c_str(), " %99[A-Z_0-9] = %d", declared, &code) != 2) continue;
      if (strcmp(declared, "CUDA_SUCCESS") != 0 && strncmp(declared, "CUDA_ERROR_", 11) != 0) continue;
      ++count;
      const auto value = static_cast<CUresult>(code);
      const char *name = nullptr, *words = nullptr;
      OK(cuGetErrorName(value, &name));
      EXPECT_STREQ(name, declared);
      OK(cuGetErrorString(value, &words));
      EXPECT_GT(strlen(words), 5u);
    }
    EXPECT_EQ(count, 101);
    const char* name = "";
    EXPECT_EQ(cuGetErrorName(static_cast<CUresult>(12345), &name), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(name, nullptr);
  });
}

TEST(Unsupported, IsSaidOnceAFunction) {
  const std::string said = stderr_of({{"GPUFENCE_SIM", "1"}}, [] {
    OK(cuInit(0));
    EXPECT_EQ(cuImportExternalMemory(nullptr, nullptr), CUDA_ERROR_NOT_SUPPORTED);
    EXPECT_EQ(cuImportExternalMemory(nullptr, nullptr), CUDA_ERROR_NOT_SUPPORTED);
    void* address = nullptr;
    OK(cuGetProcAddress("cuModuleLoad", &address, 13000, 0, nullptr));
  });
  EXPECT_EQ(said.substr(0, 9), "gpufence[");
  EXPECT_EQ(
      said.substr(said.find(']')),
      "] GF601 warning: the simulator has no cuImportExternalMemory: it answered CUDA_ERROR_NOT_SUPPORTED; "
      "share memory by cuIpcGetMemHandle or cuMemExportToShareableHandle, events by cuIpcGetEventHandle\n");
}

TEST(Calls, AreWrittenDownWhenAskedFor) {
  const std::string path = private_directory() + "/calls";
  in_child({{"GPUFENCE_SIM", "1"}, {"GPUFENCE_SIM_CALLS", path}}, [] {
    OK(cuInit(0));
    context_on(0);
    CUdeviceptr memory;
    OK(cuMemAlloc(&memory, 16));
    EXPECT_EQ(cuMemAlloc(&memory, 0), CUDA_ERROR_INVALID_VALUE);
  });
  std::ifstream file(path);
  std::vector<std::string> calls;
  int pid, tid, result;
  for (std::string name; file >> pid >> tid >> name >> result;) {
    EXPECT_EQ(pid, tid);
    calls.push_back(name + " " + std::to_string(result));
  }
  EXPECT_EQ(calls,
            (std::vector<std::string>{"cuInit 0", "cuCtxCreate_v4 0", "cuMemAlloc_v2 0", "cuMemAlloc_v2 1"}));
}

TEST(Threads, AllocateFreeAndSwitchTogether) {
  in_child({{"GPUFENCE_SIM", "2x1GiB"}}, [] {
    OK(cuInit(0));
    CUcontext contexts[2];
    for (int gpu = 0; gpu < 2; ++gpu) OK(cuDevicePrimaryCtxRetain(&contexts[gpu], gpu));
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&contexts, t] {
        for (int i = 0; i < 2000; ++i) {
          OK(cuCtxSetCurrent(contexts[(i + t) % 2]));
          CUdeviceptr memory = 0;
          OK(cuMemAlloc(&memory, 1000 + static_cast<size_t>(i)));
          CUdevice ordinal = -1;
          OK(cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, memory));
          EXPECT_EQ(ordinal, (i + t) % 2);
          CUstream stream = nullptr;
          OK(cuStreamCreate(&stream, 0));
          OK(cuMemsetD8Async(memory, static_cast<unsigned char>(t), 1000, stream));
          OK(cuStreamDestroy(stream));
          OK(cuMemFree(memory));
        }
      });
    for (auto& thread : threads) thread.join();
    OK(cuCtxSetCurrent(contexts[0]));
    EXPECT_EQ(free_bytes(), kGiB - 64 * kMiB);
  });
}

}  // namespace
}  // namespace gpufence::sim
