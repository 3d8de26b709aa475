// A program that uses NVML if it is there, without naming a library: a weak reference and RTLD_DEFAULT. It
// asks once without and, with an argument, once more after it opened that library. Usage: looks_up_nvml
// [LIBRARY]
#include <dlfcn.h>

#include <cstdio>

extern "C" __attribute__((weak)) int nvmlDeviceGetCount_v2(unsigned int*);

static void say(const char* when) {
  unsigned int count = 99;
  std::printf("%s: RTLD_DEFAULT %s", when,
              dlsym(RTLD_DEFAULT, "nvmlDeviceGetCount_v2") != nullptr ? "present" : "absent");
  if (nvmlDeviceGetCount_v2 != nullptr) std::printf(", answer %d", nvmlDeviceGetCount_v2(&count));
  std::printf(", %u GPUs\n", count);
}

int main(int argc, char** argv) {
  say("before");
  if (argc < 2) return 0;
  void* library = dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) return 1;
  reinterpret_cast<int (*)()>(dlsym(library, "nvmlInit_v2"))();
  say("opened");
  return 0;
}
