// Modules, libraries, functions and launches.
#include <algorithm>
#include <cstring>

#include "driver.h"
#include "kernels.h"

namespace conform {
namespace {

CONFORMS(Base, AMissingFunctionIsNotFound,
         "cuda.h, cuModuleGetFunction: if no function of that name exists, returns CUDA_ERROR_NOT_FOUND") {
  Primary here;
  Module module(kKernels);
  CUfunction function = nullptr;
  EXPECT_EQ(cuModuleGetFunction(&function, module, "no_such_kernel"), CUDA_ERROR_NOT_FOUND);
  OK(cuModuleGetFunction(&function, module, "fill"));
}

CONFORMS(Base, WhatIsNoPtxIsRefused,
         "cuda.h, cuModuleLoadData: CUDA_ERROR_INVALID_PTX; CUDA_ERROR_INVALID_PTX: a PTX JIT compilation "
         "failed") {
  Primary here;
  CUmodule module = nullptr;
  EXPECT_EQ(cuModuleLoadData(&module,
                             ".version 6.5\n.target sm_75\n.address_size 64\n"
                             ".visible .entry broken() { no_such_instruction; }\n"),
            CUDA_ERROR_INVALID_PTX);
}

CONFORMS(
    Base, GlobalsHaveTheirInitialValues,
    "cuda.h, cuModuleGetGlobal: the base pointer and size of the global; one of dptr or bytes can be NULL; "
    "CUDA_ERROR_NOT_FOUND if no variable of that name exists") {
  Primary here;
  Module module(kKernels);
  CUdeviceptr address = 0, only = 0;
  size_t bytes = 0, alone = 0;
  OK(cuModuleGetGlobal(&address, &bytes, module, "counter"));
  EXPECT_EQ(bytes, 4u);
  EXPECT_EQ(word_at(address), 7u);
  OK(cuModuleGetGlobal(&only, nullptr, module, "counter"));
  EXPECT_EQ(only, address);
  OK(cuModuleGetGlobal(nullptr, &alone, module, "counter"));
  EXPECT_EQ(alone, 4u);
  EXPECT_EQ(cuModuleGetGlobal(&address, &bytes, module, "no_such_global"), CUDA_ERROR_NOT_FOUND);
}

CONFORMS(Base, EachModuleHasItsGlobals,
         "cuda.h, cuModuleLoadData: loads the corresponding module into the current context, with globals of "
         "its own") {
  Primary here;
  Module first(kKernels), second(kKernels);
  CUdeviceptr one = 0, other = 0;
  OK(cuModuleGetGlobal(&one, nullptr, first, "counter"));
  OK(cuModuleGetGlobal(&other, nullptr, second, "counter"));
  EXPECT_NE(one, other);
  OK(cuMemsetD32(one, 100, 1));
  EXPECT_EQ(word_at(other), 7u);
}

CONFORMS(Base, KernelsReadWhatWasWrittenToGlobals,
         "CUDA C++ Programming Guide, Variable Memory Space Specifiers, __device__ and __constant__: "
         "accessible from all the "
         "threads within the grid and from the host") {
  Primary here;
  Module module(kKernels);
  CUdeviceptr counter = 0, factor = 0;
  OK(cuModuleGetGlobal(&counter, nullptr, module, "counter"));
  OK(cuModuleGetGlobal(&factor, nullptr, module, "factor"));
  OK(cuMemsetD32(counter, 1000, 1));
  OK(cuMemsetD32(factor, 2, 1));
  Memory words(32 * 4);
  words.write(std::vector<uint32_t>(32, 4));
  OK(launch(module["scale"], 32, nullptr, CUdeviceptr{words}, CUdeviceptr{words}));
  EXPECT_EQ(words.read(), std::vector<uint32_t>(32, 1008));
}

CONFORMS(Base, ModulesListTheirFunctions,
         "cuda.h, cuModuleEnumerateFunctions: a maximum number of numFunctions function handles within mod; "
         "cuModuleGetFunctionCount: the number of functions in mod") {
  Primary here;
  Module module(kKernels);
  unsigned count = 0;
  OK(cuModuleGetFunctionCount(&count, module));
  EXPECT_EQ(count, 9u);
  std::vector<CUfunction> functions(count);
  OK(cuModuleEnumerateFunctions(functions.data(), count, module));
  std::vector<std::string> names;
  for (const CUfunction function : functions) {
    const char* name = nullptr;
    OK(cuFuncGetName(&name, function));
    names.emplace_back(name == nullptr ? "" : name);
  }
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names, (std::vector<std::string>{"astray", "at_most_64", "count", "dynamic", "extents", "fill",
                                             "scale", "several", "statically_shared"}));
}

CONFORMS(Base, FunctionsKnowTheirModule,
         "cuda.h, cuFuncGetModule: the handle of the module that function hfunc is located in") {
  Primary here;
  Module first(kKernels), second(kKernels);
  CUmodule module = nullptr;
  OK(cuFuncGetModule(&module, second["fill"]));
  EXPECT_EQ(module, static_cast<CUmodule>(second));
}

CONFORMS(Base, NamesNeedAFunction,
         "cuda.h, cuFuncGetName: if either **name or hfunc is NULL, CUDA_ERROR_INVALID_VALUE is returned") {
  Primary here;
  Module module(kKernels);
  const char* name = nullptr;
  EXPECT_EQ(cuFuncGetName(&name, nullptr), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuFuncGetName(nullptr, module["fill"]), CUDA_ERROR_INVALID_VALUE);
}

CONFORMS(Base, ParametersHaveOffsets,
         "cuda.h, cuFuncGetParamInfo: the offset and size where the parameter will reside in the device-side "
         "parameter layout; "
         "paramIndex must be less than the number of parameters; paramSize can be NULL") {
  Primary here;
  Module module(kKernels);
  const CUfunction several = module["several"];
  const size_t offsets[] = {0, 8, 16, 20}, sizes[] = {1, 8, 2, 4};
  for (size_t i = 0; i < 4; ++i) {
    size_t offset = 99, size = 99;
    OK(cuFuncGetParamInfo(several, i, &offset, &size));
    EXPECT_EQ(offset, offsets[i]);
    EXPECT_EQ(size, sizes[i]);
    OK(cuFuncGetParamInfo(several, i, &offset, nullptr));
  }
  size_t offset = 0;
  EXPECT_EQ(cuFuncGetParamInfo(several, 4, &offset, nullptr), CUDA_ERROR_INVALID_VALUE);
}

CONFORMS(Base, ParametersMayComeInABuffer,
         "cuda.h, cuLaunchKernel: kernel parameters can also be packaged by the application into a single "
         "buffer that is passed in "
         "via the extra parameter") {
  Primary here;
  Module module(kKernels);
  Memory word(4);
  unsigned char buffer[24] = {};
  const CUdeviceptr address = word;
  const uint16_t b = 200;
  const uint32_t c = 3000;
  buffer[0] = 10;
  memcpy(buffer + 8, &address, 8);
  memcpy(buffer + 16, &b, 2);
  memcpy(buffer + 20, &c, 4);
  size_t size = sizeof buffer;
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, buffer, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                   CU_LAUNCH_PARAM_END};
  OK(cuLaunchKernel(module["several"], 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, extra));
  EXPECT_EQ(word_at(word), 3210u);
}

