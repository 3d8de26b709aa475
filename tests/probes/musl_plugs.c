/* A program for another C library that opens a plug-in, started by a shell inside a run: the gate gets into it and must
 * leave it as it is. Built by musl-gcc, also the plug-in (-DPLUG). */
#ifdef PLUG
int plug(void) { return 42; }
#else
#include <dlfcn.h>
#include <stdio.h>

int main(int argc, char **argv) {
  void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW) : 0;
  int (*plug)(void) = library ? (int (*)(void))dlsym(library, "plug") : 0;
  if (!plug) {
    printf("%s\n", dlerror());
    return 1;
  }
  printf("plug %d, printf %s, cuInit %s\n", plug(), dlsym(RTLD_DEFAULT, "printf") ? "found" : "absent",
         dlsym(RTLD_DEFAULT, "cuInit") ? "found" : "absent");
  return 0;
}
#endif
