// Code in the driver: what programs load, the instances of it in contexts, and the handles for both. A
// library is code without a context; it becomes a module of each context that uses it, with globals of its
// own there. One lock guards all of it: loads are rare, and a launch holds it for some tens of nanoseconds.
#pragma once
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "compile.h"
#include "driver.h"
#include "fatbin.h"
#include "ptx/module.h"

namespace gpufence::sim {

struct Library;
struct Module;

// What cuFuncSetAttribute and its kin changed of one kernel on one device.
struct Settings {
  int max_dynamic_shared = 0;  // bytes
  int carveout = -1;           // percent; -1: the driver's choice
  int cluster[3] = {0, 0, 0};
  int non_portable_cluster = 0;
  int cluster_scheduling = 0;
};

// A kernel in one context: CUfunction.
struct Function {
  std::atomic<uint32_t> live{0};
  Module* module = nullptr;
  const ptx::Function* code = nullptr;  // owned by the module's code
  std::shared_ptr<Settings> settings;   // a library's kernel shares it with its functions on that device
  bool loaded = false;
  // Of the launch calls before cuLaunchKernel.
  int block[3] = {1, 1, 1};
  unsigned shared = 0;
  std::vector<uint8_t> params;
};

// A module's globals in one context. Launches hold it, so that it stays until they ended.
struct Resident {
  std::shared_ptr<const ptx::Module> code;
  Context* context = nullptr;
  Block* block = nullptr;           // nullptr: no globals; under the device's lock once published
  std::vector<uint64_t> addresses;  // by index of ptx::Module::globals
};

// CUmodule.
struct Module {
  std::atomic<uint32_t> live{0};
  Context* context = nullptr;
  Library* library = nullptr;  // whose instance it is, or nullptr
  std::shared_ptr<Resident> resident;
  std::map<std::string, Function*, std::less<>> functions;  // made when first asked for

  const ptx::Module& code() const { return *resident->code; }
};

// A kernel of a library: CUkernel, which the launch calls take for a CUfunction.
struct Kernel {
  std::atomic<uint32_t> live{0};
  Library* library = nullptr;
  std::string name;
  std::vector<Function*> functions;  // the contexts' own, in the order of their first use
};

// CUlibrary.
struct Library {
  std::atomic<uint32_t> live{0};
  CodeImage image;
  std::map<uint32_t, std::shared_ptr<const ptx::Module>> code;  // by compute capability
  std::vector<Module*> modules;                                 // one a context
  std::map<std::string, Kernel*, std::less<>> kernels;
  std::map<std::pair<std::string, int>, std::shared_ptr<Settings>> settings;  // by kernel and device
  std::map<std::string, Block*, std::less<>> managed;                         // one for all contexts
};

// CUlinkState.
struct Link {
  std::atomic<uint32_t> live{0};
  CodeImage image;
  std::vector<uint8_t> made;
  char* error_log = nullptr;
  size_t error_log_bytes = 0;
};

struct CodeTable {
  std::mutex lock;
  Handles<Module> modules;
  Handles<Function> functions;
  Handles<Library> libraries;
  Handles<Kernel> kernels;
  Handles<Link> links;
};

CodeTable& code_table();
bool eager_loading();  // CUDA_MODULE_LOADING=EAGER

// ---- All of these with the table's lock held ----

// Chooses, unpacks, reads and links the PTX for a GPU. `log` gets what ptxas would have said.
CUresult compile(const CodeImage& image, const Device& device, std::shared_ptr<const ptx::Module>& out,
                 std::string& log);
// Instantiates code in a context; `managed`: the library's, so that all contexts share one.
CUresult load(Context& context, std::shared_ptr<const ptx::Module> code, Library* library, Module** out);
void unload(Module& module);
CUresult code_of(Library& library, const Device& device, std::shared_ptr<const ptx::Module>& out);
CUresult module_of(Library& library, Context& context, Module** out);
// nullptr: no such kernel there.
Function* function_of(Module& module, std::string_view name);
std::shared_ptr<Settings> settings_of(Library& library, const ptx::Function& code, const Device& device);
// CUDA_ERROR_NOT_FOUND, or the address and size of a variable.
CUresult global_of(Module& module, const char* name, CUdeviceptr* address, size_t* bytes);
// The function that a CUfunction means in that context: itself, or for a CUkernel the context's own.
CUresult resolve(CUfunction handle, Context& context, Function** out);

// ---- Without it ----

// With eager loading a new context gets all libraries at once.
void load_libraries_into(Context& context);
// The context's modules go, and what libraries have of it.
void unload_code_of(Context& context);

CUresult function_attribute(int* out, CUfunction_attribute which, const ptx::Function& code,
                            const Settings& settings, const ptx::Module& module, const Device& device);
CUresult set_function_attribute(Settings& settings, CUfunction_attribute which, int value,
                                const ptx::Function& code, const Device& device);
CUresult param_info(const ptx::Function& code, size_t index, size_t* offset, size_t* bytes);

uint32_t capability(const Device& device);  // 75: 7.5
// Says a line on stderr, once a text.
void say_once(const std::string& text);

// Where JIT options want to be answered.
struct JitLog {
  char *error = nullptr, *info = nullptr;
  size_t error_bytes = 0, info_bytes = 0;
  void** error_size = nullptr;  // the values array's slots, which receive how much was written
  void** info_size = nullptr;
  void** wall_time = nullptr;
  bool read(unsigned count, const CUjit_option* options,
            void** values);  // false: an option that CUDA does not know
  void write(const std::string& errors) const;
};

}  // namespace gpufence::sim