CONFORMS(Base, ParametersComeInOneWay,
         "cuda.h, cuLaunchKernel: CUDA_ERROR_INVALID_VALUE will be returned if kernel parameters are "
         "specified with both "
         "kernelParams and extra") {
  Primary here;
  Module module(kKernels);
  Memory word(4);
  CUdeviceptr address = word;
  size_t size = sizeof address;
  void* parameters[] = {&address};
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &address, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                   CU_LAUNCH_PARAM_END};
  EXPECT_EQ(cuLaunchKernel(module["count"], 1, 1, 1, 1, 1, 1, 0, nullptr, parameters, extra),
            CUDA_ERROR_INVALID_VALUE);
}

CONFORMS(Base, EveryThreadOfTheGridRuns,
         "cuda.h, cuLaunchKernel: invokes f on a gridDimX x gridDimY x gridDimZ grid of blocks; each block "
         "contains blockDimX x "
         "blockDimY x blockDimZ threads") {
  Primary here;
  Module module(kKernels);
  Memory count(4), extents(6 * 4);
  OK(cuMemsetD32(count, 0, 1));
  CUdeviceptr address = count;
  void* parameters[] = {&address};
  OK(cuLaunchKernel(module["count"], 3, 4, 5, 6, 7, 2, 0, nullptr, parameters, nullptr));
  EXPECT_EQ(word_at(count), 3u * 4 * 5 * 6 * 7 * 2);
  address = extents;
  OK(cuLaunchKernel(module["extents"], 3, 4, 5, 6, 7, 2, 0, nullptr, parameters, nullptr));
  EXPECT_EQ(extents.read(), (std::vector<uint32_t>{3, 4, 5, 6, 7, 2}));
}

