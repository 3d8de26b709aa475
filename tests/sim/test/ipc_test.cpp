// Memory and events between processes by cuIpc…: each test has an exporter and an importer, which tell each
// other their handles and steps over a socket. Sources: cuda.h (cuIpcGetMemHandle and its neighbours), and
// "Interprocess Communication" of the CUDA C++ programming guide; where they are silent, the report of a
// driver's answer that ipc.cpp and ipc_event.cpp name.
#include <cuda.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "descriptors.h"
#include "gate.h"
#include "gpus.h"
#include "process.h"

namespace gpufence::sim {
namespace {

#define OK(call) EXPECT_EQ(call, CUDA_SUCCESS)

constexpr size_t kMiB = size_t{1} << 20;
constexpr unsigned kLazy = CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS;

template <class Value>
void give(int socket, const Value& value) {
  EXPECT_EQ(write(socket, &value, sizeof value), static_cast<ssize_t>(sizeof value));
}
template <class Value>
Value take(int socket) {
  Value value{};
  EXPECT_EQ(recv(socket, &value, sizeof value, MSG_WAITALL), static_cast<ssize_t>(sizeof value));
  return value;
}

using Side = std::function<void(int socket)>;

// Runs both on one machine, each with a context on GPU 0.
void between(const std::string& machine, const Side& exporter, const Side& importer,
             const Environment& of_importer = {}) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  const auto side = [&](int mine, int theirs, const Side& body) {
    return [&ends, mine, theirs, &body] {
      close(ends[theirs]);
      OK(cuInit(0));
      context_on(0);
      body(ends[mine]);
    };
  };
  Environment environment = {{"GPUFENCE_SIM", machine}};
  const pid_t first = start(environment, side(0, 1, exporter));
  environment.insert(environment.end(), of_importer.begin(), of_importer.end());
  const pid_t second = start(environment, side(1, 0, importer));
  close(ends[0]);
  close(ends[1]);
  EXPECT_EQ(finish(first), 0);
  EXPECT_EQ(finish(second), 0);
}

CUdeviceptr allocated(size_t bytes) {
  CUdeviceptr memory = 0;
  OK(cuMemAlloc(&memory, bytes));
  return memory;
}

CUipcMemHandle handle_of(CUdeviceptr memory) {
  CUipcMemHandle handle{};
  OK(cuIpcGetMemHandle(&handle, memory));
  return handle;
}

int word(CUdeviceptr at) {
  int value = -1;
  OK(cuMemcpyDtoH(&value, at, sizeof value));
  return value;
}
void set_word(CUdeviceptr at, int value) {
  OK(cuMemcpyHtoD(at, &value, sizeof value));
}

unsigned attribute(CUpointer_attribute which, CUdeviceptr memory) {
  unsigned value = 77;
  OK(cuPointerGetAttribute(&value, which, memory));
  return value;
}

TEST(IpcMemory, IsOneMemoryInBothProcesses) {
  between(
      "1",
      [](int socket) {
        // Behind a neighbour that ends within a page.
        allocated(1000);
        const CUdeviceptr memory = allocated(3 * kMiB + 20);
        set_word(memory, 4711);
        set_word(memory + 3 * kMiB + 16, 4712);
        give(socket, handle_of(memory));
        EXPECT_EQ(hear(socket), 'w');
        EXPECT_EQ(word(memory + kMiB), 1147);
        tell(socket, 'd');
      },
      [](int socket) {
        const auto handle = take<CUipcMemHandle>(socket);
        const size_t before = free_memory();
        CUdeviceptr memory = 0;
        OK(cuIpcOpenMemHandle(&memory, handle, kLazy));
        EXPECT_EQ(free_memory(), before);  // it counts against the process that allocated it
        EXPECT_EQ(memory % 256, 0u);
        EXPECT_EQ(word(memory), 4711);
        EXPECT_EQ(word(memory + 3 * kMiB + 16), 4712);
        set_word(memory + kMiB, 1147);
        tell(socket, 'w');
        EXPECT_EQ(hear(socket), 'd');

        CUcontext here = nullptr, of = nullptr;
        OK(cuCtxGetCurrent(&here));
        OK(cuPointerGetAttribute(&of, CU_POINTER_ATTRIBUTE_CONTEXT, memory));
        EXPECT_EQ(of, here);
        EXPECT_EQ(attribute(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, memory), unsigned{CU_MEMORYTYPE_DEVICE});
        EXPECT_EQ(attribute(CU_POINTER_ATTRIBUTE_IS_MANAGED, memory), 0u);
        EXPECT_EQ(attribute(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, memory), 0u);
        CUdeviceptr base = 0;
        size_t bytes = 0;
        OK(cuMemGetAddressRange(&base, &bytes, memory + 5000));
        EXPECT_EQ(base, memory);
        EXPECT_EQ(bytes, 3 * kMiB + 20);
        EXPECT_EQ(reach(here, memory), 2);
        EXPECT_EQ(cuMemFree(memory),
                  CUDA_ERROR_INVALID_VALUE);  // it "must be freed with cuIpcCloseMemHandle"
        int value = 0;
        EXPECT_EQ(cuMemcpyDtoH(&value, memory + 3 * kMiB + 20, 4), CUDA_ERROR_INVALID_VALUE);
        OK(cuIpcCloseMemHandle(memory));
        EXPECT_EQ(reach(here, memory), 0);
        EXPECT_EQ(cuIpcCloseMemHandle(memory), CUDA_ERROR_INVALID_VALUE);
      });
}

TEST(IpcMemory, IsOpenedSeveralTimesAtOneAddressAndClosedAsOften) {
  between(
      "1",
      [](int socket) {
        const CUdeviceptr memory = allocated(kMiB);
        set_word(memory, 1);
        give(socket, handle_of(memory));
        give(socket, handle_of(memory + 8192));  // "a handle of the whole allocation"
        EXPECT_EQ(hear(socket), 'd');
      },
      [](int socket) {
        const auto handle = take<CUipcMemHandle>(socket), again = take<CUipcMemHandle>(socket);
        CUdeviceptr memory = 0, same = 0;
        OK(cuIpcOpenMemHandle(&memory, handle, kLazy));
        OK(cuIpcOpenMemHandle(&same, again, kLazy));
        EXPECT_EQ(same, memory);
        OK(cuIpcCloseMemHandle(memory));
        EXPECT_EQ(word(memory), 1);
        OK(cuIpcCloseMemHandle(memory));
        EXPECT_EQ(cuIpcCloseMemHandle(memory), CUDA_ERROR_INVALID_VALUE);
        OK(cuIpcOpenMemHandle(&memory, handle, kLazy));
        EXPECT_EQ(word(memory), 1);
        tell(socket, 'd');
      });
}

TEST(IpcMemory, HasANewHandleWhenItsAddressIsAllocatedAnew) {
  // "If a region of memory is freed with cuMemFree and a subsequent call to cuMemAlloc returns memory with
  // the same device address, cuIpcGetMemHandle will return a unique handle for the new memory."
  between(
      "1",
      [](int socket) {
        const CUdeviceptr memory = allocated(kMiB);
        const CUipcMemHandle old = handle_of(memory), same = handle_of(memory);
        EXPECT_EQ(memcmp(&old, &same, sizeof old), 0);
        OK(cuMemFree(memory));
        const CUdeviceptr again = allocated(kMiB);
        ASSERT_EQ(again, memory);
        const CUipcMemHandle fresh = handle_of(again);
        EXPECT_NE(memcmp(&old, &fresh, sizeof old), 0);
        set_word(again, 5);
        give(socket, old);
        give(socket, fresh);
        EXPECT_EQ(hear(socket), 'd');
      },
      [](int socket) {
        const auto old = take<CUipcMemHandle>(socket), fresh = take<CUipcMemHandle>(socket);
        CUdeviceptr memory = 0;
        EXPECT_EQ(cuIpcOpenMemHandle(&memory, old, kLazy), CUDA_ERROR_INVALID_HANDLE);
        OK(cuIpcOpenMemHandle(&memory, fresh, kLazy));
        EXPECT_EQ(word(memory), 5);
        tell(socket, 'd');
      });
}

TEST(IpcMemory, IsOnlyThatOfCuMemAlloc) {
  in_child({{"GPUFENCE_SIM", "1"}}, [] {
    OK(cuInit(0));
    CUipcMemHandle handle{};
    EXPECT_EQ(cuIpcGetMemHandle(&handle, 4096), CUDA_ERROR_INVALID_CONTEXT);
    context_on(0);
    const CUdeviceptr plain = allocated(kMiB);
    CUdeviceptr managed = 0, pooled = 0, pitched = 0;
    void* pinned = nullptr;
    size_t pitch = 0;
    OK(cuMemAllocManaged(&managed, kMiB, CU_MEM_ATTACH_GLOBAL));
    OK(cuMemAllocAsync(&pooled, kMiB, nullptr));
    OK(cuMemHostAlloc(&pinned, kMiB, 0));
    OK(cuMemAllocPitch(&pitched, &pitch, 100, 100, 4));
    EXPECT_EQ(cuIpcGetMemHandle(nullptr, plain), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuIpcGetMemHandle(&handle, 0), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuIpcGetMemHandle(&handle, managed), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuIpcGetMemHandle(&handle, pooled), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuIpcGetMemHandle(&handle, reinterpret_cast<CUdeviceptr>(pinned)), CUDA_ERROR_INVALID_VALUE);
    OK(cuIpcGetMemHandle(&handle, pitched));
    constexpr auto kCapable = CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE;
    EXPECT_EQ(attribute(kCapable, plain), 1u);
    EXPECT_EQ(attribute(kCapable, managed), 0u);
    EXPECT_EQ(attribute(kCapable, pooled), 0u);
    EXPECT_EQ(attribute(kCapable, reinterpret_cast<CUdeviceptr>(pinned)), 0u);

    // "Exported from another process."
    CUdeviceptr memory = 0;
    handle = handle_of(plain);
    EXPECT_EQ(cuIpcOpenMemHandle(&memory, handle, kLazy), CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_EQ(cuIpcOpenMemHandle(&memory, handle, 0), CUDA_ERROR_INVALID_VALUE);  // "must be specified as"
    EXPECT_EQ(cuIpcOpenMemHandle(nullptr, handle, kLazy), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuIpcOpenMemHandle(&memory, CUipcMemHandle{}, kLazy), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuIpcCloseMemHandle(plain), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuIpcCloseMemHandle(0), CUDA_ERROR_INVALID_VALUE);
  });
}

TEST(IpcMemory, StaysWithItsImporterWhenTheExporterIsKilled) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  const pid_t exporter = start({{"GPUFENCE_SIM", "1"}}, [&] {
    OK(cuInit(0));
    context_on(0);
    const CUdeviceptr memory = allocated(kMiB), second = allocated(kMiB);
    set_word(memory, 31);
    give(ends[0], handle_of(memory));
    give(ends[0], handle_of(second));
    pause();
  });
  const pid_t importer = start({{"GPUFENCE_SIM", "1"}}, [&] {
    OK(cuInit(0));
    context_on(0);
    const auto handle = take<CUipcMemHandle>(ends[1]), second = take<CUipcMemHandle>(ends[1]);
    CUdeviceptr memory = 0;
    OK(cuIpcOpenMemHandle(&memory, handle, kLazy));
    tell(ends[1], 'o');
    EXPECT_EQ(hear(ends[1]), 'k');
    EXPECT_EQ(word(memory), 31);
    CUdeviceptr late = 0;
    EXPECT_EQ(cuIpcOpenMemHandle(&late, second, kLazy), CUDA_ERROR_INVALID_HANDLE);
    OK(cuIpcCloseMemHandle(memory));
  });
  EXPECT_EQ(hear(ends[0]), 'o');
  kill(exporter, SIGKILL);
  finish(exporter);
  tell(ends[0], 'k');
  EXPECT_EQ(finish(importer), 0);
}

TEST(IpcMemory, OfAnotherGpuNeedsAPeerAndOneContext) {
  const auto export_one = [](int socket) {
    const CUdeviceptr memory = allocated(kMiB);
    set_word(memory, 8);
    give(socket, handle_of(memory));
    EXPECT_EQ(hear(socket), 'd');
  };
  between("2xh100", export_one, [](int socket) {
    const auto handle = take<CUipcMemHandle>(socket);
    const CUcontext other = context_on(1);
    CUdeviceptr memory = 0, twin = 0;
    OK(cuIpcOpenMemHandle(&memory, handle, kLazy));
    EXPECT_EQ(word(memory), 8);
    EXPECT_EQ(attribute(CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, memory), 0u);
    EXPECT_EQ(reach(other, memory), 2);
    // "May only be opened by one CUcontext per CUdevice per other process."
    context_on(1);
    EXPECT_EQ(cuIpcOpenMemHandle(&twin, handle, kLazy), CUDA_ERROR_INVALID_CONTEXT);
    const CUcontext first = context_on(0);
    EXPECT_EQ(reach(first, memory), 0);
    OK(cuIpcOpenMemHandle(&twin, handle, kLazy));
    EXPECT_NE(twin, memory);
    set_word(twin, 9);
    OK(cuCtxSetCurrent(other));
    EXPECT_EQ(word(memory), 9);
    // It goes with the context that opened it.
    OK(cuCtxDestroy(first));
    EXPECT_EQ(cuIpcCloseMemHandle(twin), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(word(memory), 9);
    tell(socket, 'd');
  });
  // GPUs that are no peers, and a GPU that is not there ("cuDeviceCanAccessPeer can determine if a mapping is
  // possible").
  between("2", export_one, [](int socket) {
    const auto handle = take<CUipcMemHandle>(socket);
    context_on(1);
    CUdeviceptr memory = 0;
    EXPECT_EQ(cuIpcOpenMemHandle(&memory, handle, kLazy), CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
    tell(socket, 'd');
  });
  between("2", export_one,
          [](int socket) {
            const auto handle = take<CUipcMemHandle>(socket);
            CUdeviceptr memory = 0;
            EXPECT_EQ(cuIpcOpenMemHandle(&memory, handle, kLazy), CUDA_ERROR_PEER_ACCESS_UNSUPPORTED);
            tell(socket, 'd');
          },
          {{"CUDA_VISIBLE_DEVICES", "1"}});
}

TEST(IpcMemory, IsReadByWorkThatWasThereBeforeItIsClosed) {
  between(
      "1",
      [](int socket) {
        const CUdeviceptr memory = allocated(kMiB);
        set_word(memory, 66);
        give(socket, handle_of(memory));
        EXPECT_EQ(hear(socket), 'd');
      },
      [](int socket) {
        CUdeviceptr memory = 0;
        OK(cuIpcOpenMemHandle(&memory, take<CUipcMemHandle>(socket), kLazy));
        CUstream stream = nullptr;
        OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        const CUdeviceptr mine = allocated(kMiB);
        Gate gate;
        OK(gate.hold(stream));
        OK(cuMemcpyDtoDAsync(mine, memory, kMiB, stream));
        gate.reached();
        std::thread opener([&] { gate.open(); });
        OK(cuIpcCloseMemHandle(memory));
        opener.join();
        EXPECT_EQ(word(mine), 66);
        tell(socket, 'd');
      });
}

TEST(IpcMemory, OfManyAllocationsArrivesEachAtItsOwn) {
  constexpr int kMany = 200;
  const auto bytes_of = [](int i) { return static_cast<size_t>(i * i * 3 + 40); };
  between(
      "1",
      [&](int socket) {
        std::vector<CUdeviceptr> all;
        for (int i = 0; i < kMany; ++i) {
          all.push_back(allocated(bytes_of(i)));
          OK(cuMemsetD8(all.back(), static_cast<unsigned char>(i), bytes_of(i)));
        }
        for (int i = 0; i < kMany; i += 2) OK(cuMemFree(all[static_cast<size_t>(i)]));
        for (int i = 1; i < kMany; i += 2) give(socket, handle_of(all[static_cast<size_t>(i)]));
        EXPECT_EQ(hear(socket), 'd');
      },
      [&](int socket) {
        for (int i = 1; i < kMany; i += 2) {
          CUdeviceptr memory = 0, base = 0;
          size_t bytes = 0;
          OK(cuIpcOpenMemHandle(&memory, take<CUipcMemHandle>(socket), kLazy));
          OK(cuMemGetAddressRange(&base, &bytes, memory));
          EXPECT_EQ(bytes, bytes_of(i));
          std::string back(bytes, '?');
          OK(cuMemcpyDtoH(back.data(), memory, bytes));
          EXPECT_EQ(back, std::string(bytes, static_cast<char>(i)));
          if (i % 3 == 0) {
            OK(cuIpcCloseMemHandle(memory));
          }
        }
        tell(socket, 'd');
      });
}

TEST(IpcMemory, IsOpenedByThreadsAtOnce) {
  between(
      "1",
      [](int socket) {
        const CUdeviceptr memory = allocated(kMiB);
        std::vector<std::thread> threads;
        const CUipcMemHandle handle = handle_of(memory);
        CUcontext context = nullptr;
        OK(cuCtxGetCurrent(&context));
        for (int i = 0; i < 4; ++i)
          threads.emplace_back([&] {
            OK(cuCtxSetCurrent(context));
            for (int k = 0; k < 50; ++k) {
              const CUdeviceptr own = allocated(512);
              handle_of(own);
              OK(cuMemFree(own));
              const CUipcMemHandle same = handle_of(memory);
              EXPECT_EQ(memcmp(&same, &handle, sizeof same), 0);
            }
          });
        for (std::thread& thread : threads) thread.join();
        give(socket, handle);
        EXPECT_EQ(hear(socket), 'd');
      },
      [](int socket) {
        const auto handle = take<CUipcMemHandle>(socket);
        CUcontext context = nullptr;
        OK(cuCtxGetCurrent(&context));
        CUdeviceptr memory = 0;
        OK(cuIpcOpenMemHandle(&memory, handle, kLazy));
        std::vector<std::thread> threads;
        for (int i = 0; i < 4; ++i)
          threads.emplace_back([&] {
            OK(cuCtxSetCurrent(context));
            for (int k = 0; k < 50; ++k) {
              CUdeviceptr same = 0;
              OK(cuIpcOpenMemHandle(&same, handle, kLazy));
              EXPECT_EQ(same, memory);
              EXPECT_EQ(attribute(CU_POINTER_ATTRIBUTE_MEMORY_TYPE, same), unsigned{CU_MEMORYTYPE_DEVICE});
              OK(cuIpcCloseMemHandle(same));
            }
          });
        for (std::thread& thread : threads) thread.join();
        OK(cuIpcCloseMemHandle(memory));
        EXPECT_EQ(cuIpcCloseMemHandle(memory), CUDA_ERROR_INVALID_VALUE);
        tell(socket, 'd');
      });
}

// A child of fork has none of the memory, and must not keep the host's by a descriptor either.
TEST(IpcMemory, IsNotHeldByAChildOfFork) {
  in_child({{"GPUFENCE_SIM", "1"}}, [] {
    OK(cuInit(0));
    context_on(0);
    allocated(kMiB);
    const auto descriptors = [] {
      int count = 0;
      for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
        std::error_code gone;
        const std::string target = std::filesystem::read_symlink(entry.path(), gone).string();
        if (target.rfind("/memfd:gpufence-sim ", 0) == 0) ++count;
      }
      return count;
    };
    EXPECT_EQ(descriptors(), 1);
    const pid_t child = fork();
    if (child == 0) _exit(descriptors());
    EXPECT_EQ(finish(child), 0);
  });
}

// ---- Events ----

CUevent shared_event() {
  CUevent event = nullptr;
  OK(cuEventCreate(&event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING));
  return event;
}

CUipcEventHandle handle_of(CUevent event) {
  CUipcEventHandle handle{};
  OK(cuIpcGetEventHandle(&handle, event));
  return handle;
}

CUstream a_stream() {
  CUstream stream = nullptr;
  OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  return stream;
}

TEST(IpcEvent, IsWaitedForInTheOtherProcess) {
  between(
      "1",
      [](int socket) {
        const CUstream stream = a_stream();
        const CUevent event = shared_event();
        give(socket, handle_of(event));
        EXPECT_EQ(hear(socket), 'o');
        Gate gate;
        OK(gate.hold(stream));
        OK(cuEventRecord(event, stream));
        EXPECT_EQ(cuEventQuery(event), CUDA_ERROR_NOT_READY);
        tell(socket, 'r');
        EXPECT_EQ(hear(socket), 'w');
        gate.open();
        OK(cuEventSynchronize(event));
        OK(cuEventQuery(event));
        EXPECT_EQ(hear(socket), 'd');
        OK(cuEventDestroy(event));
      },
      [](int socket) {
        CUevent event = nullptr;
        OK(cuIpcOpenEventHandle(&event, take<CUipcEventHandle>(socket)));
        OK(cuEventQuery(event));  // never recorded
        OK(cuEventSynchronize(event));
        tell(socket, 'o');
        EXPECT_EQ(hear(socket), 'r');
        EXPECT_EQ(cuEventQuery(event), CUDA_ERROR_NOT_READY);
        const CUstream stream = a_stream();
        OK(cuStreamWaitEvent(stream, event, 0));
        Diary diary;
        OK(diary.write(stream, 'x'));
        EXPECT_EQ(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
        EXPECT_EQ(diary.read(), "");
        tell(socket, 'w');
        OK(cuEventSynchronize(event));
        OK(cuEventQuery(event));
        OK(cuStreamSynchronize(stream));
        EXPECT_EQ(diary.read(), "x");
        OK(cuEventDestroy(event));
        EXPECT_EQ(cuEventQuery(event), CUDA_ERROR_INVALID_HANDLE);
        tell(socket, 'd');
      });
}

TEST(IpcEvent, IsRecordedInEither) {
  between(
      "2",
      [](int socket) {
        const CUevent event = shared_event();
        OK(cuEventRecord(event, nullptr));
        OK(cuEventSynchronize(event));
        give(socket, handle_of(event));
        EXPECT_EQ(hear(socket), 'r');
        EXPECT_EQ(cuEventQuery(event), CUDA_ERROR_NOT_READY);
        const CUstream stream = a_stream();
        OK(cuStreamWaitEvent(stream, event, 0));
        EXPECT_EQ(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
        tell(socket, 'q');
        OK(cuStreamSynchronize(stream));
        OK(cuEventQuery(event));
        tell(socket, 'd');
      },
      [](int socket) {
        const auto handle = take<CUipcEventHandle>(socket);
        context_on(1);
        CUevent event = nullptr, again = nullptr;
        OK(cuIpcOpenEventHandle(&event, handle));
        OK(cuIpcOpenEventHandle(&again, handle));
        EXPECT_NE(event, again);
        OK(cuEventQuery(event));
        const CUstream stream = a_stream();
        Gate gate;
        OK(gate.hold(stream));
        OK(cuEventRecord(event, stream));
        EXPECT_EQ(cuEventQuery(again), CUDA_ERROR_NOT_READY);
        tell(socket, 'r');
        EXPECT_EQ(hear(socket), 'q');
        gate.open();
        EXPECT_EQ(hear(socket), 'd');
        OK(cuEventQuery(again));
      });
}

TEST(IpcEvent, IsMadeForIt) {
  in_child({{"GPUFENCE_SIM", "1"}}, [] {
    OK(cuInit(0));
    context_on(0);
    int supported = 0;
    OK(cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED, 0));
    EXPECT_EQ(supported, 1);
    // "Interprocess events must have CU_EVENT_DISABLE_TIMING set" (cuEventCreate).
    CUevent plain = nullptr;
    EXPECT_EQ(cuEventCreate(&plain, CU_EVENT_INTERPROCESS), CUDA_ERROR_INVALID_VALUE);
    OK(cuEventCreate(&plain, CU_EVENT_DISABLE_TIMING));
    CUipcEventHandle handle{};
    EXPECT_EQ(cuIpcGetEventHandle(&handle, plain), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuIpcGetEventHandle(&handle, nullptr), CUDA_ERROR_INVALID_HANDLE);
    const CUevent event = shared_event();
    EXPECT_EQ(cuIpcGetEventHandle(nullptr, event), CUDA_ERROR_INVALID_VALUE);
    handle = handle_of(event);
    CUevent opened = nullptr;
    EXPECT_EQ(cuIpcOpenEventHandle(nullptr, handle), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuIpcOpenEventHandle(&opened, CUipcEventHandle{}), CUDA_ERROR_INVALID_VALUE);
    EXPECT_EQ(cuIpcOpenEventHandle(&opened, handle), CUDA_ERROR_INVALID_CONTEXT);  // "from another process"
    float ms = 0;
    EXPECT_EQ(cuEventElapsedTime(&ms, event, event), CUDA_ERROR_INVALID_HANDLE);
    OK(cuEventDestroy(event));
    EXPECT_EQ(cuIpcGetEventHandle(&handle, event), CUDA_ERROR_INVALID_HANDLE);
  });
}

TEST(IpcEvent, OfADestroyedOneIsNotOpened) {
  between(
      "1",
      [](int socket) {
        const CUevent event = shared_event();
        give(socket, handle_of(event));
        OK(cuEventDestroy(event));
        const CUcontext own = context_on(0);
        give(socket, handle_of(shared_event()));
        OK(cuCtxDestroy(own));  // its events go with it
        tell(socket, 'x');
        EXPECT_EQ(hear(socket), 'd');
      },
      [](int socket) {
        const auto handle = take<CUipcEventHandle>(socket), other = take<CUipcEventHandle>(socket);
        EXPECT_EQ(hear(socket), 'x');
        CUevent event = nullptr;
        EXPECT_EQ(cuIpcOpenEventHandle(&event, handle), CUDA_ERROR_INVALID_HANDLE);
        EXPECT_EQ(cuIpcOpenEventHandle(&event, other), CUDA_ERROR_INVALID_HANDLE);
        tell(socket, 'd');
      });
}

TEST(IpcEvent, OfAKilledProcessHoldsNobody) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  const pid_t exporter = start({{"GPUFENCE_SIM", "1"}}, [&] {
    OK(cuInit(0));
    context_on(0);
    const CUstream stream = a_stream();
    const CUevent event = shared_event();
    Gate gate;
    OK(gate.hold(stream));
    OK(cuEventRecord(event, stream));
    give(ends[0], handle_of(event));
    pause();
  });
  const pid_t importer = start({{"GPUFENCE_SIM", "1"}}, [&] {
    OK(cuInit(0));
    context_on(0);
    CUevent event = nullptr;
    OK(cuIpcOpenEventHandle(&event, take<CUipcEventHandle>(ends[1])));
    const CUstream stream = a_stream();
    OK(cuStreamWaitEvent(stream, event, 0));
    EXPECT_EQ(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
    tell(ends[1], 'o');
    OK(cuStreamSynchronize(stream));
    OK(cuEventQuery(event));
  });
  EXPECT_EQ(hear(ends[0]), 'o');
  kill(exporter, SIGKILL);
  EXPECT_EQ(finish(importer), 0);  // the killed one is not even asked after
  finish(exporter);
}

TEST(IpcEvent, IsDoneWhenTheWorkBeforeItIsDropped) {
  between(
      "1",
      [](int socket) {
        const CUevent event = shared_event();
        const CUstream stream = a_stream();
        Gate gate;
        OK(gate.hold(stream));
        CUuuid id;
        memcpy(id.bytes, kInsideTableId, sizeof id.bytes);
        const void* table = nullptr;
        OK(cuGetExportTable(&table, &id));
        static_cast<const InsideTable*>(table)->fault(stream, CUDA_ERROR_ILLEGAL_ADDRESS);
        OK(cuEventRecord(event, stream));
        give(socket, handle_of(event));
        EXPECT_EQ(hear(socket), 'o');
        gate.open();
        EXPECT_EQ(cuEventSynchronize(event), CUDA_ERROR_ILLEGAL_ADDRESS);
        EXPECT_EQ(hear(socket), 'd');
      },
      [](int socket) {
        CUevent event = nullptr;
        OK(cuIpcOpenEventHandle(&event, take<CUipcEventHandle>(socket)));
        EXPECT_EQ(cuEventQuery(event), CUDA_ERROR_NOT_READY);
        tell(socket, 'o');
        OK(cuEventSynchronize(event));  // a fault is its own process's alone
        tell(socket, 'd');
      });
}

}  // namespace
}  // namespace gpufence::sim
