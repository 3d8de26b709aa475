// Peers: who may reach whom, by machine and by context; what a kernel may touch; copies that need no peers.
#include <cuda.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "gate.h"
#include "gpus.h"
#include "process.h"

namespace gpufence::sim {
namespace {

#define OK(call) EXPECT_EQ(call, CUDA_SUCCESS)

CUdeviceptr memory_of(size_t bytes) {
  CUdeviceptr memory = 0;
  OK(cuMemAlloc(&memory, bytes));
  return memory;
}

// Row by row, who can access whom.
std::string matrix(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) {
    for (int j = 0; j < count; ++j) {
      int can = -1;
      OK(cuDeviceCanAccessPeer(&can, i, j));
      text += static_cast<char>('0' + can);
    }
    text += ' ';
  }
  return text;
}

std::string machine_file(const std::string& text) {
  static int number = 0;
  const std::string path = private_directory() + "/peers" + std::to_string(++number) + ".toml";
  std::ofstream(path) << text;
  return path;
}

void on_machine(const std::string& machine, const std::function<void()>& body) {
  in_child({{"GPUFENCE_SIM", machine}}, [&] {
    OK(cuInit(0));
    body();
  });
}

TEST(Peers, AreTheGpusWithNvlinkUnlessTheMachineSaysOtherwise) {
  on_machine("3xh100", [] { EXPECT_EQ(matrix(3), "011 101 110 "); });
  on_machine("2xt4", [] { EXPECT_EQ(matrix(2), "00 00 "); });
  on_machine("2", [] { EXPECT_EQ(matrix(2), "00 00 "); });
  on_machine(machine_file("[[gpu]]\nmodel = \"h100\"\ncount = 2\n[[gpu]]\nmodel = \"a100\"\n"),
             [] { EXPECT_EQ(matrix(3), "010 100 000 "); });  // one major compute capability
  on_machine(machine_file("peers = \"all\"\n[[gpu]]\ncount = 2\n"), [] { EXPECT_EQ(matrix(2), "01 10 "); });
  on_machine(machine_file("peers = \"none\"\n[[gpu]]\nmodel = \"h100\"\ncount = 2\n"),
             [] { EXPECT_EQ(matrix(2), "00 00 "); });
  on_machine(machine_file("peers = [[0, 1], [2, 3]]\n[[gpu]]\ncount = 4\n"),
             [] { EXPECT_EQ(matrix(4), "0100 1000 0001 0010 "); });
}

TEST(Peers, FollowTheHostIndexAndNotTheOrdinal) {
  in_child({{"GPUFENCE_SIM", machine_file("peers = [[0, 2]]\n[[gpu]]\ncount = 3\n")},
            {"CUDA_VISIBLE_DEVICES", "2,1,0"}},
           [] {
             OK(cuInit(0));
             EXPECT_EQ(matrix(3), "001 000 100 ");
           });
  in_child({{"GPUFENCE_SIM", machine_file("peers = [[1, 2]]\n[[gpu]]\ncount = 3\n")},
            {"CUDA_VISIBLE_DEVICES", "2,1"}},
           [] {
             OK(cuInit(0));
             EXPECT_EQ(matrix(2), "01 10 ");
           });
}

TEST(Peers, TellTheirLinks) {
  on_machine("2xh100", [] {
    int value = -1;
    OK(cuDeviceGetP2PAttribute(&value, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 0, 1));
    EXPECT_EQ(value, 1);
    OK(cuDeviceGetP2PAttribute(&value, CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED, 0, 1));
    EXPECT_EQ(value, 1);
    OK(cuDeviceGetP2PAttribute(&value, CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK, 0, 1));
    EXPECT_EQ(value, 0);
    EXPECT_EQ(cuDeviceGetP2PAttribute(&value, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 0, 0),
              CUDA_ERROR_INVALID_DEVICE);
    EXPECT_EQ(cuDeviceGetP2PAttribute(&value, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 0, 2),
              CUDA_ERROR_INVALID_DEVICE);
    EXPECT_EQ(cuDeviceGetP2PAttribute(&value, static_cast<CUdevice_P2PAttribute>(0), 0, 1),
              CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuDeviceGetP2PAttribute(nullptr, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 0, 1),
              CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuDeviceCanAccessPeer(&value, 0, 2), CUDA_ERROR_INVALID_DEVICE);
  });
}

TEST(Peers, AreEnabledAndDisabledWithTheDocumentedErrors) {
  on_machine(machine_file("peers = [[0, 1]]\n[[gpu]]\ncount = 3\n"), [] {
    CUcontext a = context_on(0), twin = context_on(0), b = context_on(1), c = context_on(2);
    OK(cuCtxSetCurrent(a));
    EXPECT_EQ(cuCtxEnablePeerAccess(a, 0), CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_EQ(cuCtxEnablePeerAccess(nullptr, 0), CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_EQ(cuCtxEnablePeerAccess(b, 1), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuCtxEnablePeerAccess(c, 0), CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
    EXPECT_EQ(cuCtxEnablePeerAccess(twin, 0), CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
    EXPECT_EQ(cuCtxDisablePeerAccess(b), CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
    OK(cuCtxEnablePeerAccess(b, 0));
    EXPECT_EQ(cuCtxEnablePeerAccess(b, 0), CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
    OK(cuCtxSetCurrent(b));
    EXPECT_EQ(cuCtxDisablePeerAccess(a), CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);  // one way only
    OK(cuCtxSetCurrent(a));
    OK(cuCtxDisablePeerAccess(b));
    EXPECT_EQ(cuCtxDisablePeerAccess(nullptr), CUDA_ERROR_INVALID_CONTEXT);
    OK(cuCtxEnablePeerAccess(b, 0));
    OK(cuCtxDestroy(b));
    EXPECT_EQ(cuCtxDisablePeerAccess(b), CUDA_ERROR_INVALID_CONTEXT);
  });
}

TEST(Access, IsToOwnMemoryWhileItLives) {
  on_machine("1", [] {
    CUcontext context = context_on(0);
    CUdeviceptr memory = memory_of(1000);
    EXPECT_EQ(reach(context, memory), 2);
    EXPECT_EQ(reach(context, memory + 999), 2);
    EXPECT_EQ(reach(context, memory + 1023), 2);  // its last granule
    EXPECT_EQ(reach(context, memory + 1024), 0);
    EXPECT_EQ(reach(context, memory - 1), 0);
    OK(cuMemFree(memory));
    EXPECT_EQ(reach(context, memory), 0);
    EXPECT_EQ(reach(context, 0), 0);
    CUcontext other = context_on(0);
    CUdeviceptr its = memory_of(16);
    EXPECT_EQ(reach(other, its), 2);
    EXPECT_EQ(reach(context, its), 0);  // contexts are apart on one GPU too
  });
}

TEST(Access, IsToPeersWhereEnabled) {
  on_machine("2xh100", [] {
    CUcontext a = context_on(0), b = context_on(1);
    CUdeviceptr on_b = memory_of(16);
    OK(cuCtxSetCurrent(a));
    EXPECT_EQ(reach(a, on_b), 0);
    CUdeviceptr address = 0;
    const auto ask = [&] {
      return cuPointerGetAttribute(&address, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, on_b);
    };
    EXPECT_EQ(ask(), CUDA_ERROR_INVALID_VALUE);
    OK(cuCtxEnablePeerAccess(b, 0));
    EXPECT_EQ(reach(a, on_b), 2);
    OK(ask());
    EXPECT_EQ(address, on_b);
    CUdeviceptr on_a = memory_of(16);
    EXPECT_EQ(reach(b, on_a), 0);
    OK(cuCtxSetCurrent(b));
    CUdeviceptr later = memory_of(16);  // "immediately accessible"
    EXPECT_EQ(reach(a, later), 2);
    OK(cuMemFree(later));
    EXPECT_EQ(reach(a, later), 0);
    OK(cuCtxSetCurrent(a));
    OK(cuCtxDisablePeerAccess(b));
    EXPECT_EQ(reach(a, on_b), 0);
    OK(cuCtxEnablePeerAccess(b, 0));
    OK(cuCtxDestroy(b));
    EXPECT_EQ(reach(a, on_b), 0);
  });
}

TEST(Access, IsToManagedAndPageLockedMemoryFromEverywhere) {
  on_machine("2", [] {
    CUcontext a = context_on(0), b = context_on(1);
    CUdeviceptr managed = 0;
    OK(cuMemAllocManaged(&managed, 100, CU_MEM_ATTACH_GLOBAL));
    void* pinned = nullptr;
    OK(cuMemHostAlloc(&pinned, 100, 0));
    std::vector<char> own(100), constants(100);
    OK(cuMemHostRegister(own.data(), own.size(), 0));
    OK(cuMemHostRegister(constants.data(), constants.size(), CU_MEMHOSTREGISTER_READ_ONLY));
    const auto address = [](void* pointer) { return reinterpret_cast<CUdeviceptr>(pointer); };
    for (CUcontext context : {a, b}) {
      EXPECT_EQ(reach(context, managed), 2);
      EXPECT_EQ(reach(context, address(pinned)), 2);
      EXPECT_EQ(reach(context, address(own.data()) + 99), 2);
      EXPECT_EQ(reach(context, address(own.data()) + 100), 0);
      EXPECT_EQ(reach(context, address(constants.data())), 1);
    }
    OK(cuMemHostUnregister(own.data()));
    OK(cuMemFreeHost(pinned));
    OK(cuMemFree(managed));
    EXPECT_EQ(reach(a, address(own.data())), 0);
    EXPECT_EQ(reach(a, address(pinned)), 0);
    EXPECT_EQ(reach(a, managed), 0);
  });
}

TEST(PeerMemset, NeedsAccessAndCopiesDoNot) {
  on_machine("2xh100", [] {
    CUcontext a = context_on(0);
    CUdeviceptr on_a = memory_of(8);
    CUcontext b = context_on(1);
    CUdeviceptr on_b = memory_of(8);
    std::string back(8, ' ');
    OK(cuMemcpyHtoD(on_b, "from b..", 8));
    OK(cuCtxSetCurrent(a));
    EXPECT_EQ(cuMemsetD8(on_b, 'x', 8), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemcpyDtoD(on_a, on_b, 8));
    OK(cuMemcpyDtoH(back.data(), on_a, 8));
    EXPECT_EQ(back, "from b..");
    OK(cuMemsetD8(on_a, 'a', 8));
    OK(cuMemcpyPeerAsync(on_b, b, on_a, a, 4, nullptr));
    OK(cuMemcpyDtoH(back.data(), on_b, 8));
    EXPECT_EQ(back, "aaaa b..");
    OK(cuCtxEnablePeerAccess(b, 0));
    OK(cuMemsetD8(on_b, 'x', 2));
    OK(cuMemcpyDtoH(back.data(), on_b, 8));
    EXPECT_EQ(back, "xxaa b..");
  });
}

TEST(PeerCopy, WaitsForAllWorkOfBothGpus) {
  on_machine("2", [] {
    CUcontext a = context_on(0);
    CUdeviceptr on_a = memory_of(4);
    CUcontext b = context_on(1);
    CUdeviceptr on_b = memory_of(4);
    CUstream stream = nullptr;
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));  // of b, and no part of any default stream
    Gate gate;
    OK(gate.hold(stream));
    OK(cuMemsetD8Async(on_b, 'b', 4, stream));
    OK(cuCtxSetCurrent(a));
    std::thread opener([&] {
      gate.reached();
      gate.open();
    });
    OK(cuMemcpyPeer(on_a, a, on_b, b, 4));
    std::string back(4, ' ');
    OK(cuMemcpyDtoH(back.data(), on_a, 4));
    EXPECT_EQ(back, "bbbb");
    opener.join();
    CUDA_MEMCPY3D_PEER box{};
    box.srcMemoryType = box.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    box.srcDevice = on_b;
    box.dstDevice = on_a;
    box.srcContext = b;
    box.WidthInBytes = 4;
    box.Height = box.Depth = 1;
    EXPECT_EQ(cuMemcpy3DPeer(&box), CUDA_ERROR_INVALID_CONTEXT);  // no destination context
    box.dstContext = a;
    OK(cuMemcpy3DPeer(&box));
  });
}

TEST(OtherContexts, StreamsAndEventsAnswerAsDocumented) {
  on_machine("2", [] {
    CUcontext a = context_on(0);
    CUdeviceptr on_a = memory_of(4);
    CUstream of_a = nullptr;
    CUevent event_a = nullptr, event_b = nullptr;
    OK(cuStreamCreate(&of_a, 0));
    OK(cuEventCreate(&event_a, 0));
    OK(cuEventRecord(event_a, of_a));
    context_on(1);
    OK(cuEventCreate(&event_b, 0));
    OK(cuEventRecord(event_b, nullptr));
    float ms = 0;
    EXPECT_EQ(cuEventRecord(event_a, nullptr), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_EQ(cuEventRecord(event_b, of_a), CUDA_ERROR_INVALID_HANDLE);
    EXPECT_EQ(cuEventElapsedTime(&ms, event_a, event_b), CUDA_ERROR_INVALID_HANDLE);
    OK(cuStreamWaitEvent(nullptr, event_a, 0));
    OK(cuEventSynchronize(event_a));
    OK(cuEventQuery(event_a));
    OK(cuStreamSynchronize(of_a));
    OK(cuMemcpyHtoDAsync(on_a, "abcd", 4, of_a));  // a copy may be given to a stream of another GPU
    OK(cuStreamSynchronize(of_a));
    OK(cuMemsetD8Async(on_a, 0, 4, of_a));
    EXPECT_EQ(cuMemsetD8Async(on_a, 0, 4, nullptr), CUDA_ERROR_INVALID_VALUE);
    OK(cuCtxSetCurrent(a));
    OK(cuCtxSynchronize());
  });
}

}  // namespace
}  // namespace gpufence::sim