CONFORMS(Base, LaunchesKeepToTheDevicesLimits,
         "cuda.h, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK: the maximum number of threads per block, beyond "
         "which a launch of the "
         "function would fail; cuLaunchKernel: CUDA_ERROR_INVALID_VALUE") {
  Primary here;
  Module module(kKernels);
  Memory word(4);
  const CUfunction count = module["count"];
  EXPECT_EQ(launch(count, 1025, nullptr, CUdeviceptr{word}), CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(launch(count, 0, nullptr, CUdeviceptr{word}), CUDA_ERROR_INVALID_VALUE);
  CUdeviceptr address = word;
  void* parameters[] = {&address};
  EXPECT_EQ(cuLaunchKernel(count, 1, 65536, 1, 1, 1, 1, 0, nullptr, parameters, nullptr),
            CUDA_ERROR_INVALID_VALUE);
  EXPECT_EQ(cuLaunchKernel(count, 0, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr),
            CUDA_ERROR_INVALID_VALUE);
}

CONFORMS(Base, AFunctionMayAllowFewerThreads,
         "cuda.h, cuFuncGetAttribute: CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK depends on both the function "
         "and the device; PTX ISA, "
         ".maxntid: a launch with more threads fails") {
  Primary here;
  Module module(kKernels);
  const CUfunction function = module["at_most_64"];
  int most = 0;
  OK(cuFuncGetAttribute(&most, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function));
  EXPECT_EQ(most, 64);
  OK(cuLaunchKernel(function, 1, 1, 1, 64, 1, 1, 0, nullptr, nullptr, nullptr));
  EXPECT_NE(cuLaunchKernel(function, 1, 1, 1, 65, 1, 1, 0, nullptr, nullptr, nullptr), CUDA_SUCCESS);
}

CONFORMS(Base, DynamicSharedMemoryIsPerBlock,
         "cuda.h, cuLaunchKernel: sharedMemBytes sets the amount of dynamic shared memory that will be "
         "available to each thread block") {
  Primary here;
  Module module(kKernels);
  Memory word(4);
  CUdeviceptr address = word;
  void* parameters[] = {&address};
  OK(cuLaunchKernel(module["dynamic"], 1, 1, 1, 1, 1, 1, 4096, nullptr, parameters, nullptr));
  EXPECT_EQ(word_at(word), 4096u);
}

CONFORMS(Base, MoreThan48KiBOfSharedMemoryIsOptedIn,
         "CUDA C++ Programming Guide, Shared Memory: kernels relying on shared memory allocations over 48 KB "
         "per block must use dynamic "
         "shared memory and require an explicit opt-in; cuda.h, cuFuncSetAttribute") {
  Primary here;
  NEEDS(attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN) >= 60 * 1024,
        "60 KiB of shared memory a block");
  EXPECT_EQ(attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK), 48 * 1024);
  Module module(kKernels);
  const CUfunction function = module["dynamic"];
  Memory word(4);
  CUdeviceptr address = word;
  void* parameters[] = {&address};
  EXPECT_EQ(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 60 * 1024, nullptr, parameters, nullptr),
            CUDA_ERROR_INVALID_VALUE);
  OK(cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 60 * 1024));
  OK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 60 * 1024, nullptr, parameters, nullptr));
  EXPECT_EQ(word_at(word), 60u * 1024);
}

CONFORMS(Base, OptedInMemoryHasABound,
         "cuda.h, cuFuncSetAttribute: the sum of this value and CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES cannot "
         "exceed the device attribute "
         "CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN") {
  Primary here;
  Module module(kKernels);
  const CUfunction function = module["statically_shared"];
  const int bound = attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
  int fixed = 0;
  OK(cuFuncGetAttribute(&fixed, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, function));
  EXPECT_EQ(fixed, 1024);
  EXPECT_EQ(cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, bound),
            CUDA_ERROR_INVALID_VALUE);
  OK(cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, bound - 1024));
}

CONFORMS(
    Base, SomeAttributesAreReadOnly,
    "cuda.h, cuFuncSetAttribute: attempting to set a value on a read-only attribute will result in an error "
    "(CUDA_ERROR_INVALID_VALUE)") {
  Primary here;
  Module module(kKernels);
  EXPECT_EQ(cuFuncSetAttribute(module["fill"], CU_FUNC_ATTRIBUTE_NUM_REGS, 16), CUDA_ERROR_INVALID_VALUE);
}

