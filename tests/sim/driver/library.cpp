// Libraries and kernels: code without a context, of which every context gets its own instance at the first
// use. It is what the CUDA runtime loads programs by.
#include <cstring>

#include "code.h"
#include "output.h"
#include "queue.h"

namespace gpufence::sim {
bool read_file(const char* path, std::vector<char>& out);  // module.cpp
}

using namespace gpufence::sim;

namespace {

// Runs body with a live library or kernel, the table locked.
template <class Body>
CUresult with_library(const char* name, CUlibrary given, Body&& body) {
  return initialised(name, [&] {
    std::lock_guard<std::mutex> held(code_table().lock);
    Library* library = code_table().libraries.check(given);
    return library == nullptr ? CUDA_ERROR_INVALID_HANDLE : body(*library);
  });
}

template <class Body>
CUresult with_kernel(const char* name, CUkernel given, Body&& body) {
  return initialised(name, [&] {
    std::lock_guard<std::mutex> held(code_table().lock);
    Kernel* kernel = code_table().kernels.check(given);
    return kernel == nullptr ? CUDA_ERROR_INVALID_HANDLE : body(*kernel);
  });
}

template <class Body>
CUresult with_library_in_context(const char* name, CUlibrary given, Body&& body) {
  return in_context(name, [&](Context& context) {
    std::lock_guard<std::mutex> held(code_table().lock);
    Library* library = code_table().libraries.check(given);
    if (library == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    Module* module = nullptr;
    const CUresult result = module_of(*library, context, &module);
    return result != CUDA_SUCCESS ? result : body(*module);
  });
}

// The device whose code speaks for the library where no context is asked for.
const Device& typical_device() {
  const Context* context = current_context();
  return context != nullptr ? *context->device : *driver().visible.front();
}

CUresult load_library(CUlibrary* out, const void* data, unsigned jit_count, CUjit_option* jit_options,
                      void** jit_values, unsigned count, const CUlibraryOption* options, void** values) {
  if (out == nullptr || data == nullptr || (count != 0 && options == nullptr))
    return CUDA_ERROR_INVALID_VALUE;
  JitLog log;
  if (!log.read(jit_count, jit_options, jit_values)) return CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < count; ++i)
    // The code is copied anyway, and unified function addresses nothing here has.
    if (options[i] != CU_LIBRARY_BINARY_IS_PRESERVED &&
        options[i] != CU_LIBRARY_HOST_UNIVERSAL_FUNCTION_AND_DATA_TABLE)
      return CUDA_ERROR_INVALID_VALUE;
  (void)values;
  auto image = read_code(data, process_memory());
  if (!image) {
    log.write(image.error());
    return CUDA_ERROR_INVALID_IMAGE;
  }
  std::lock_guard<std::mutex> held(code_table().lock);
  Library* library = code_table().libraries.take();
  if (library == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  library->image = std::move(*image);
  CUresult result = CUDA_SUCCESS;
  std::string said;
  // PTX text is read at once, so that its mistakes come with the call; a fatbin waits for its first use.
  const bool text = library->image.members.size() == 1 && library->image.members.front().is_text;
  if (text) {
    const Device& device = typical_device();
    result = compile(library->image, device, library->code[capability(device)], said);
  }
  log.write(said);
  if (result == CUDA_SUCCESS && eager_loading())
    driver().contexts.each_live([&](Context* context) {
      Module* module = nullptr;
      if (result == CUDA_SUCCESS && context->active) result = module_of(*library, *context, &module);
    });
  code_table().libraries.publish(library);
  if (result != CUDA_SUCCESS) {
    while (!library->modules.empty()) {
      Module* module = library->modules.back();
      library->modules.pop_back();
      unload(*module);
    }
    code_table().libraries.retire(library);
    return result;
  }
  *out = reinterpret_cast<CUlibrary>(library);
  return CUDA_SUCCESS;
}

CUresult kernel_of(Library& library, const ptx::Function& code, CUkernel* out) {
  Kernel*& kernel = library.kernels[code.name];
  if (kernel == nullptr) {
    kernel = code_table().kernels.take();
    if (kernel == nullptr) {
      library.kernels.erase(code.name);
      return CUDA_ERROR_OUT_OF_MEMORY;
    }
    kernel->library = &library;
    kernel->name = code.name;
    code_table().kernels.publish(kernel);
  }
  *out = reinterpret_cast<CUkernel>(kernel);
  return CUDA_SUCCESS;
}

// A kernel's code on one device.
CUresult code_of(Kernel& kernel, CUdevice ordinal, std::shared_ptr<const ptx::Module>& module,
                 const ptx::Function** function, Device** device) {
  *device = driver().device(ordinal);
  if (*device == nullptr) return CUDA_ERROR_INVALID_DEVICE;
  const CUresult result = gpufence::sim::code_of(*kernel.library, **device, module);
  if (result != CUDA_SUCCESS) return result;
  *function = module->function(kernel.name);
  return *function != nullptr ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

}  // namespace

CUresult cuLibraryLoadData(CUlibrary* out, const void* code, CUjit_option* jit_options, void** jit_values,
                           unsigned int jit_count, CUlibraryOption* options, void** values,
                           unsigned int count) {
  return initialised(__func__, [&] {
    return load_library(out, code, jit_count, jit_options, jit_values, count, options, values);
  });
}

CUresult cuLibraryLoadFromFile(CUlibrary* out, const char* path, CUjit_option* jit_options, void** jit_values,
                               unsigned int jit_count, CUlibraryOption* options, void** values,
                               unsigned int count) {
  return initialised(__func__, [&] {
    std::vector<char> bytes;
    if (out == nullptr || path == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (!gpufence::sim::read_file(path, bytes)) return CUDA_ERROR_FILE_NOT_FOUND;
    return load_library(out, bytes.data(), jit_count, jit_options, jit_values, count, options, values);
  });
}

CUresult cuLibraryUnload(CUlibrary given) {
  return initialised(__func__, [&] {
    std::vector<Context*> contexts;
    {
      std::lock_guard<std::mutex> held(code_table().lock);
      Library* library = code_table().libraries.check(given);
      if (library == nullptr) return CUDA_ERROR_INVALID_HANDLE;
      for (const Module* module : library->modules) contexts.push_back(module->context);
    }
    for (Context* context : contexts)
      if (context->active) {
        let_end(*context);
        flush_output(*context);
      }
    std::lock_guard<std::mutex> held(code_table().lock);
    Library* library = code_table().libraries.check(given);
    if (library == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    for (Module* module : library->modules) unload(*module);
    library->modules.clear();
    for (auto& [name, block] : library->managed) free_block(*block->context->device, block->address);
    for (auto& [name, kernel] : library->kernels) {
      kernel->functions.clear();
      code_table().kernels.retire(kernel);
    }
    library->kernels.clear();
    library->managed.clear();
    library->code.clear();
    library->settings.clear();
    library->image = {};
    code_table().libraries.retire(library);
    return CUDA_SUCCESS;
  });
}

CUresult cuLibraryGetKernel(CUkernel* out, CUlibrary given, const char* name) {
  return with_library(__func__, given, [&](Library& library) {
    if (out == nullptr || name == nullptr) return CUDA_ERROR_INVALID_VALUE;
    std::shared_ptr<const ptx::Module> code;
    const CUresult result = gpufence::sim::code_of(library, typical_device(), code);
    if (result != CUDA_SUCCESS) return result;
    const ptx::Function* function = code->function(name);
    if (function == nullptr || !function->is_entry) return CUDA_ERROR_NOT_FOUND;
    return kernel_of(library, *function, out);
  });
}

CUresult cuLibraryGetKernelCount(unsigned int* out, CUlibrary given) {
  return with_library(__func__, given, [&](Library& library) {
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    std::shared_ptr<const ptx::Module> code;
    const CUresult result = gpufence::sim::code_of(library, typical_device(), code);
    if (result != CUDA_SUCCESS) return result;
    *out = 0;
    for (const ptx::Function& function : code->functions) *out += function.is_entry ? 1 : 0;
    return CUDA_SUCCESS;
  });
}

CUresult cuLibraryEnumerateKernels(CUkernel* out, unsigned int room, CUlibrary given) {
  return with_library(__func__, given, [&](Library& library) {
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    std::shared_ptr<const ptx::Module> code;
    CUresult result = gpufence::sim::code_of(library, typical_device(), code);
    if (result != CUDA_SUCCESS) return result;
    for (const ptx::Function& function : code->functions) {
      if (!function.is_entry) continue;
      if (room == 0 || result != CUDA_SUCCESS) break;
      result = kernel_of(library, function, out++);
      --room;
    }
    return result;
  });
}

CUresult cuLibraryGetModule(CUmodule* out, CUlibrary given) {
  return with_library_in_context(__func__, given, [&](Module& module) {
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *out = reinterpret_cast<CUmodule>(&module);
    return CUDA_SUCCESS;
  });
}

CUresult cuLibraryGetGlobal(CUdeviceptr* address, size_t* bytes, CUlibrary given, const char* name) {
  return with_library_in_context(__func__, given, [&](Module& module) {
    if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
    return global_of(module, name, address, bytes);
  });
}

CUresult cuLibraryGetManaged(CUdeviceptr* address, size_t* bytes, CUlibrary given, const char* name) {
  return with_library_in_context(__func__, given, [&](Module& module) {
    if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const ptx::Global* global = module.code().global(name);
    if (global == nullptr || !global->is_managed) return CUDA_ERROR_NOT_FOUND;
    return global_of(module, name, address, bytes);
  });
}

// "If there is no device with attribute CU_DEVICE_ATTRIBUTE_UNIFIED_FUNCTION_POINTERS present in the system,
// the call may return CUDA_ERROR_NOT_FOUND."
CUresult cuLibraryGetUnifiedFunction(void** out, CUlibrary given, const char* symbol) {
  return with_library(__func__, given, [&](Library&) {
    return out == nullptr || symbol == nullptr ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_NOT_FOUND;
  });
}

// ---- Kernels ----

CUresult cuKernelGetFunction(CUfunction* out, CUkernel given) {
  return in_context(__func__, [&](Context& context) {
    std::lock_guard<std::mutex> held(code_table().lock);
    if (code_table().kernels.check(given) == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    Function* function = nullptr;
    const CUresult result = resolve(reinterpret_cast<CUfunction>(given), context, &function);
    if (result == CUDA_SUCCESS) *out = reinterpret_cast<CUfunction>(function);
    return result;
  });
}

CUresult cuKernelGetLibrary(CUlibrary* out, CUkernel given) {
  return with_kernel(__func__, given, [&](Kernel& kernel) {
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *out = reinterpret_cast<CUlibrary>(kernel.library);
    return CUDA_SUCCESS;
  });
}

CUresult cuKernelGetName(const char** out, CUkernel given) {
  if (out == nullptr || given == nullptr)
    return initialised(__func__, [] { return CUDA_ERROR_INVALID_VALUE; });
  return with_kernel(__func__, given, [&](Kernel& kernel) {
    *out = kernel.name.c_str();
    return CUDA_SUCCESS;
  });
}

CUresult cuKernelGetParamInfo(CUkernel given, size_t index, size_t* offset, size_t* bytes) {
  return with_kernel(__func__, given, [&](Kernel& kernel) {
    std::shared_ptr<const ptx::Module> module;
    const ptx::Function* function = nullptr;
    Device* device = nullptr;
    const CUresult result = code_of(kernel, typical_device().ordinal, module, &function, &device);
    return result != CUDA_SUCCESS ? result : param_info(*function, index, offset, bytes);
  });
}

CUresult cuKernelGetAttribute(int* out, CUfunction_attribute which, CUkernel given, CUdevice ordinal) {
  return with_kernel(__func__, given, [&](Kernel& kernel) {
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    std::shared_ptr<const ptx::Module> module;
    const ptx::Function* function = nullptr;
    Device* device = nullptr;
    const CUresult result = code_of(kernel, ordinal, module, &function, &device);
    if (result != CUDA_SUCCESS) return result;
    return function_attribute(out, which, *function, *settings_of(*kernel.library, *function, *device),
                              *module, *device);
  });
}

CUresult cuKernelSetAttribute(CUfunction_attribute which, int value, CUkernel given, CUdevice ordinal) {
  return with_kernel(__func__, given, [&](Kernel& kernel) {
    std::shared_ptr<const ptx::Module> module;
    const ptx::Function* function = nullptr;
    Device* device = nullptr;
    const CUresult result = code_of(kernel, ordinal, module, &function, &device);
    if (result != CUDA_SUCCESS) return result;
    return set_function_attribute(*settings_of(*kernel.library, *function, *device), which, value, *function,
                                  *device);
  });
}

CUresult cuKernelSetCacheConfig(CUkernel given, CUfunc_cache config, CUdevice ordinal) {
  return with_kernel(__func__, given, [&](Kernel&) {
    if (driver().device(ordinal) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
    return config < CU_FUNC_CACHE_PREFER_NONE || config > CU_FUNC_CACHE_PREFER_EQUAL
               ? CUDA_ERROR_INVALID_VALUE
               : CUDA_SUCCESS;
  });
}
