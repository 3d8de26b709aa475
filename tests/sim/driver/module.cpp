// Modules and the functions in them: code that belongs to one context.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "code.h"
#include "output.h"
#include "queue.h"

using namespace gpufence::sim;

namespace {

CUmodule handle(Module* module) {
  return reinterpret_cast<CUmodule>(module);
}
CUfunction handle(Function* function) {
  return reinterpret_cast<CUfunction>(function);
}

CUresult load_image(Context& context, CUmodule* out, const void* image, const JitLog& log) {
  if (out == nullptr || image == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const auto code = read_code(image, process_memory());
  if (!code) {
    log.write(code.error());
    return CUDA_ERROR_INVALID_IMAGE;
  }
  flush_output(context);
  std::lock_guard<std::mutex> held(code_table().lock);
  std::shared_ptr<const ptx::Module> compiled;
  std::string said;
  CUresult result = compile(*code, *context.device, compiled, said);
  log.write(said);
  Module* module = nullptr;
  if (result == CUDA_SUCCESS) result = load(context, std::move(compiled), nullptr, &module);
  if (result == CUDA_SUCCESS) *out = handle(module);
  return result;
}

}  // namespace

namespace gpufence::sim {

// The whole file and a NUL behind it, as PTX files have none.
bool read_file(const char* path, std::vector<char>& out) {
  FILE* file = fopen(path, "rbe");
  if (file == nullptr) return false;
  char piece[65536];
  size_t n = 0;
  while ((n = fread(piece, 1, sizeof piece, file)) != 0 && out.size() < kMostBytes)
    out.insert(out.end(), piece, piece + n);
  const bool good = ferror(file) == 0;
  fclose(file);
  out.push_back('\0');
  return good;
}

}  // namespace gpufence::sim

namespace {

// Runs body with a live module, the table locked.
template <class Body>
CUresult with_module(const char* name, CUmodule given, Body&& body) {
  return in_context(name, [&](Context& context) {
    std::lock_guard<std::mutex> held(code_table().lock);
    Module* module = code_table().modules.check(given);
    return module == nullptr ? CUDA_ERROR_INVALID_HANDLE : body(*module, context);
  });
}

// The same with a function; a CUkernel stands for the current context's.
template <class Body>
CUresult with_function(const char* name, CUfunction given, Body&& body) {
  return in_context(name, [&](Context& context) {
    std::lock_guard<std::mutex> held(code_table().lock);
    Function* function = nullptr;
    const CUresult result = resolve(given, context, &function);
    return result != CUDA_SUCCESS ? result : body(*function);
  });
}

}  // namespace

CUresult cuModuleLoad(CUmodule* out, const char* path) {
  return in_context(__func__, [&](Context& context) {
    std::vector<char> bytes;
    if (out == nullptr || path == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (!gpufence::sim::read_file(path, bytes)) return CUDA_ERROR_FILE_NOT_FOUND;
    return load_image(context, out, bytes.data(), {});
  });
}

CUresult cuModuleLoadData(CUmodule* out, const void* image) {
  return in_context(__func__, [&](Context& context) { return load_image(context, out, image, {}); });
}

CUresult cuModuleLoadDataEx(CUmodule* out, const void* image, unsigned int count, CUjit_option* options,
                            void** values) {
  return in_context(__func__, [&](Context& context) {
    JitLog log;
    if (!log.read(count, options, values)) return CUDA_ERROR_INVALID_VALUE;
    return load_image(context, out, image, log);
  });
}

CUresult cuModuleLoadFatBinary(CUmodule* out, const void* fatbin) {
  return in_context(__func__, [&](Context& context) { return load_image(context, out, fatbin, {}); });
}

CUresult cuModuleUnload(CUmodule given) {
  return in_context(__func__, [&](Context& current) {
    Context* context = nullptr;
    {
      std::lock_guard<std::mutex> held(code_table().lock);
      Module* module = code_table().modules.check(given);
      if (module == nullptr) return CUDA_ERROR_INVALID_HANDLE;
      if (module->library != nullptr) return CUDA_ERROR_NOT_PERMITTED;  // of cuLibraryGetModule
      if (module->context != &current) return CUDA_ERROR_INVALID_CONTEXT;
      context = module->context;
    }
    synchronise(*context);
    std::lock_guard<std::mutex> held(code_table().lock);
    if (Module* module = code_table().modules.check(given)) unload(*module);
    return CUDA_SUCCESS;
  });
}

CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode* out) {
  return initialised(__func__, [&] {
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *out = eager_loading() ? CU_MODULE_EAGER_LOADING : CU_MODULE_LAZY_LOADING;
    return CUDA_SUCCESS;
  });
}

CUresult cuModuleGetFunction(CUfunction* out, CUmodule given, const char* name) {
  return with_module(__func__, given, [&](Module& module, Context&) {
    if (out == nullptr || name == nullptr) return CUDA_ERROR_INVALID_VALUE;
    Function* function = function_of(module, name);
    if (function == nullptr) return CUDA_ERROR_NOT_FOUND;
    *out = handle(function);
    return CUDA_SUCCESS;
  });
}

CUresult cuModuleGetFunctionCount(unsigned int* out, CUmodule given) {
  return with_module(__func__, given, [&](Module& module, Context&) {
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *out = 0;
    for (const ptx::Function& function : module.code().functions) *out += function.is_entry ? 1 : 0;
    return CUDA_SUCCESS;
  });
}

CUresult cuModuleEnumerateFunctions(CUfunction* out, unsigned int room, CUmodule given) {
  return with_module(__func__, given, [&](Module& module, Context&) {
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    for (const ptx::Function& function : module.code().functions) {
      if (!function.is_entry) continue;
      if (room == 0) break;
      *out++ = handle(function_of(module, function.name));
      --room;
    }
    return CUDA_SUCCESS;
  });
}

CUresult cuModuleGetGlobal_v2(CUdeviceptr* address, size_t* bytes, CUmodule given, const char* name) {
  return with_module(__func__, given, [&](Module& module, Context&) {
    if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
    return global_of(module, name, address, bytes);
  });
}

CUresult cuModuleGetGlobal(CUdeviceptr_v1* address, unsigned int* bytes, CUmodule given, const char* name) {
  return with_module(__func__, given, [&](Module& module, Context&) {
    if (name == nullptr) return CUDA_ERROR_INVALID_VALUE;
    CUdeviceptr at = 0;
    size_t size = 0;
    const CUresult result = global_of(module, name, &at, &size);
    if (result != CUDA_SUCCESS) return result;
    // A 32-bit address can't hold where it is.
    if (address != nullptr && (*address = static_cast<CUdeviceptr_v1>(at)) != at)
      return CUDA_ERROR_INVALID_VALUE;
    if (bytes != nullptr) *bytes = static_cast<unsigned>(size);
    return CUDA_SUCCESS;
  });
}

// ---- Functions ----

CUresult cuFuncGetModule(CUmodule* out, CUfunction given) {
  return with_function(__func__, given, [&](Function& function) {
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *out = handle(function.module);
    return CUDA_SUCCESS;
  });
}

CUresult cuFuncGetName(const char** out, CUfunction given) {
  if (out == nullptr || given == nullptr)
    return initialised(__func__, [] { return CUDA_ERROR_INVALID_VALUE; });
  return with_function(__func__, given, [&](Function& function) {
    *out = function.code->name.c_str();
    return CUDA_SUCCESS;
  });
}

CUresult cuFuncGetParamInfo(CUfunction given, size_t index, size_t* offset, size_t* bytes) {
  return with_function(__func__, given,
                       [&](Function& function) { return param_info(*function.code, index, offset, bytes); });
}

CUresult cuFuncGetAttribute(int* out, CUfunction_attribute which, CUfunction given) {
  return with_function(__func__, given, [&](Function& function) {
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    function.loaded = true;
    return function_attribute(out, which, *function.code, *function.settings, function.module->code(),
                              *function.module->context->device);
  });
}

CUresult cuFuncSetAttribute(CUfunction given, CUfunction_attribute which, int value) {
  return with_function(__func__, given, [&](Function& function) {
    return set_function_attribute(*function.settings, which, value, *function.code,
                                  *function.module->context->device);
  });
}

// Preferences: a simulated GPU has no cache to divide.
CUresult cuFuncSetCacheConfig(CUfunction given, CUfunc_cache config) {
  return with_function(__func__, given, [&](Function&) {
    return config < CU_FUNC_CACHE_PREFER_NONE || config > CU_FUNC_CACHE_PREFER_EQUAL
               ? CUDA_ERROR_INVALID_VALUE
               : CUDA_SUCCESS;
  });
}

CUresult cuFuncSetSharedMemConfig(CUfunction given, CUsharedconfig config) {
  return with_function(__func__, given, [&](Function&) {
    return config < CU_SHARED_MEM_CONFIG_DEFAULT_BANK_SIZE ||
                   config > CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE
               ? CUDA_ERROR_INVALID_VALUE
               : CUDA_SUCCESS;
  });
}

CUresult cuFuncIsLoaded(CUfunctionLoadingState* out, CUfunction given) {
  return with_function(__func__, given, [&](Function& function) {
    if (out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *out = function.loaded || eager_loading() ? CU_FUNCTION_LOADING_STATE_LOADED
                                              : CU_FUNCTION_LOADING_STATE_UNLOADED;
    return CUDA_SUCCESS;
  });
}

CUresult cuFuncLoad(CUfunction given) {
  return with_function(__func__, given, [&](Function& function) {
    function.loaded = true;
    return CUDA_SUCCESS;
  });
}
