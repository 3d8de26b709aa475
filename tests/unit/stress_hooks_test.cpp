// Eight threads launch, copy, record, make and destroy at random on four GPUs, and now and then mix two of
// them up: the findings are the mixes that were made, every one and no other, and what is remembered of
// handles does not grow. Above a driver that knows whose its handles are and gives them out again at once.
// Here, and not on the simulated machine alone, so that ThreadSanitizer sees the hooks.
// GPUFENCE_STRESS_OPERATIONS asks for more than a short run.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "dispatch/dispatch.h"
#include "fence.h"
#include "hooks/finding.h"

namespace gpufence::hooks {
namespace {

namespace dispatch = gpufence::dispatch;

constexpr int kGpus = 4;
constexpr unsigned kThreads = 8;
constexpr CUdeviceptr kMemory = 0x7000'0000'0000;  // a GPU's lies a terabyte above the one before
constexpr CUdeviceptr kApart = CUdeviceptr{1} << 40;

constinit thread_local int current = 0;

// Handles of one kind: who has them, and which are free. The last that was freed is the next that is given.
class Handles {
 public:
  void* give() {
    const std::lock_guard guard(lock_);
    std::size_t at = used_;
    if (free_.empty()) {
      ++used_;
    } else {
      at = free_.back();
      free_.pop_back();
    }
    device_.at(at).store(current);
    return reinterpret_cast<void*>(kFirst + 64 * at);
  }
  void take(void* handle) {
    const std::lock_guard guard(lock_);
    device_.at(index(handle)).store(-1);
    free_.push_back(index(handle));
  }
  int device(void* handle) const { return device_.at(index(handle)).load(); }

 private:
  static constexpr std::uintptr_t kFirst = 0x5000'0000;
  static std::size_t index(void* handle) { return (reinterpret_cast<std::uintptr_t>(handle) - kFirst) / 64; }