CONFORMS(Base, LibrariesBelongToNoContext,
         "cuda.h, cuLibraryLoadData: loads into all contexts; cuLaunchKernel: context-less CUkernel by "
         "casting to CUfunction, the "
         "context taken from the stream or the current context in case of NULL stream") {
  OK(cuInit(0));
  CUlibrary library = nullptr;
  OK(cuLibraryLoadData(&library, kKernels, nullptr, nullptr, 0, nullptr, nullptr, 0));
  CUkernel fill = nullptr, missing = nullptr;
  OK(cuLibraryGetKernel(&fill, library, "fill"));
  EXPECT_EQ(cuLibraryGetKernel(&missing, library, "no_such_kernel"), CUDA_ERROR_NOT_FOUND);
  for (int device = 0; device < devices(); ++device) {
    if (attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device) < 8 && device > 0)
      continue;  // kernels.h is for 7.5
    Primary here(device);
    Memory word(4);
    OK(launch(reinterpret_cast<CUfunction>(fill), 1, nullptr, CUdeviceptr{word},
              40u + static_cast<unsigned>(device)));
    EXPECT_EQ(word_at(word), 40u + static_cast<unsigned>(device));
  }
  OK(cuLibraryUnload(library));
}

CONFORMS(Base, KernelsHaveAFunctionPerContext,
         "cuda.h, cuKernelGetFunction: the handle of the function for the requested kernel and the current "
         "context") {
  OK(cuInit(0));
  CUlibrary library = nullptr;
  OK(cuLibraryLoadData(&library, kKernels, nullptr, nullptr, 0, nullptr, nullptr, 0));
  CUkernel count = nullptr;
  OK(cuLibraryGetKernel(&count, library, "count"));
  CUfunction first = nullptr, second = nullptr;
  {
    Own one;
    OK(cuKernelGetFunction(&first, count));
    Own other;
    OK(cuKernelGetFunction(&second, count));
    EXPECT_NE(first, second);
  }
  OK(cuLibraryUnload(library));
}

CONFORMS(Base, GlobalsOfALibraryAreOfTheCurrentContext,
         "cuda.h, cuLibraryGetGlobal: the base pointer and size of the global for the requested library and "
         "the current context; "
         "CUDA_ERROR_NOT_FOUND if there is none") {
  OK(cuInit(0));
  CUlibrary library = nullptr;
  OK(cuLibraryLoadData(&library, kKernels, nullptr, nullptr, 0, nullptr, nullptr, 0));
  {
    Own one;
    CUdeviceptr mine = 0, theirs = 0, missing = 0;
    size_t bytes = 0;
    OK(cuLibraryGetGlobal(&mine, &bytes, library, "counter"));
    EXPECT_EQ(bytes, 4u);
    OK(cuMemsetD32(mine, 55, 1));
    EXPECT_EQ(cuLibraryGetGlobal(&missing, &bytes, library, "no_such_global"), CUDA_ERROR_NOT_FOUND);
    Own other;
    OK(cuLibraryGetGlobal(&theirs, &bytes, library, "counter"));
    EXPECT_EQ(word_at(theirs), 7u);
  }
  OK(cuLibraryUnload(library));
}

CONFORMS(Base, ModulesOfLibrariesAreNotUnloaded,
         "cuda.h, cuModuleUnload: attempting to unload a module which was obtained from the Library "
         "Management API such as "
         "cuLibraryGetModule will return CUDA_ERROR_NOT_PERMITTED") {
  Primary here;
  CUlibrary library = nullptr;
  OK(cuLibraryLoadData(&library, kKernels, nullptr, nullptr, 0, nullptr, nullptr, 0));
  CUmodule module = nullptr;
  OK(cuLibraryGetModule(&module, library));
  EXPECT_EQ(cuModuleUnload(module), CUDA_ERROR_NOT_PERMITTED);
  OK(cuLibraryUnload(library));
}

CONFORMS(Base, AKernelIsOfItsStreamsContext,
         "cuda.h, cuLaunchKernelEx: the CUDA context associated with this stream must match that associated "
         "with function f") {
  Own first;
  Stream stream;
  {
    Own second;
    Module module(kKernels);
    Memory word(4);
    CUdeviceptr address = word;
    void* parameters[] = {&address};
    CUlaunchConfig config{};
    config.gridDimX = config.gridDimY = config.gridDimZ = config.blockDimX = config.blockDimY =
        config.blockDimZ = 1;
    config.hStream = stream;
    EXPECT_NE(cuLaunchKernelEx(&config, module["count"], parameters, nullptr), CUDA_SUCCESS);
    config.hStream = nullptr;
    OK(cuLaunchKernelEx(&config, module["count"], parameters, nullptr));
    OK(cuCtxSynchronize());
  }
}

}  // namespace
}  // namespace conform
