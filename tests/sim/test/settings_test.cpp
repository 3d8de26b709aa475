// What can be set and asked beside work: attributes of streams, page-locked memory of the program's own, the
// error log, and what links between GPUs do by themselves. Sources: cuda.h, at the functions named.
#include <cuda.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <array>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>

#include "gpus.h"
#include "process.h"

namespace gpufence::sim {
namespace {

#define OK(call) EXPECT_EQ(call, CUDA_SUCCESS)

constexpr CUresult kInvalid = CUDA_ERROR_INVALID_VALUE;

void on_machine(const char* machine, const std::function<void()>& body) {
  in_child({{"GPUFENCE_SIM", machine}}, [&] {
    OK(cuInit(0));
    context_on(0);
    body();
  });
}

CUstream a_stream() {
  CUstream stream = nullptr;
  OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  return stream;
}

CUstreamAttrValue told(CUstream stream, CUstreamAttrID which) {
  CUstreamAttrValue value;
  memset(&value, 0x5a, sizeof value);
  OK(cuStreamGetAttribute(stream, which, &value));
  return value;
}

TEST(StreamAttributes, AreToldAsTheyWereSetAndCopied) {
  on_machine("h100", [] {
    const CUstream stream = a_stream(), other = a_stream();
    EXPECT_EQ(told(stream, CU_STREAM_ATTRIBUTE_SYNCHRONIZATION_POLICY).syncPolicy, CU_SYNC_POLICY_AUTO);
    EXPECT_EQ(told(stream, CU_STREAM_ATTRIBUTE_ACCESS_POLICY_WINDOW).accessPolicyWindow.num_bytes, 0u);
    EXPECT_EQ(told(stream, CU_STREAM_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP).memSyncDomainMap.remote, 1);

    CUdeviceptr memory = 0;
    OK(cuMemAlloc(&memory, 4096));
    CUstreamAttrValue value{};
    value.accessPolicyWindow = {reinterpret_cast<void*>(memory), 4096, 0.5F, CU_ACCESS_PROPERTY_PERSISTING,
                                CU_ACCESS_PROPERTY_STREAMING};
    OK(cuStreamSetAttribute(stream, CU_STREAM_ATTRIBUTE_ACCESS_POLICY_WINDOW, &value));
    value.syncPolicy = CU_SYNC_POLICY_BLOCKING_SYNC;
    OK(cuStreamSetAttribute(stream, CU_STREAM_ATTRIBUTE_SYNCHRONIZATION_POLICY, &value));
    value.priority = -3;
    OK(cuStreamSetAttribute(stream, CU_STREAM_ATTRIBUTE_PRIORITY, &value));
    value.memSyncDomainMap = {2, 3};
    OK(cuStreamSetAttribute(stream, CU_STREAM_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP, &value));
    value.memSyncDomain = CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE;
    OK(cuStreamSetAttribute(stream, CU_STREAM_ATTRIBUTE_MEM_SYNC_DOMAIN, &value));
    OK(cuStreamCopyAttributes(other, stream));
    OK(cuStreamCopyAttributes(other, other));
    for (CUstream each : {stream, other}) {
      const CUaccessPolicyWindow window =
          told(each, CU_STREAM_ATTRIBUTE_ACCESS_POLICY_WINDOW).accessPolicyWindow;
      EXPECT_EQ(window.base_ptr, reinterpret_cast<void*>(memory));
      EXPECT_EQ(window.hitRatio, 0.5F);
      EXPECT_EQ(window.hitProp, CU_ACCESS_PROPERTY_PERSISTING);
      EXPECT_EQ(told(each, CU_STREAM_ATTRIBUTE_SYNCHRONIZATION_POLICY).syncPolicy,
                CU_SYNC_POLICY_BLOCKING_SYNC);
      EXPECT_EQ(told(each, CU_STREAM_ATTRIBUTE_PRIORITY).priority, -3);
      int priority = 0;
      OK(cuStreamGetPriority(each, &priority));
      EXPECT_EQ(priority, -3);
      EXPECT_EQ(told(each, CU_STREAM_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP).memSyncDomainMap.default_, 2);
      EXPECT_EQ(told(each, CU_STREAM_ATTRIBUTE_MEM_SYNC_DOMAIN).memSyncDomain,
                CU_LAUNCH_MEM_SYNC_DOMAIN_REMOTE);
    }
  });
}

TEST(StreamAttributes, AreNoWorkThatACaptureWouldRefuse) {
  on_machine("1", [] {
    const CUstream stream = a_stream();
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    CUstreamAttrValue value{};
    value.priority = -1;
    OK(cuStreamSetAttribute(stream, CU_STREAM_ATTRIBUTE_PRIORITY, &value));
    EXPECT_EQ(told(stream, CU_STREAM_ATTRIBUTE_PRIORITY).priority, -1);
    CUgraph graph = nullptr;
    OK(cuStreamEndCapture(stream, &graph));
    OK(cuGraphDestroy(graph));
    // Work that has no node is refused, and the capture with it ("CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED").
    CUdeviceptr managed = 0;
    OK(cuMemAllocManaged(&managed, 4096, CU_MEM_ATTACH_GLOBAL));
    OK(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    EXPECT_EQ(cuStreamAttachMemAsync(stream, managed, 0, CU_MEM_ATTACH_GLOBAL),
              CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    EXPECT_EQ(cuStreamEndCapture(stream, &graph), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  });
}

TEST(StreamAttributes, AreChecked) {
  on_machine("2xh100", [] {
    const CUstream stream = a_stream();
    CUstreamAttrValue value{};
    // "missProp: Must be either NORMAL or STREAMING."
    value.accessPolicyWindow = {nullptr, 0, 0.5F, CU_ACCESS_PROPERTY_NORMAL, CU_ACCESS_PROPERTY_PERSISTING};
    constexpr auto kWindow = CU_STREAM_ATTRIBUTE_ACCESS_POLICY_WINDOW;
    EXPECT_EQ(cuStreamSetAttribute(stream, kWindow, &value), kInvalid);
    value.accessPolicyWindow = {nullptr, 0, 1.5F, CU_ACCESS_PROPERTY_NORMAL, CU_ACCESS_PROPERTY_NORMAL};
    EXPECT_EQ(cuStreamSetAttribute(stream, kWindow, &value), kInvalid);
    // "num_bytes is limited by CU_DEVICE_ATTRIBUTE_MAX_ACCESS_POLICY_WINDOW_SIZE."
    value.accessPolicyWindow = {nullptr, (size_t{128} << 20) + 1, 1, CU_ACCESS_PROPERTY_NORMAL,
                                CU_ACCESS_PROPERTY_NORMAL};
    EXPECT_EQ(cuStreamSetAttribute(stream, kWindow, &value), kInvalid);
    value.syncPolicy = static_cast<CUsynchronizationPolicy>(0);
    EXPECT_EQ(cuStreamSetAttribute(stream, CU_STREAM_ATTRIBUTE_SYNCHRONIZATION_POLICY, &value), kInvalid);
    value.memSyncDomainMap = {0, 4};
    EXPECT_EQ(cuStreamSetAttribute(stream, CU_STREAM_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP, &value), kInvalid);
    EXPECT_EQ(cuStreamSetAttribute(stream, CU_LAUNCH_ATTRIBUTE_COOPERATIVE, &value), kInvalid);
    EXPECT_EQ(cuStreamGetAttribute(stream, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, &value), kInvalid);
    EXPECT_EQ(cuStreamGetAttribute(stream, kWindow, nullptr), kInvalid);
    EXPECT_EQ(cuStreamSetAttribute(stream, kWindow, nullptr), kInvalid);
    context_on(1);
    EXPECT_EQ(cuStreamCopyAttributes(stream, a_stream()), kInvalid);  // "must have the same context"
    OK(cuStreamDestroy(stream));
    EXPECT_EQ(cuStreamGetAttribute(stream, kWindow, &value), CUDA_ERROR_INVALID_HANDLE);
    OK(cuCtxResetPersistingL2Cache());
  });
}

TEST(RegisteredMemory, IsTheHostsAndThereAndWritableUnlessSaidOtherwise) {
  on_machine("1", [] {
    constexpr size_t kBytes = 4 * 65536;  // pages, whatever their size
    auto* memory =
        static_cast<char*>(mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    // "Required in order to register memory mapped to the CPU as read-only" (CU_MEMHOSTREGISTER_READ_ONLY).
    mprotect(memory + 65536, 65536, PROT_READ);
    EXPECT_EQ(cuMemHostRegister(memory, kBytes, 0), kInvalid);
    OK(cuMemHostRegister(memory, kBytes, CU_MEMHOSTREGISTER_READ_ONLY));
    CUcontext context = nullptr;
    OK(cuCtxGetCurrent(&context));
    EXPECT_EQ(reach(context, reinterpret_cast<CUdeviceptr>(memory)), 1);
    EXPECT_EQ(cuMemHostRegister(memory + 100, 100, 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
    EXPECT_EQ(cuMemHostUnregister(memory + 100), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);  // "the same one"
    unsigned flags = 0;
    EXPECT_EQ(cuMemHostGetFlags(&flags, memory), kInvalid);  // of cuMemHostAlloc's memory only
    OK(cuMemHostUnregister(memory));
    EXPECT_EQ(cuMemHostUnregister(memory), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
    munmap(memory + 2 * 65536, 65536);
    EXPECT_EQ(cuMemHostRegister(memory + 65536, 3 * 65536, CU_MEMHOSTREGISTER_READ_ONLY), kInvalid);
    OK(cuMemHostRegister(memory, 65536, CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP));
    OK(cuMemHostUnregister(memory));

    CUdeviceptr device = 0, managed = 0;
    OK(cuMemAlloc(&device, 4096));
    OK(cuMemAllocManaged(&managed, 4096, CU_MEM_ATTACH_GLOBAL));
    EXPECT_EQ(cuMemHostRegister(reinterpret_cast<void*>(device), 4096, 0), kInvalid);
    EXPECT_EQ(cuMemHostRegister(reinterpret_cast<void*>(managed), 4096, 0), kInvalid);
    EXPECT_EQ(cuMemHostRegister(nullptr, 4096, 0), kInvalid);
    EXPECT_EQ(cuMemHostRegister(memory, 0, 0), kInvalid);
    EXPECT_EQ(cuMemHostRegister(memory, 65536, 16), kInvalid);
  });
}

TEST(RegisteredMemory, OfDevicesIsRefusedAloud) {
  const std::string said = stderr_of({{"GPUFENCE_SIM", "1"}}, [] {
    OK(cuInit(0));
    context_on(0);
    static char page[4096];
    EXPECT_EQ(cuMemHostRegister(page, sizeof page, CU_MEMHOSTREGISTER_IOMEMORY), CUDA_ERROR_NOT_SUPPORTED);
  });
  EXPECT_NE(said.find("GF601 warning: the simulator has no I/O memory"), std::string::npos) << said;
}

TEST(ErrorLog, IsEmpty) {
  on_machine("1", [] {
    CUlogIterator at = 7;
    OK(cuLogsCurrent(&at, 0));
    EXPECT_EQ(cuLogsCurrent(nullptr, 0), kInvalid);
    EXPECT_EQ(cuLogsCurrent(&at, 1), kInvalid);
    char text[16] = "before";
    size_t size = sizeof text;
    OK(cuLogsDumpToMemory(&at, text, &size, 0));
    EXPECT_EQ(size, 0u);
    EXPECT_STREQ(text, "");
    EXPECT_EQ(cuLogsDumpToMemory(nullptr, nullptr, &size, 0), kInvalid);
    const std::string path = private_directory() + "/log";
    OK(cuLogsDumpToFile(nullptr, path.c_str(), 0));
    std::ifstream file(path);
    EXPECT_TRUE(file.good());
    EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), "");
    EXPECT_EQ(cuLogsDumpToFile(nullptr, nullptr, 0), kInvalid);
    CUlogsCallbackHandle handle = nullptr;
    OK(cuLogsRegisterCallback([](void*, CUlogLevel, char*, size_t) {}, nullptr, &handle));
    EXPECT_EQ(cuLogsRegisterCallback(nullptr, nullptr, &handle), kInvalid);
    OK(cuLogsUnregisterCallback(handle));
    EXPECT_EQ(cuLogsUnregisterCallback(handle), kInvalid);
  });
}

TEST(ExecAffinity, IsNobodys) {
  on_machine("1", [] {
    int supported = 9;
    OK(cuDeviceGetExecAffinitySupport(&supported, CU_EXEC_AFFINITY_TYPE_SM_COUNT, 0));
    EXPECT_EQ(supported, 0);
    CUexecAffinityParam affinity{};
    EXPECT_EQ(cuCtxGetExecAffinity(&affinity, CU_EXEC_AFFINITY_TYPE_SM_COUNT),
              CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY);
    EXPECT_EQ(cuDeviceGetExecAffinitySupport(&supported, CU_EXEC_AFFINITY_TYPE_SM_COUNT, 1),
              CUDA_ERROR_INVALID_DEVICE);
  });
}

TEST(LinkAtomics, AreThoseOfNvlink) {
  on_machine("2xh100", [] {
    const CUatomicOperation operations[] = {CU_ATOMIC_OPERATION_INTEGER_ADD, CU_ATOMIC_OPERATION_CAS};
    unsigned told_of[2] = {9, 9};
    OK(cuDeviceGetP2PAtomicCapabilities(told_of, operations, 2, 0, 1));
    EXPECT_EQ(told_of[0], unsigned{CU_ATOMIC_CAPABILITY_SIGNED | CU_ATOMIC_CAPABILITY_UNSIGNED |
                                   CU_ATOMIC_CAPABILITY_REDUCTION | CU_ATOMIC_CAPABILITY_SCALAR_32 |
                                   CU_ATOMIC_CAPABILITY_SCALAR_64});
    EXPECT_EQ(told_of[1] & CU_ATOMIC_CAPABILITY_REDUCTION, 0u);
    OK(cuDeviceGetHostAtomicCapabilities(told_of, operations, 2, 0));
    EXPECT_EQ(told_of[0], 0u);
    EXPECT_EQ(cuDeviceGetP2PAtomicCapabilities(told_of, operations, 2, 0, 0), CUDA_ERROR_INVALID_DEVICE);
    EXPECT_EQ(cuDeviceGetP2PAtomicCapabilities(told_of, operations, 2, 0, 2), CUDA_ERROR_INVALID_DEVICE);
    EXPECT_EQ(cuDeviceGetHostAtomicCapabilities(told_of, operations, 0, 0), kInvalid);
    EXPECT_EQ(cuDeviceGetHostAtomicCapabilities(nullptr, operations, 2, 0), kInvalid);
    const auto none = static_cast<CUatomicOperation>(13);
    EXPECT_EQ(cuDeviceGetHostAtomicCapabilities(told_of, &none, 1, 0), kInvalid);
  });
  on_machine("2", [] {
    const CUatomicOperation add = CU_ATOMIC_OPERATION_INTEGER_ADD;
    unsigned told_of = 9;
    OK(cuDeviceGetP2PAtomicCapabilities(&told_of, &add, 1, 0, 1));
    EXPECT_EQ(told_of, 0u);
  });
}

}  // namespace
}  // namespace gpufence::sim
