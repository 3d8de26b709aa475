// Asks whether CUDA is there without naming a library, as portable programs do before they use it:
// RTLD_DEFAULT, RTLD_NEXT and a weak reference. With arguments it first opens the driver. Usage: looks_up
// [LIBRARY local|global]
#include <dlfcn.h>

#include <cstdio>
#include <cstring>

extern "C" __attribute__((weak)) int cuInit(unsigned int);

int main(int argc, char** argv) {
  if (argc > 2 && dlopen(argv[1], RTLD_NOW | (std::strcmp(argv[2], "global") == 0 ? RTLD_GLOBAL
                                                                                  : RTLD_LOCAL)) == nullptr) {
    std::printf("%s\n", dlerror());
    return 1;
  }
  const auto say = [](const char* how, const void* found) {
    std::printf("%s: %s\n", how, found != nullptr ? "present" : "absent");
  };
  say("weak reference cuInit", reinterpret_cast<const void*>(&cuInit));
  say("RTLD_DEFAULT cuInit", dlsym(RTLD_DEFAULT, "cuInit"));
  say("RTLD_NEXT cuInit", dlsym(RTLD_NEXT, "cuInit"));
  say("RTLD_DEFAULT cuMemAlloc_v2", dlsym(RTLD_DEFAULT, "cuMemAlloc_v2"));
  say("RTLD_DEFAULT cuNoSuchThing", dlsym(RTLD_DEFAULT, "cuNoSuchThing"));
  say("RTLD_DEFAULT cudaMalloc", dlsym(RTLD_DEFAULT, "cudaMalloc"));
  say("RTLD_DEFAULT strlen", dlsym(RTLD_DEFAULT, "strlen"));
  if (void* found = dlsym(RTLD_DEFAULT, "cuInit"); found != nullptr) {
    std::printf("cuInit: %d\n", reinterpret_cast<int (*)(unsigned int)>(found)(0));
  } else if (cuInit != nullptr) {
    std::printf("cuInit by the weak reference: %d\n", cuInit(0));
  }
  return 0;
}
