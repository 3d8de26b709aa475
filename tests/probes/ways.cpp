// Looks every name of a list up in one way, as a program would, and says in which object the answer lies. It
// opens the driver (the runtime) itself where the way needs it. The list has "name version-node" lines.
// Usage: ways WAY LIST [LIBRARY], WAY one of handle local default next program version procaddress1
// procaddress2
#include <cuda.h>
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

// What cuGetProcAddress is to be asked for an exported name: read from the third to fifth column of the list.
struct Name {
  std::string exported, node, base;
  int version = 0, per_thread = 0;
};

const char* object_of(const void* address) {
  Dl_info info{};
  if (address == nullptr) return "absent";
  if (dladdr(address, &info) == 0 || info.dli_fname == nullptr) return "unknown";
  const char* slash = std::strrchr(info.dli_fname, '/');
  return slash != nullptr ? slash + 1 : info.dli_fname;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const std::string way = argv[1];
  const char* library = argc > 3 ? argv[3] : "libcuda.so.1";
  const bool local = way == "local" || way == "handle" || way == "version" || way.starts_with("procaddress");
  void* handle = dlopen(library, RTLD_NOW | (local ? RTLD_LOCAL : RTLD_GLOBAL));
  if (handle == nullptr) {
    std::printf("%s\n", dlerror());
    return 1;
  }
  void* program = dlopen(nullptr, RTLD_NOW);
  using Get1 = CUresult (*)(const char*, void**, int, cuuint64_t);
  using Get2 = CUresult (*)(const char*, void**, int, cuuint64_t, CUdriverProcAddressQueryResult*);
  const auto get1 = reinterpret_cast<Get1>(dlsym(handle, "cuGetProcAddress"));
  const auto get2 = reinterpret_cast<Get2>(dlsym(handle, "cuGetProcAddress_v2"));

  std::FILE* list = std::fopen(argv[2], "r");
  if (list == nullptr) return 2;
  char exported[128], node[64], base[128];
  int version = 0, per_thread = 0;
  while (std::fscanf(list, "%127s %63s %127s %d %d", exported, node, base, &version, &per_thread) == 5) {
    void* found = nullptr;
    const cuuint64_t flags =
        per_thread != 0 ? CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM : CU_GET_PROC_ADDRESS_DEFAULT;
    if (way == "handle" || way == "local") found = dlsym(handle, exported);
    if (way == "default") found = dlsym(RTLD_DEFAULT, exported);
    if (way == "next") found = dlsym(RTLD_NEXT, exported);
    if (way == "program") found = dlsym(program, exported);
    if (way == "version") found = dlvsym(handle, exported, node);
    if (way == "procaddress1" && get1(base, &found, version, flags) != CUDA_SUCCESS) found = nullptr;
    if (way == "procaddress2") {
      CUdriverProcAddressQueryResult status;
      if (get2(base, &found, version, flags, &status) != CUDA_SUCCESS) found = nullptr;
    }
    std::printf("%s %s\n", exported, object_of(found));
  }
  std::fclose(list);
  return 0;
}
