// What nvcc's host code calls before main: it registers its fatbins, kernels and variables, and configures
// launches. Nothing of it starts the runtime, as with the genuine one: a fatbin is loaded when a kernel or
// variable of it is first used.
#include <vector_types.h>

#include <atomic>
#include <map>
#include <mutex>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "tests/sim/runtime/program.h"

namespace gpufence::sim::runtime {
namespace {

struct Program;

struct Kernel {
  Program* program;
  std::string name;
  std::atomic<CUkernel> handle{nullptr};
};

struct Variable {
  Program* program = nullptr;
  std::string name;
  size_t bytes = 0;
  void** managed = nullptr;  // the host variable that the managed memory's address goes to
};

struct Program {
  const void* wrapper = nullptr;
  CUlibrary library = nullptr;
  std::vector<const void*> kernels, variables;  // keys in the registry
  bool managed_ready = false;
};

// Leaked: programs unregister from exit handlers.
struct Registry {
  std::mutex lock;
  std::unordered_set<Program*> programs;
  std::unordered_map<const void*, Kernel*> kernels;  // by host function
  std::unordered_set<const void*> handles;  // those Kernels themselves, as __cudaGetKernel hands them out
  std::unordered_map<const void*, Variable> variables;  // by host variable
};

Registry& registry() {
  static Registry& made = *new Registry;
  return made;
}

// With the registry's lock held.
CUresult load(const Driver& driver, Program& program) {
  if (program.library != nullptr) return CUDA_SUCCESS;
  return driver.cuLibraryLoadData(&program.library, program.wrapper, nullptr, nullptr, 0, nullptr, nullptr,
                                  0);
}

CUresult fill_managed(const Driver& driver, Program& program) {
  if (program.managed_ready) return CUDA_SUCCESS;
  for (const void* key : program.variables) {
    const Variable& variable = registry().variables[key];
    if (variable.managed == nullptr) continue;
    CUdeviceptr address = 0;
    const CUresult got =
        driver.cuLibraryGetManaged(&address, nullptr, program.library, variable.name.c_str());
    if (got != CUDA_SUCCESS) return got;
    *variable.managed = reinterpret_cast<void*>(address);
  }
  program.managed_ready = true;
  return CUDA_SUCCESS;
}

// A context must be current.
cudaError_t use(const Driver& driver, Program& program) {
  CUresult got = load(driver, program);
  if (got == CUDA_SUCCESS) got = fill_managed(driver, program);
  return from_driver(got);
}

void unload(const Driver& driver, Program& program) {
  if (program.library != nullptr) driver.cuLibraryUnload(program.library);
  program.library = nullptr;
  program.managed_ready = false;
  for (const void* key : program.kernels)
    if (auto it = registry().kernels.find(key); it != registry().kernels.end()) it->second->handle = nullptr;
}

Program* program_of(void** handle) {
  auto* program = reinterpret_cast<Program*>(handle);
  return registry().programs.count(program) != 0 ? program : nullptr;
}

struct LaunchConfiguration {
  dim3 grid{};
  dim3 block{};
  size_t shared = 0;
  cudaStream_t stream = nullptr;
};

// kernel<<<…>>> pushes and the host stub it calls pops; arguments that launch kernels themselves nest.
constexpr int kDeepest = 16;
constinit thread_local LaunchConfiguration configured[kDeepest];
constinit thread_local int depth = 0;

}  // namespace

cudaError_t find_kernel(const Driver& driver, const void* function, CUkernel* kernel) {
  std::lock_guard<std::mutex> held(registry().lock);
  Kernel* known = nullptr;
  if (registry().handles.count(function) != 0)
    known = static_cast<Kernel*>(const_cast<void*>(function));
  else if (auto it = registry().kernels.find(function); it != registry().kernels.end())
    known = it->second;
  if (known == nullptr) {
    *kernel = static_cast<CUkernel>(const_cast<void*>(function));
    CUlibrary library = nullptr;
    return driver.cuKernelGetLibrary(&library, *kernel) == CUDA_SUCCESS ? cudaSuccess
                                                                        : cudaErrorInvalidDeviceFunction;
  }
  *kernel = known->handle.load(std::memory_order_relaxed);
  if (*kernel != nullptr) return cudaSuccess;
  if (const cudaError_t used = use(driver, *known->program); used != cudaSuccess) return used;
  const CUresult got = driver.cuLibraryGetKernel(kernel, known->program->library, known->name.c_str());
  if (got == CUDA_ERROR_NOT_FOUND) return cudaErrorInvalidDeviceFunction;
  if (got == CUDA_SUCCESS) known->handle.store(*kernel, std::memory_order_relaxed);
  return from_driver(got);
}

void* known_as(CUkernel kernel) {
  std::lock_guard<std::mutex> held(registry().lock);
  for (const auto& [host, known] : registry().kernels)
    if (known->handle.load(std::memory_order_relaxed) == kernel) return const_cast<void*>(host);
  return kernel;
}

cudaError_t find_symbol(const Driver& driver, const void* symbol, CUdeviceptr* address, size_t* bytes) {
  std::lock_guard<std::mutex> held(registry().lock);
  auto it = registry().variables.find(symbol);
  // Of a managed variable programs name what it points to.
  if (it == registry().variables.end())
    for (auto known = registry().variables.begin(); known != registry().variables.end(); ++known)
      if (known->second.managed != nullptr && *known->second.managed == symbol) it = known;
  if (symbol == nullptr || it == registry().variables.end()) return cudaErrorInvalidSymbol;
  const Variable& variable = it->second;
  if (const cudaError_t used = use(driver, *variable.program); used != cudaSuccess) return used;
  const CUresult got =
      driver.cuLibraryGetGlobal(address, bytes, variable.program->library, variable.name.c_str());
  return got == CUDA_ERROR_NOT_FOUND ? cudaErrorInvalidSymbol : from_driver(got);
}

void load_programs(const Driver& driver) {
  std::lock_guard<std::mutex> held(registry().lock);
  for (Program* program : registry().programs) (void)load(driver, *program);
}

void unload_programs(const Driver& driver) {
  std::lock_guard<std::mutex> held(registry().lock);
  for (Program* program : registry().programs) unload(driver, *program);
}

}  // namespace gpufence::sim::runtime

