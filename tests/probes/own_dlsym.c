/* A preload library with a dlsym of its own, as several GPU tools have one: it writes down which CUDA names are looked
 * up and in which object the answer lies, also for what the program then asks the driver's own look-up.
 * SPY_FILE names the file; without it nothing is written. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef void *dlsym_t(void *, const char *);
typedef int get_t(const char *, void **, int, uint64_t, void *);

static get_t *next_get;

static void write_down(const char *way, const char *name, int version, uint64_t flags, void *address) {
  const char *file = getenv("SPY_FILE");
  if (!file || !address) return;
  Dl_info info;
  const char *object = dladdr(address, &info) && info.dli_fname ? info.dli_fname : "nowhere";
  if (strrchr(object, '/')) object = strrchr(object, '/') + 1;
  char line[256];
  int length = snprintf(line, sizeof line, "%s %s %d %d %s\n", way, *name ? name : "-", version, (int)flags, object);
  int out = open(file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (out < 0) return;
  if (write(out, line, (size_t)length) != length) abort();
  close(out);
}

static int spy_get(const char *name, void **out, int version, uint64_t flags, void *status) {
  int result = next_get(name, out, version, flags, status);
  if (result || !out) return result;
  write_down("procaddress", name, version, flags, *out);
  if (!strcmp(name, "cuGetProcAddress") && version >= 12000) { /* whoever asks for it goes on with it */
    next_get = (get_t *)*out;
    *out = (void *)spy_get;
  }
  return result;
}

void *dlsym(void *handle, const char *name) {
  static dlsym_t *next;
  if (!next) next = (dlsym_t *)dlvsym(RTLD_NEXT, "dlsym", "GLIBC_2.2.5");
  if (!next) return NULL;
  void *found = next(handle, name);
  if (!found || strncmp(name, "cu", 2)) return found;
  write_down("dlsym", name, 0, 0, found);
  if (strcmp(name, "cuGetProcAddress_v2")) return found;
  next_get = (get_t *)found;
  return (void *)spy_get;
}
