// Prints what it finds in its environment and makes no CUDA call: most processes of a run are of this kind.
#include <cstdio>
#include <cstdlib>
#include <initializer_list>

int main() {
  for (const char* name : {"CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"}) {
    const char* value = std::getenv(name);
    std::printf("%s=%s\n", name, value == nullptr ? "(not set)" : value);
  }
  return 0;
}
