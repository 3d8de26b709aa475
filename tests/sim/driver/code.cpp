#include "code.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>

namespace gpufence::sim {

CodeTable& code_table() {
  static auto* table = new CodeTable;  // leaked, as all state that exit handlers reach
  return *table;
}

bool eager_loading() {
  static const bool eager = [] {
    const char* mode = getenv("CUDA_MODULE_LOADING");
    return mode != nullptr && strcmp(mode, "EAGER") == 0;
  }();
  return eager;
}

uint32_t capability(const Device& device) {
  return static_cast<uint32_t>(device.gpu->cc_major * 10 + device.gpu->cc_minor);
}

void say_once(const std::string& text) {
  static auto* said = new std::set<std::string>;
  static auto* lock = new std::mutex;
  {
    std::lock_guard<std::mutex> held(*lock);
    if (!said->insert(text).second) return;
  }
  const std::string line = "gpufence[" + std::to_string(getpid()) + "] GF601 warning: " + text + "\n";
  [[maybe_unused]] ssize_t n = write(STDERR_FILENO, line.data(), line.size());
}

CUresult compile(const CodeImage& image, const Device& device, std::shared_ptr<const ptx::Module>& out,
                 std::string& log) {
  auto made = compile_for(image, capability(device), driver().machine.driver_version);
  if (!made) {
    log = made.error().log;
    if (!made.error().told.empty()) say_once(made.error().told);
    return made.error().answer;
  }
  out = *std::move(made);
  return CUDA_SUCCESS;
}

namespace {

bool takes_memory(const ptx::Global& global) {
  return global.space != ptx::Space::shared && !global.is_texture && global.is_defined;
}

// All globals of a module lie in one block of the context, managed ones in blocks of their own.
CUresult place(Context& context, Resident& resident, Library* library) {
  const auto& globals = resident.code->globals;
  resident.addresses.assign(globals.size(), 0);
  std::vector<size_t> fresh;  // those whose initial value is to be written
  uint64_t total = 0;
  for (size_t i = 0; i < globals.size(); ++i) {
    const ptx::Global& global = globals[i];
    if (!takes_memory(global) || global.is_managed) continue;
    if (global.size >= Heap::kTooMuch) return CUDA_ERROR_OUT_OF_MEMORY;  // a sum of such would wrap
    const uint64_t align = std::max<uint64_t>(global.align, 16);
    total = (total + align - 1) / align * align;
    resident.addresses[i] = total;
    total += std::max<uint64_t>(global.size, 1);
    fresh.push_back(i);
  }
  if (total != 0) {
    const CUresult result = allocate(context, total, gpufence::sim::Kind::code, &resident.block);
    if (result != CUDA_SUCCESS) return result;
    for (size_t i : fresh) resident.addresses[i] += resident.block->address;
  }
  for (size_t i = 0; i < globals.size(); ++i) {
    const ptx::Global& global = globals[i];
    if (!takes_memory(global) || !global.is_managed) continue;
    Block* block = nullptr;
    if (library != nullptr)
      if (auto known = library->managed.find(global.name); known != library->managed.end())
        block = known->second;
    if (block == nullptr) {
      const CUresult result =
          allocate(context, std::max<uint64_t>(global.size, 1), gpufence::sim::Kind::managed, &block);
      if (result != CUDA_SUCCESS) return result;
      if (library != nullptr) library->managed[global.name] = block;
      fresh.push_back(i);
    }
    resident.addresses[i] = block->address;
  }
  for (size_t i : fresh) {
    const std::vector<uint8_t> image = resident.code->image(i, resident.addresses);
    memcpy(reinterpret_cast<void*>(resident.addresses[i]), image.data(), image.size());
  }
  return CUDA_SUCCESS;
}

}  // namespace

CUresult load(Context& context, std::shared_ptr<const ptx::Module> code, Library* library, Module** out) {
  auto resident = std::make_shared<Resident>();
  resident->code = std::move(code);
  resident->context = &context;
  const CUresult placed = place(context, *resident, library);
  if (placed != CUDA_SUCCESS) {
    if (resident->block != nullptr) free_block(*context.device, resident->block->address);
    return placed;
  }
  Module* module = code_table().modules.take();
  if (module == nullptr) {
    if (resident->block != nullptr) free_block(*context.device, resident->block->address);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  module->context = &context;
  module->library = library;
  module->resident = std::move(resident);
  code_table().modules.publish(module);
  *out = module;
  return CUDA_SUCCESS;
}

namespace {

// Everything of a module but its memory, which its context may already have taken back.
void forget(Module& module) {
  for (auto& [name, function] : module.functions) {
    if (module.library != nullptr)
      if (auto kernel = module.library->kernels.find(name); kernel != module.library->kernels.end())
        std::erase(kernel->second->functions, function);
    code_table().functions.retire(function);
    function->settings.reset();
    function->params = {};
  }
  module.functions.clear();
  module.resident.reset();
  code_table().modules.retire(&module);
}

}  // namespace

void unload(Module& module) {
  const std::shared_ptr<Resident> resident = module.resident;
  Device& device = *module.context->device;
  if (module.library == nullptr)
    for (size_t i = 0; i < resident->code->globals.size(); ++i)
      if (takes_memory(resident->code->globals[i]) && resident->code->globals[i].is_managed)
        free_block(device, resident->addresses[i]);
  if (resident->block != nullptr) free_block(device, resident->block->address);
  forget(module);
}

void load_libraries_into(Context& context) {
  if (!eager_loading()) return;
  std::lock_guard<std::mutex> held(code_table().lock);
  code_table().libraries.each_live([&](Library* library) {
    Module* module = nullptr;
    (void)module_of(*library, context, &module);  // what fails is told at its use
  });
}

void unload_code_of(Context& context) {
  std::lock_guard<std::mutex> held(code_table().lock);
  code_table().modules.each_live([&](Module* module) {
    if (module->context != &context) return;
    if (module->library != nullptr) std::erase(module->library->modules, module);
    forget(*module);
  });
  code_table().libraries.each_live([&](Library* library) {
    std::erase_if(library->managed, [&](const auto& entry) { return entry.second->context == &context; });
  });
}

CUresult code_of(Library& library, const Device& device, std::shared_ptr<const ptx::Module>& out) {
  auto& known = library.code[capability(device)];
  if (known == nullptr) {
    std::string log;
    const CUresult result = compile(library.image, device, known, log);
    if (result != CUDA_SUCCESS) return result;
  }
  out = known;
  return CUDA_SUCCESS;
}

CUresult module_of(Library& library, Context& context, Module** out) {
  for (Module* module : library.modules)
    if (module->context == &context) {
      *out = module;
      return CUDA_SUCCESS;
    }
  std::shared_ptr<const ptx::Module> code;
  CUresult result = code_of(library, *context.device, code);
  if (result == CUDA_SUCCESS) result = load(context, std::move(code), &library, out);
  if (result == CUDA_SUCCESS) library.modules.push_back(*out);
  return result;
}

std::shared_ptr<Settings> settings_of(Library& library, const ptx::Function& code, const Device& device) {
  auto& settings = library.settings[{code.name, device.ordinal}];
  if (settings == nullptr) {
    settings = std::make_shared<Settings>();
    settings->max_dynamic_shared =
        std::max(0, device_attribute(device, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK) -
                        static_cast<int>(code.static_shared_bytes));
  }
  return settings;
}

Function* function_of(Module& module, std::string_view name) {
  if (auto known = module.functions.find(name); known != module.functions.end()) return known->second;
  const ptx::Function* code = module.code().function(name);
  if (code == nullptr || !code->is_entry) return nullptr;
  Function* function = code_table().functions.take();
  if (function == nullptr) return nullptr;
  function->module = &module;
  function->code = code;
  if (module.library != nullptr) {
    function->settings = settings_of(*module.library, *code, *module.context->device);
  } else {
    function->settings = std::make_shared<Settings>();
    function->settings->max_dynamic_shared = std::max(
        0, device_attribute(*module.context->device, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK) -
               static_cast<int>(code->static_shared_bytes));
  }
  code_table().functions.publish(function);
  module.functions.emplace(name, function);
  return function;
}

CUresult global_of(Module& module, const char* name, CUdeviceptr* address, size_t* bytes) {
  const ptx::Global* global = module.code().global(name);
  if (global == nullptr || !takes_memory(*global)) return CUDA_ERROR_NOT_FOUND;
  const auto index = static_cast<size_t>(global - module.code().globals.data());
  if (address != nullptr) *address = module.resident->addresses[index];
  if (bytes != nullptr) *bytes = global->size;
  return CUDA_SUCCESS;
}

CUresult resolve(CUfunction handle, Context& context, Function** out) {
  if (Function* function = code_table().functions.check(handle)) {
    *out = function;
    return CUDA_SUCCESS;
  }
  Kernel* kernel = code_table().kernels.check(handle);
  if (kernel == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  for (Function* function : kernel->functions)
    if (function->module->context == &context) {
      *out = function;
      return CUDA_SUCCESS;
    }
  Module* module = nullptr;
  const CUresult result = module_of(*kernel->library, context, &module);
  if (result != CUDA_SUCCESS) return result;
  *out = function_of(*module, kernel->name);
  // Another architecture's PTX may lack a kernel that this one's has.
  if (*out == nullptr) return CUDA_ERROR_NOT_FOUND;
  kernel->functions.push_back(*out);
  return CUDA_SUCCESS;
}

CUresult function_attribute(int* out, CUfunction_attribute which, const ptx::Function& code,
                            const Settings& settings, const ptx::Module& module, const Device& device) {
  switch (which) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK: {
      int most = device_attribute(device, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
      for (const auto& bound : {code.max_threads, code.required_threads})
        if (bound[0] != 0)
          most = std::min<int>(most,
                               static_cast<int>(bound[0] * std::max(bound[1], 1u) * std::max(bound[2], 1u)));
      *out = most;
      break;
    }
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
      *out = static_cast<int>(code.static_shared_bytes);
      break;
    case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES:
      *out = static_cast<int>(code.const_bytes);
      break;
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
      *out = static_cast<int>(code.local_bytes);
      break;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
      *out = static_cast<int>(code.registers);
      break;
    case CU_FUNC_ATTRIBUTE_PTX_VERSION:
      *out = static_cast<int>(module.target_sm);
      break;
    case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
      *out = static_cast<int>(capability(device));
      break;
    case CU_FUNC_ATTRIBUTE_CACHE_MODE_CA:
      *out = 0;
      break;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      *out = settings.max_dynamic_shared;
      break;
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
      *out = settings.carveout;
      break;
    case CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET:
      *out = 0;
      break;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH: {
      const int axis = which - CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH;
      const auto compiled = static_cast<int>(code.required_cluster[static_cast<size_t>(axis)]);
      *out = compiled != 0 ? compiled : settings.cluster[axis];
      break;
    }
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
      *out = settings.non_portable_cluster;
      break;
    case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
      *out = settings.cluster_scheduling;
      break;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

CUresult set_function_attribute(Settings& settings, CUfunction_attribute which, int value,
                                const ptx::Function& code, const Device& device) {
  switch (which) {
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: {
      const int most = device_attribute(device, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN) -
                       static_cast<int>(code.static_shared_bytes);
      if (value < 0 || value > most) return CUDA_ERROR_INVALID_VALUE;
      settings.max_dynamic_shared = value;
      return CUDA_SUCCESS;
    }
    case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
      if (value < -1 || value > 100) return CUDA_ERROR_INVALID_VALUE;
      settings.carveout = value;
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
    case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH: {
      const int axis = which - CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH;
      if (value < 0 || code.required_cluster[static_cast<size_t>(axis)] != 0) return CUDA_ERROR_INVALID_VALUE;
      settings.cluster[axis] = value;
      return CUDA_SUCCESS;
    }
    case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
      settings.non_portable_cluster = value;
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
      settings.cluster_scheduling = value;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult param_info(const ptx::Function& code, size_t index, size_t* offset, size_t* bytes) {
  if (offset == nullptr || index >= code.params.size()) return CUDA_ERROR_INVALID_VALUE;
  *offset = code.params[index].offset;
  if (bytes != nullptr) *bytes = code.params[index].size;
  return CUDA_SUCCESS;
}

bool JitLog::read(unsigned count, const CUjit_option* options, void** values) {
  if (count != 0 && (options == nullptr || values == nullptr)) return false;
  for (unsigned i = 0; i < count; ++i) {
    switch (options[i]) {
      case CU_JIT_ERROR_LOG_BUFFER:
        error = static_cast<char*>(values[i]);
        break;
      case CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES:
        error_bytes = reinterpret_cast<uintptr_t>(values[i]) & 0xffffffffu;
        error_size = &values[i];
        break;
      case CU_JIT_INFO_LOG_BUFFER:
        info = static_cast<char*>(values[i]);
        break;
      case CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES:
        info_bytes = reinterpret_cast<uintptr_t>(values[i]) & 0xffffffffu;
        info_size = &values[i];
        break;
      case CU_JIT_WALL_TIME:
        wall_time = &values[i];
        break;
      default:
        if (options[i] < 0 || options[i] >= CU_JIT_NUM_OPTIONS) return false;
    }
  }
  return true;
}

void JitLog::write(const std::string& errors) const {
  auto put = [](char* buffer, size_t room, void** size, const std::string& text) {
    size_t written = 0;
    if (buffer != nullptr && room != 0) {
      written = std::min(text.size(), room - 1);
      memcpy(buffer, text.data(), written);
      buffer[written] = '\0';
    }
    if (size != nullptr) *size = reinterpret_cast<void*>(written);
  };
  put(error, error_bytes, error_size, errors);
  put(info, info_bytes, info_size, {});
  if (wall_time != nullptr) {
    const float none = 0;
    memcpy(wall_time, &none, sizeof none);
  }
}

}  // namespace gpufence::sim
