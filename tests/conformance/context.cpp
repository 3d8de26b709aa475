// Contexts: the stack of a thread, primary contexts, limits, what sticks to a context, peers.
#include <unistd.h>

#include <cstdio>
#include <set>
#include <thread>

#include "driver.h"
#include "kernels.h"

namespace conform {
namespace {

CUcontext current() {
  CUcontext context = nullptr;
  OK(cuCtxGetCurrent(&context));
  return context;
}

CONFORMS(Base, ANewContextSupplantsTheCurrentOne,
         "cuda.h, cuCtxCreate: if a context is already current to the thread, it is supplanted by the newly "
         "created context and may be restored by a subsequent call to cuCtxPopCurrent()") {
  Own first;
  Own second;
  EXPECT_EQ(current(), second.context);
  CUcontext popped = nullptr;
  OK(cuCtxPopCurrent(&popped));
  EXPECT_EQ(popped, second.context);
  EXPECT_EQ(current(), first.context);
}

CONFORMS(
    Base, NoContextIsNoError,
    "cuda.h, cuCtxGetCurrent: if no context is bound to the calling CPU thread then *pctx is set to NULL "
    "and CUDA_SUCCESS is returned") {
  OK(cuInit(0));
  std::thread([] {
    CUcontext context = reinterpret_cast<CUcontext>(1);
    OK(cuCtxGetCurrent(&context));
    EXPECT_EQ(context, nullptr);
  }).join();
}

CONFORMS(
    Base, WorkNeedsAContext,
    "cuda.h, CUDA_ERROR_INVALID_CONTEXT: this most frequently indicates that there is no context bound to "
    "the current thread") {
  OK(cuInit(0));
  std::thread([] {
    CUdevice device = 0;
    CUdeviceptr memory = 0;
    CUstream stream = nullptr;
    size_t free = 0, total = 0;
    EXPECT_EQ(cuCtxGetDevice(&device), CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_EQ(cuCtxSynchronize(), CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_EQ(cuMemAlloc(&memory, 16), CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_EQ(cuStreamCreate(&stream, 0), CUDA_ERROR_INVALID_CONTEXT);
    EXPECT_EQ(cuMemGetInfo(&free, &total), CUDA_ERROR_INVALID_CONTEXT);
  }).join();
}

CONFORMS(Base, PoppingAnEmptyStackIsInvalid,
         "cuda.h, cuCtxPopCurrent: pops the current CUDA context from the CPU thread and passes back the old "
         "context handle; CUDA_ERROR_INVALID_CONTEXT") {
  OK(cuInit(0));
  std::thread([] {
    CUcontext popped = nullptr;
    EXPECT_EQ(cuCtxPopCurrent(&popped), CUDA_ERROR_INVALID_CONTEXT);
  }).join();
}

CONFORMS(Base, SettingReplacesTheTop,
         "cuda.h, cuCtxSetCurrent: if there exists a CUDA context stack on the calling CPU thread, this will "
         "replace the top of that stack with ctx") {
  Own first;
  Own second;
  Own third;
  std::thread([&] {
    OK(cuCtxPushCurrent(first.context));
    OK(cuCtxPushCurrent(second.context));
    OK(cuCtxSetCurrent(third.context));
    EXPECT_EQ(current(), third.context);
    CUcontext popped = nullptr;
    OK(cuCtxPopCurrent(&popped));
    EXPECT_EQ(popped, third.context);
    EXPECT_EQ(current(), first.context);
    OK(cuCtxPopCurrent(&popped));
  }).join();
}

CONFORMS(
    Base, SettingNothingPops,
    "cuda.h, cuCtxSetCurrent: if ctx is NULL then this will be equivalent to popping the top of the calling "
    "CPU thread's CUDA context stack (or a no-op if it is empty)") {
  Own first;
  Own second;
  std::thread([&] {
    OK(cuCtxSetCurrent(nullptr));
    OK(cuCtxPushCurrent(first.context));
    OK(cuCtxPushCurrent(second.context));
    OK(cuCtxSetCurrent(nullptr));
    EXPECT_EQ(current(), first.context);
    OK(cuCtxSetCurrent(nullptr));
    EXPECT_EQ(current(), nullptr);
  }).join();
}

CONFORMS(
    Base, DestroyingTheCurrentContextPopsIt,
    "cuda.h, cuCtxDestroy: if ctx is current to the calling thread then ctx will also be popped from the "
    "current thread's context stack (as though cuCtxPopCurrent() were called)") {
  Own below;
  CUcontext doomed = nullptr;
  OK(cuCtxCreate(&doomed, nullptr, 0, 0));
  EXPECT_EQ(current(), doomed);
  OK(cuCtxDestroy(doomed));
  EXPECT_EQ(current(), below.context);
}

CONFORMS(Base, ADestroyedContextStaysCurrentElsewhere,
         "cuda.h, cuCtxDestroy: if ctx is current to other threads, then ctx will remain current to those "
         "threads, "
         "and attempting to access ctx from those threads will result in the error "
         "CUDA_ERROR_CONTEXT_IS_DESTROYED") {
  OK(cuInit(0));
  CUcontext doomed = nullptr;
  OK(cuCtxCreate(&doomed, nullptr, 0, 0));
  OK(cuCtxPopCurrent(&doomed));
  std::thread([&] {
    OK(cuCtxPushCurrent(doomed));
    std::thread([&] { OK(cuCtxDestroy(doomed)); }).join();
    CUdeviceptr memory = 0;
    EXPECT_EQ(cuMemAlloc(&memory, 16), CUDA_ERROR_CONTEXT_IS_DESTROYED);
  }).join();
}

CONFORMS(Base, ContextsTakeTheirMemoryWithThem,
         "cuda.h, cuCtxDestroy: destroys and cleans up all resources associated with the context") {
  Primary here;
  size_t before = 0, during = 0, after = 0, total = 0;
  OK(cuMemGetInfo(&before, &total));
  {
    Own context;
    CUdeviceptr memory = 0;
    OK(cuMemAlloc(&memory, 256 * kMiB));
    OK(cuMemGetInfo(&during, &total));
  }
  OK(cuMemGetInfo(&after, &total));
  EXPECT_LE(during + 256 * kMiB, before);
  EXPECT_GE(after + 64 * kMiB, before);  // a driver may keep something of its own
}

CONFORMS(
    Base, PrimaryContextIsOne,
    "cuda.h, cuDevicePrimaryCtxRetain: retains the primary context on the device; once the user successfully "
    "retains the primary context, it will be active and available") {
  Primary here;
  CUcontext again = nullptr;
  OK(cuDevicePrimaryCtxRetain(&again, here.device));
  EXPECT_EQ(again, here.context);
  unsigned flags = 0;
  int active = 0;
  OK(cuDevicePrimaryCtxGetState(here.device, &flags, &active));
  EXPECT_EQ(active, 1);
  OK(cuDevicePrimaryCtxRelease(here.device));
}

CONFORMS(
    Base, RetainingDoesNotMakeCurrent,
    "cuda.h, cuDevicePrimaryCtxRetain: unlike cuCtxCreate() the newly retained context is not pushed onto "
    "the stack") {
  Primary here;
  std::thread([&] {
    CUcontext context = nullptr;
    OK(cuDevicePrimaryCtxRetain(&context, here.device));
    EXPECT_EQ(current(), nullptr);
    OK(cuDevicePrimaryCtxRelease(here.device));
  }).join();
}

CONFORMS_ALONE(
    Base, PrimaryContextEndsWithItsLastReference,
    "cuda.h, cuDevicePrimaryCtxRelease: the context is automatically reset once the last reference to "
    "it is released") {
  OK(cuInit(0));
  unsigned flags = 0;
  int active = -1;
  const auto state = [&] {
    OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
    return active;
  };
  EXPECT_EQ(state(), 0);
  CUcontext context = nullptr;
  OK(cuDevicePrimaryCtxRetain(&context, 0));
  OK(cuDevicePrimaryCtxRetain(&context, 0));
  OK(cuDevicePrimaryCtxRelease(0));
  EXPECT_EQ(state(), 1);
  OK(cuDevicePrimaryCtxRelease(0));
  EXPECT_EQ(state(), 0);
}

CONFORMS_ALONE(
    Base, ReleasingWhatNobodyRetainedIsInvalid,
    "cuda.h, cuDevicePrimaryCtxRelease: releasing a primary context that has not been previously retained "
    "will fail with CUDA_ERROR_INVALID_CONTEXT") {
  OK(cuInit(0));
  EXPECT_EQ(cuDevicePrimaryCtxRelease(0), CUDA_ERROR_INVALID_CONTEXT);
}

CONFORMS_ALONE(
    Base, ResetDoesNotRelease,
    "cuda.h, cuDevicePrimaryCtxReset: resetting the primary context does not release it, an application "
    "that has retained the primary context should explicitly release its usage") {
  OK(cuInit(0));
  CUcontext context = nullptr;
  OK(cuDevicePrimaryCtxRetain(&context, 0));
  OK(cuDevicePrimaryCtxReset(0));
  OK(cuDevicePrimaryCtxRelease(0));
  EXPECT_EQ(cuDevicePrimaryCtxRelease(0), CUDA_ERROR_INVALID_CONTEXT);
}

CONFORMS_ALONE(
    Base, PrimaryContextHasTheFlagsSet,
    "cuda.h, cuDevicePrimaryCtxSetFlags: sets the flags for the primary context on the device overwriting "
    "previously set ones; cuDevicePrimaryCtxGetState returns them") {
  OK(cuInit(0));
  OK(cuDevicePrimaryCtxSetFlags(0, CU_CTX_SCHED_YIELD));
  OK(cuDevicePrimaryCtxSetFlags(0, CU_CTX_SCHED_BLOCKING_SYNC));
  unsigned flags = 0;
  int active = -1;
  OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
  EXPECT_EQ(flags & CU_CTX_SCHED_MASK, CU_CTX_SCHED_BLOCKING_SYNC);
  EXPECT_EQ(cuDevicePrimaryCtxSetFlags(0, CU_CTX_SCHED_YIELD | CU_CTX_SCHED_SPIN), CUDA_ERROR_INVALID_VALUE);
}

CONFORMS(
    Base, FlagsOfAContextCanBeRead,
    "cuda.h, cuCtxGetFlags: returns in *flags the flags of the current context; see cuCtxCreate for flag "
    "values") {
  Own context(CU_CTX_SCHED_BLOCKING_SYNC);
  unsigned flags = 0;
  OK(cuCtxGetFlags(&flags));
  EXPECT_EQ(flags & CU_CTX_SCHED_MASK, CU_CTX_SCHED_BLOCKING_SYNC);
}

CONFORMS(
    Base, ContextsHaveIds,
    "cuda.h, cuCtxGetId: the Id is unique for the life of the program; if context is supplied as NULL and "
    "there is one current, the Id of the current context is returned") {
  std::set<unsigned long long> ids;
  for (int i = 0; i < 3; ++i) {
    Own context;
    unsigned long long id = 0, of_current = 0;
    OK(cuCtxGetId(context.context, &id));
    OK(cuCtxGetId(nullptr, &of_current));
    EXPECT_EQ(id, of_current);
    EXPECT_TRUE(ids.insert(id).second);
  }
}

CONFORMS(Base, AContextTellsItsDevice,
         "cuda.h, cuCtxGetDevice_v2: the handle of the specified context's device; if the specified context "
         "is NULL, "
         "the API will return the current context's device") {
  OK(cuInit(0));
  NEEDS(devices() >= 2, "two GPUs");
  Primary first(0);
  Primary second(1);
  CUdevice device = -1;
  OK(cuCtxGetDevice_v2(&device, first.context));
  EXPECT_EQ(device, 0);
  OK(cuCtxGetDevice_v2(&device, nullptr));
  EXPECT_EQ(device, 1);
}

CONFORMS(Base, LimitsHoldAtLeastWhatWasAsked,
         "cuda.h, cuCtxSetLimit: the driver is free to modify the requested value; the application can use "
         "cuCtxGetLimit() to find out exactly what the limit has been set to") {
  Own context;
  size_t before = 0, after = 0;
  OK(cuCtxGetLimit(&before, CU_LIMIT_STACK_SIZE));
  OK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 4096));
  OK(cuCtxGetLimit(&after, CU_LIMIT_STACK_SIZE));
  EXPECT_GE(after, 4096u);
  EXPECT_GT(before, 0u);
  EXPECT_NE(cuCtxGetLimit(&after, static_cast<CUlimit>(100)), CUDA_SUCCESS);
}

CONFORMS(Base, SyncDepthIsNoLimitOfLaterGpus,
         "cuda.h, cuCtxSetLimit: CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH is only applicable to devices of compute "
         "capability "
         "< 9.0; on others CUDA_ERROR_UNSUPPORTED_LIMIT is returned") {
  Own context;
  NEEDS(attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) >= 9, "compute capability 9.0");
  EXPECT_EQ(cuCtxSetLimit(CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH, 2), CUDA_ERROR_UNSUPPORTED_LIMIT);
}

CONFORMS_ALONE(Base, AFaultSticks,
               "cuda.h, CUDA_ERROR_ILLEGAL_ADDRESS: a load or store instruction on an invalid memory "
               "address; this leaves "
               "the process in an inconsistent state and any further CUDA work will return the same error") {
  Own context;
  CUmodule module = nullptr;
  OK(cuModuleLoadData(&module, kKernels));
  CUfunction astray = nullptr;
  OK(cuModuleGetFunction(&astray, module, "astray"));
  OK(launch(astray, 1, nullptr));
  EXPECT_EQ(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
  CUdeviceptr memory = 0;
  EXPECT_EQ(cuCtxSynchronize(), CUDA_ERROR_ILLEGAL_ADDRESS);
  EXPECT_EQ(cuMemAlloc(&memory, 16), CUDA_ERROR_ILLEGAL_ADDRESS);
  context.context = nullptr;
  fflush(nullptr);
  _exit(testing::Test::HasFailure() ? 1 : 0);  // its end is not what is checked
}

CONFORMS(Base, PeersAreOpenedOnce,
         "cuda.h, cuCtxEnablePeerAccess: CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED if direct access of "
         "peerContext from the "
         "current context has already been enabled; cuCtxDisablePeerAccess: "
         "CUDA_ERROR_PEER_ACCESS_NOT_ENABLED if not yet") {
  OK(cuInit(0));
  NEEDS(peers(), "two GPUs that are peers");
  Own there(0, 1);
  Own here;
  EXPECT_EQ(cuCtxDisablePeerAccess(there.context), CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
  OK(cuCtxEnablePeerAccess(there.context, 0));
  EXPECT_EQ(cuCtxEnablePeerAccess(there.context, 0), CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
  OK(cuCtxDisablePeerAccess(there.context));
  EXPECT_EQ(cuCtxDisablePeerAccess(there.context), CUDA_ERROR_PEER_ACCESS_NOT_ENABLED);
}

CONFORMS(
    Base, NoContextIsItsOwnPeer,
    "cuda.h, cuCtxEnablePeerAccess: CUDA_ERROR_INVALID_CONTEXT if there is no current context, peerContext "
    "is not a "
    "valid context, or if the current context is peerContext; CUDA_ERROR_INVALID_VALUE if Flags is not 0") {
  OK(cuInit(0));
  NEEDS(peers(), "two GPUs that are peers");
  Own there(0, 1);
  Own here;
  EXPECT_EQ(cuCtxEnablePeerAccess(here.context, 0), CUDA_ERROR_INVALID_CONTEXT);
  EXPECT_EQ(cuCtxEnablePeerAccess(there.context, 1), CUDA_ERROR_INVALID_VALUE);
}

CONFORMS(Base, PeersReadEachOthersMemory,
         "cuda.h, cuCtxEnablePeerAccess: on success all allocations from peerContext will immediately be "
         "accessible by "
         "the current context") {
  OK(cuInit(0));
  NEEDS(peers(), "two GPUs that are peers");
  Own there(0, 1);
  Memory theirs(64 * 4);
  theirs.write(std::vector<uint32_t>(64, 5));
  {
    Own here;
    OK(cuCtxEnablePeerAccess(there.context, 0));
    Module module(kKernels);
    Memory ours(64 * 4);
    OK(launch(module["scale"], 64, nullptr, CUdeviceptr{ours}, CUdeviceptr{theirs}));
    OK(cuCtxSynchronize());
    EXPECT_EQ(ours.read(), std::vector<uint32_t>(64, 5 * 3 + 7));
  }
}

CONFORMS(
    Base, CopiesBetweenContextsNeedNoPeers,
    "cuda.h, cuMemcpyPeer: copies from device memory in one context to device memory in another context") {
  OK(cuInit(0));
  NEEDS(devices() >= 2, "two GPUs");
  Own there(0, 1);
  Memory theirs(4096);
  theirs.write(std::vector<uint32_t>(1024, 9));
  {
    Own here;
    Memory ours(4096);
    OK(cuMemcpyPeer(ours, here.context, theirs, there.context, 4096));
    OK(cuCtxSynchronize());
    EXPECT_EQ(ours.read(), std::vector<uint32_t>(1024, 9));
  }
}

}  // namespace
}  // namespace conform
