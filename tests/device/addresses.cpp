// Is the address that cuGetProcAddress_v2 gives for a name that of the driver's export? The fence finds entry
// points both ways.
#include <dlfcn.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "ask.h"

namespace ask {
namespace {

struct Export {
  const char* symbol;
  const char* name;
  int version;
  bool per_thread;
};

const Export kExports[] = {
#define GPUFENCE_DRIVER_EXPORT(symbol, name, version, twin) {#symbol, #name, version, (twin) != 0},
#include "interpose/abi/driver_exports.inc"
};

std::string joined(const std::set<std::string>& names) {
  std::string text;
  size_t shown = 0;
  for (const std::string& name : names) {
    if (++shown > 40) return text + ", …";
    text += (text.empty() ? "" : ", ") + name;
  }
  return text.empty() ? "none" : text;
}

}  // namespace

void addresses() {
  void* driver = dlopen("libcuda.so.1", RTLD_NOW);
  if (driver == nullptr) could_not(dlerror());
  const auto look_up = reinterpret_cast<decltype(&cuGetProcAddress)>(dlsym(driver, "cuGetProcAddress_v2"));
  if (look_up == nullptr) could_not("the driver has no cuGetProcAddress_v2");
  NEED(cuInit(0));
  std::map<void*, std::string> exported;
  std::set<std::string> missing, differ, null;
  for (const Export& e : kExports) {
    if (void* address = dlsym(driver, e.symbol))
      exported.emplace(address, e.symbol);
    else
      missing.insert(e.symbol);
  }
  int asked = 0, equal = 0;
  for (const Export& e : kExports) {
    void *found = nullptr, *address = dlsym(driver, e.symbol);
    if (address == nullptr) continue;
    CUdriverProcAddressQueryResult status{};
    ++asked;
    const CUresult result = look_up(
        e.name, &found, e.version,
        e.per_thread ? CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM : CU_GET_PROC_ADDRESS_LEGACY_STREAM,
        &status);
    if (result != CUDA_SUCCESS || found == nullptr)
      null.insert(e.symbol);
    else if (found == address)
      ++equal;
    else
      differ.insert(e.symbol);
  }
  fact("exports asked for by name and version", "%d", asked);
  fact("same address as the export", "%d", equal);
  fact("another address", "%zu: %s", differ.size(), joined(differ).c_str());
  fact("no address", "%zu: %s", null.size(), joined(null).c_str());
  fact("exports of the headers that this driver lacks", "%zu: %s", missing.size(), joined(missing).c_str());

  // Every name at every version that anything was introduced at, with every flag: does it lie on some export?
  std::set<std::string> names;
  std::set<int> versions;
  for (const Export& e : kExports) {
    names.insert(e.name);
    versions.insert(e.version);
  }
  int answers = 0;
  std::set<std::string> elsewhere;
  for (const std::string& name : names)
    for (const int version : versions)
      for (const cuuint64_t flags : {CU_GET_PROC_ADDRESS_DEFAULT, CU_GET_PROC_ADDRESS_LEGACY_STREAM,
                                     CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM}) {
        void* found = nullptr;
        CUdriverProcAddressQueryResult status{};
        if (look_up(name.c_str(), &found, version, flags, &status) != CUDA_SUCCESS || found == nullptr)
          continue;
        ++answers;
        if (exported.count(found) == 0) elsewhere.insert(name);
      }
  fact("answers over all names, versions and flags", "%d", answers);
  fact("names with an answer that is no export's address", "%zu: %s", elsewhere.size(),
       joined(elsewhere).c_str());
}

}  // namespace ask
