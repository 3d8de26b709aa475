// Two plug-ins, each with a runtime of one version of its own, as two frameworks' wheels bring them: each
// call must come to the runtime of the plug-in that makes it. Usage: two_echoes RUNTIME PLUGIN RUNTIME PLUGIN
#include <dlfcn.h>

#include <cstdio>

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  using Call = void (*)();
  Call choose[2], pool[2], last[2];
  for (int i = 0; i < 2; ++i) {
    // First the runtime, so that the plug-in finds it by its name.
    void* runtime = dlopen(argv[2 * i + 1], RTLD_NOW | RTLD_LOCAL);
    void* plugin = dlopen(argv[2 * i + 2], RTLD_NOW | RTLD_LOCAL);
    if (runtime == nullptr || plugin == nullptr) return std::printf("%s\n", dlerror()), 1;
    choose[i] = reinterpret_cast<Call>(dlsym(plugin, "choose"));
    pool[i] = reinterpret_cast<Call>(dlsym(plugin, "pool"));
    last[i] = reinterpret_cast<Call>(dlsym(plugin, "last"));
    // Whose runtime it is can't be told while there is but one, and need not be.
    if (i == 0) last[i]();
    choose[i]();
    pool[0]();
    pool[i]();
  }
  pool[0]();
  choose[0]();
  return 0;
}