using namespace gpufence::sim::runtime;

// crt/host_runtime.h declares these for nvcc alone.
extern "C" {

GPUFENCE_SIM_RUNTIME_EXPORT void** __cudaRegisterFatBinary(void* fatbin) {
  auto* program = new Program;
  program->wrapper = fatbin;
  std::lock_guard<std::mutex> held(registry().lock);
  registry().programs.insert(program);
  return reinterpret_cast<void**>(program);
}

GPUFENCE_SIM_RUNTIME_EXPORT void __cudaRegisterFatBinaryEnd(void**) {}

// When a program ends, or a library with kernels is closed.
GPUFENCE_SIM_RUNTIME_EXPORT void __cudaUnregisterFatBinary(void** handle) {
  Program* program = nullptr;
  bool loaded = false;
  {
    std::lock_guard<std::mutex> held(registry().lock);
    program = program_of(handle);
    if (program == nullptr) return;
    loaded = program->library != nullptr;
  }
  // Only a runtime that started has loaded anything.
  const Driver* driver = loaded ? &Runtime::get().driver() : nullptr;
  std::lock_guard<std::mutex> held(registry().lock);
  if (driver != nullptr) unload(*driver, *program);
  for (const void* key : program->kernels) {
    auto it = registry().kernels.find(key);
    if (it == registry().kernels.end() || it->second->program != program) continue;
    registry().handles.erase(it->second);
    delete it->second;
    registry().kernels.erase(it);
  }
  for (const void* key : program->variables) {
    auto it = registry().variables.find(key);
    if (it != registry().variables.end() && it->second.program == program) registry().variables.erase(it);
  }
  registry().programs.erase(program);
  delete program;
}

GPUFENCE_SIM_RUNTIME_EXPORT void __cudaRegisterFunction(void** handle, const char* host, char*,
                                                        const char* name, int, uint3*, uint3*, dim3*, dim3*,
                                                        int*) {
  std::lock_guard<std::mutex> held(registry().lock);
  Program* program = program_of(handle);
  if (program == nullptr || registry().kernels.count(host) != 0) return;
  auto* kernel = new Kernel{program, name};
  registry().kernels[host] = kernel;
  registry().handles.insert(kernel);
  program->kernels.push_back(host);
}

GPUFENCE_SIM_RUNTIME_EXPORT void __cudaRegisterVar(void** handle, char* host, char*, const char* name, int,
                                                   size_t bytes, int, int) {
  std::lock_guard<std::mutex> held(registry().lock);
  Program* program = program_of(handle);
  if (program == nullptr || registry().variables.count(host) != 0) return;
  registry().variables[host] = {program, name, bytes, nullptr};
  program->variables.push_back(host);
}

GPUFENCE_SIM_RUNTIME_EXPORT void __cudaRegisterManagedVar(void** handle, void** host, char*, const char* name,
                                                          int, size_t bytes, int, int) {
  std::lock_guard<std::mutex> held(registry().lock);
  Program* program = program_of(handle);
  if (program == nullptr || registry().variables.count(host) != 0) return;
  registry().variables[host] = {program, name, bytes, host};
  program->variables.push_back(host);
}

GPUFENCE_SIM_RUNTIME_EXPORT void __cudaRegisterHostVar(void**, const char*, char*, size_t) {}
GPUFENCE_SIM_RUNTIME_EXPORT void __cudaRegisterUnifiedTable(void**, void*) {}

// Before the host's first use of a __managed__ variable: from here on its pointer must be good. A program
// can't be told of a failure; it runs into the null pointer, as with the genuine runtime.
GPUFENCE_SIM_RUNTIME_EXPORT char __cudaInitModule(void** handle) {
  const cudaError_t ready = in_context([&](const Driver& driver) -> cudaError_t {
    std::lock_guard<std::mutex> held(registry().lock);
    Program* program = program_of(handle);
    return program == nullptr ? cudaErrorInvalidResourceHandle : use(driver, *program);
  });
  return ready == cudaSuccess ? 1 : 0;
}

GPUFENCE_SIM_RUNTIME_EXPORT unsigned int __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared,
                                                                     cudaStream_t stream) {
  if (depth == kDeepest) return 1;
  configured[depth++] = {grid, block, shared, stream};
  return 0;
}

GPUFENCE_SIM_RUNTIME_EXPORT cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared,
                                                                   void* stream) {
  if (depth == 0) return note(cudaErrorMissingConfiguration);
  const LaunchConfiguration& last = configured[--depth];
  *grid = last.grid;
  *block = last.block;
  *shared = last.shared;
  *static_cast<cudaStream_t*>(stream) = last.stream;
  return cudaSuccess;
}

// Asked once by every host stub, which keeps the answer: it must outlive contexts and devices.
GPUFENCE_SIM_RUNTIME_EXPORT cudaError_t __cudaGetKernel(cudaKernel_t* out, const void* stub) {
  std::lock_guard<std::mutex> held(registry().lock);
  auto it = registry().kernels.find(stub);
  *out = it == registry().kernels.end() ? nullptr : reinterpret_cast<cudaKernel_t>(it->second);
  return it == registry().kernels.end() ? note(cudaErrorInvalidDeviceFunction) : cudaSuccess;
}

}  // extern "C"

// Returns a struct, so its default would corrupt the caller's stack.
cudaChannelFormatDesc cudaCreateChannelDesc(int x, int y, int z, int w, cudaChannelFormatKind kind) {
  return {x, y, z, w, kind};
}