  std::mutex lock_;
  std::size_t used_ = 0;
  std::vector<std::size_t> free_;
  std::array<std::atomic<int>, 256> device_{};
};
Handles streams, events;

CUresult of_one_gpu(int one, int other) {
  return one == other ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

template <auto Function, class F>
void stand_in(F function) {
  dispatch::target<Function>.store(reinterpret_cast<void*>(+function));
}

// The body of a hook, as the gate's slot would lead to it.
template <auto Function>
decltype(Function) hook(const char* name) {
  for (const dispatch::Record* record : dispatch::records()) {
    if (record->body != nullptr && std::strcmp(record->name, name) == 0)
      return reinterpret_cast<decltype(Function)>(record->body);
  }
  ADD_FAILURE() << name << " is not hooked";
  return nullptr;
}

void start() {
  publish_rules(configure([](const char* name) {
                  return std::strcmp(name, "GPUFENCE_STDERR") == 0 ? std::optional<std::string>("off")
                                                                   : std::nullopt;
                }).rules);
  stand_in<&::cuInit>([](unsigned int) { return CUDA_SUCCESS; });
  stand_in<&::cuDeviceGetCount>([](int* count) { return *count = kGpus, CUDA_SUCCESS; });
  stand_in<&::cuDeviceGetUuid_v2>(
      [](CUuuid* uuid, CUdevice device) { return std::memset(uuid, device, sizeof *uuid), CUDA_SUCCESS; });
  stand_in<&::cuDeviceGetPCIBusId>(
      [](char* text, int, CUdevice) { return std::strcpy(text, "0000:0A:00.0"), CUDA_SUCCESS; });
  stand_in<&::cuDeviceGetName>(
      [](char* text, int, CUdevice) { return std::strcpy(text, "Fake"), CUDA_SUCCESS; });
  stand_in<&::cuDeviceTotalMem_v2>([](size_t* bytes, CUdevice) { return *bytes = 1 << 30, CUDA_SUCCESS; });
  stand_in<&::cuDeviceCanAccessPeer>([](int* can, CUdevice, CUdevice) { return *can = 0, CUDA_SUCCESS; });
  stand_in<&::cuCtxGetDevice>([](CUdevice* device) { return *device = current, CUDA_SUCCESS; });
  stand_in<&::cuCtxGetCurrent>([](CUcontext* context) {
    return *context =
               reinterpret_cast<CUcontext>(std::uintptr_t{0x6000'0000} + 64 * static_cast<unsigned>(current)),
           CUDA_SUCCESS;
  });
  stand_in<&::cuPointerGetAttribute>(
      [](void*, CUpointer_attribute, CUdeviceptr) { return CUDA_ERROR_INVALID_VALUE; });
  stand_in<&::cuPointerGetAttributes>(
      [](unsigned int, CUpointer_attribute*, void** values, CUdeviceptr address) {
        *static_cast<unsigned int*>(values[0]) = CU_MEMORYTYPE_DEVICE;
        *static_cast<unsigned int*>(values[1]) = 0;
        *static_cast<int*>(values[2]) = static_cast<int>((address - kMemory) / kApart);
        return CUDA_SUCCESS;
      });
  stand_in<&::cuStreamCreate>([](CUstream* made, unsigned int) {
    return *made = static_cast<CUstream>(streams.give()), CUDA_SUCCESS;
  });
  stand_in<&::cuStreamDestroy_v2>([](CUstream stream) { return streams.take(stream), CUDA_SUCCESS; });
  stand_in<&::cuEventCreate>(
      [](CUevent* made, unsigned int) { return *made = static_cast<CUevent>(events.give()), CUDA_SUCCESS; });
  stand_in<&::cuEventDestroy_v2>([](CUevent event) { return events.take(event), CUDA_SUCCESS; });
  stand_in<&::cuEventRecord>([](CUevent event, CUstream stream) {
    return of_one_gpu(events.device(event), streams.device(stream));
  });
  stand_in<&::cuLaunchKernel>([](CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                                 unsigned, CUstream stream, void**,
                                 void**) { return of_one_gpu(current, streams.device(stream)); });
  stand_in<&::cuMemcpyPeerAsync>(
      [](CUdeviceptr, CUcontext, CUdeviceptr, CUcontext, size_t, CUstream) { return CUDA_SUCCESS; });
  ASSERT_EQ(hook<&::cuInit>("cuInit")(0), CUDA_SUCCESS);
}

struct Done {
  std::atomic<std::uint64_t> launches{0}, copies{0};               // that were right
  std::atomic<std::uint64_t> mixed_launches{0}, mixed_records{0};  // that were not
};

void work(int gpu, unsigned seed, std::uint64_t operations, const std::array<CUstream, kGpus>& shared,
          Done& done) {
  const auto create_stream = hook<&::cuStreamCreate>("cuStreamCreate");
  const auto destroy_stream = hook<&::cuStreamDestroy_v2>("cuStreamDestroy_v2");
  const auto create_event = hook<&::cuEventCreate>("cuEventCreate");
  const auto destroy_event = hook<&::cuEventDestroy_v2>("cuEventDestroy_v2");
  const auto record = hook<&::cuEventRecord>("cuEventRecord");
  const auto launch = hook<&::cuLaunchKernel>("cuLaunchKernel");
  const auto copy = hook<&::cuMemcpyPeerAsync>("cuMemcpyPeerAsync");
  std::mt19937 random(seed);
  std::uint64_t did = 0;
  const auto launch_in = [&](CUstream stream) {
    ++did;
    return launch(nullptr, 1, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr);
  };
  while (did < operations) {
    current = static_cast<int>((static_cast<unsigned>(gpu) + random() % 2) % kGpus);  // back and forth
    const int other = (current + 1 + static_cast<int>(random() % (kGpus - 1))) % kGpus;
    CUstream stream = nullptr;
    CUevent event = nullptr;
    EXPECT_EQ(create_stream(&stream, 0), CUDA_SUCCESS);
    EXPECT_EQ(create_event(&event, 0), CUDA_SUCCESS);
    for (int step = 0; step < 8; ++step) {
      switch (random() % 8) {
        case 0:
          if (launch_in(shared[static_cast<std::size_t>(other)]) != CUDA_SUCCESS) ++done.mixed_launches;
          break;
        case 1:
          if (record(event, shared[static_cast<std::size_t>(other)]) != CUDA_SUCCESS) ++done.mixed_records;
          break;
        case 2: {
          const CUdeviceptr offset = random() % 1000 * 4096;
          ++did;
          if (copy(kMemory + static_cast<unsigned>(current) * kApart + offset, nullptr,
                   kMemory + static_cast<unsigned>(other) * kApart + offset, nullptr, 128,
                   stream) == CUDA_SUCCESS)
            ++done.copies;
          break;
        }
        case 3:
          EXPECT_EQ(record(event, stream), CUDA_SUCCESS);
          break;
        default:
          if (launch_in(stream) == CUDA_SUCCESS) ++done.launches;
      }
    }
    EXPECT_EQ(destroy_event(event), CUDA_SUCCESS);
    EXPECT_EQ(destroy_stream(stream), CUDA_SUCCESS);
  }
}

TEST(EightThreadsOnFourGpus, GiveTheFindingsThatWerePlantedAndNoOther) {
  const char* asked = std::getenv("GPUFENCE_STRESS_OPERATIONS");
  const std::uint64_t operations = asked != nullptr ? std::strtoull(asked, nullptr, 10) : 20'000;
  start();
  ASSERT_NE(owners(), nullptr);
  std::array<CUstream, kGpus> shared{};
  for (current = 0; current < kGpus; ++current)
    ASSERT_EQ(hook<&::cuStreamCreate>("cuStreamCreate")(&shared[static_cast<std::size_t>(current)], 0),
              CUDA_SUCCESS);
  const std::size_t remembered = owners()->size();
  Done done;
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < kThreads; ++i)
    threads.emplace_back(work, static_cast<int>(i) % kGpus, i, operations / kThreads, std::cref(shared),
                         std::ref(done));
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(owners()->size(), remembered);
  std::map<std::string, std::uint64_t> counts = rules().journal->counts();
  EXPECT_GE(done.launches + done.mixed_launches + done.copies, operations / kThreads * kThreads);
  EXPECT_GT(done.mixed_launches, operations / 20);
  EXPECT_EQ(counts,
            (std::map<std::string, std::uint64_t>{
                {"GF203", done.mixed_launches}, {"GF204", done.mixed_records}, {"GF206", done.copies}}));
  observe::Work all;
  for (std::size_t gpu = 0; gpu < kGpus; ++gpu) {
    all.launches += visible()->tally->work(gpu).launches;
    all.copies += visible()->tally->work(gpu).copies;
  }
  EXPECT_EQ(all.launches, done.launches);
  EXPECT_EQ(all.copies, done.copies);
}

}  // namespace
}  // namespace gpufence::hooks
