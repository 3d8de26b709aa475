/* The gate: what LD_PRELOAD puts into every program, so it must be harmless in every program.
 * It imports getauxval, syscall and environ alone: the true dlsym and its kin are found in the symbol tables of the
 * loaded objects, because a linked dlvsym asks for GLIBC_2.34 and one unmet version kills every process.
 * No constructor, no allocation, no lock, no call of the string functions (sanitizers intercept them and are not
 * ready yet when they look themselves up through our dlsym). The C++ core is loaded at the first hooked call. */
#define _GNU_SOURCE /* RTLD_NEXT, dladdr1's RTLD_DL_LINKMAP */
#include "gate.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/auxv.h>
#include <sys/syscall.h>

#define HIDDEN __attribute__((visibility("hidden")))

extern long syscall(long number, ...);
extern char **environ;

/* ---- The hook table, made by the build ------------------------------------------------------------------- */

#define THUNK_BYTES 16
extern const char gate_thunks[] HIDDEN;
extern void *gate_slots[] HIDDEN;

/* Places in one text, not pointers: the loader would have to set each of those in every program. */
static const struct hook_text {
#define GATE_HOOK(index, name, node, version) char at_##index[sizeof #name];
#include "gate_hooks.inc"
#undef GATE_HOOK
} hook_text = {
#define GATE_HOOK(index, name, node, version) #name,
#include "gate_hooks.inc"
#undef GATE_HOOK
};
static const uint16_t hook_places[] = {
#define GATE_HOOK(index, name, node, version) offsetof(struct hook_text, at_##index),
#include "gate_hooks.inc"
#undef GATE_HOOK
};
_Static_assert(sizeof hook_text < 65536, "the names' places need more than 16 bits");
static const unsigned char hook_nodes[] = {
#define GATE_HOOK(index, name, node, version) node,
#include "gate_hooks.inc"
#undef GATE_HOOK
};
#define HOOKS ((uint32_t)sizeof hook_nodes)

static const char *hook_name(uint32_t index) { return (const char *)&hook_text + hook_places[index]; }
static int hook_node(uint32_t index) { return hook_nodes[index]; }
static void *hook_thunk(uint32_t index) { return (void *)(gate_thunks + THUNK_BYTES * (size_t)index); }

/* ---- Strings, our own: see the head ---------------------------------------------------------------------- */

static int compare(const char *a, const char *b) {
  while (*a && *a == *b) a++, b++;
  return (unsigned char)*a - (unsigned char)*b;
}
static int begins(const char *text, const char *start) {
  while (*start)
    if (*text++ != *start++) return 0;
  return 1;
}
static const char *after_last_slash(const char *path) {
  const char *last = path;
  for (; *path; path++)
    if (*path == '/') last = path + 1;
  return last;
}
static const char *environment(const char *name) {
  for (char **entry = environ; entry && *entry; entry++) {
    const char *p = *entry, *n = name;
    while (*n && *p == *n) p++, n++;
    if (!*n && *p == '=') return p + 1;
  }
  return 0;
}

/* ---- The true dl functions ------------------------------------------------------------------------------- */

typedef void *dlsym_t(void *, const char *);
typedef void *dlvsym_t(void *, const char *, const char *);
typedef void *dlopen_t(const char *, int);
typedef char *dlerror_t(void);
typedef int dladdr1_t(const void *, void *, void **, int); /* the second: Dl_info */

static _Atomic(dlsym_t *) true_dlsym;
static _Atomic(dlvsym_t *) true_dlvsym;
static _Atomic(dlopen_t *) true_dlopen;
static _Atomic(dlerror_t *) true_dlerror;
static _Atomic(dladdr1_t *) true_dladdr1;

struct tables {
  const ElfW(Sym) * symbols;
  const char *strings;
  const uint32_t *hash; /* DT_GNU_HASH */
  const ElfW(Verdef) * definitions;
  const char *soname;
};

static struct tables tables_of(const struct link_map *object) {
  struct tables t = {0};
  ElfW(Addr) soname = 0, bias = object->l_addr;
  for (const ElfW(Dyn) *d = object->l_ld; d && d->d_tag != DT_NULL; d++) {
    /* glibc relocates these in place, except where the dynamic section is read-only (the vdso, some ports). */
    ElfW(Addr) at = d->d_un.d_ptr < bias ? d->d_un.d_ptr + bias : d->d_un.d_ptr;
    if (d->d_tag == DT_SYMTAB) t.symbols = (const ElfW(Sym) *)at;
    if (d->d_tag == DT_STRTAB) t.strings = (const char *)at;
    if (d->d_tag == DT_GNU_HASH) t.hash = (const uint32_t *)at;
    if (d->d_tag == DT_VERDEF) t.definitions = (const ElfW(Verdef) *)at;
    if (d->d_tag == DT_SONAME) soname = d->d_un.d_val;
  }
  if (t.strings && soname) t.soname = t.strings + soname;
  return t;
}

/* Any version will do: glibc's versions of one dl function share their code. */
static void *defined_in(const struct link_map *object, const char *name) {
  struct tables t = tables_of(object);
  if (!t.hash || !t.symbols || !t.strings) return 0;
  uint32_t buckets = t.hash[0], first = t.hash[1], words = t.hash[2];
  const uint32_t *bucket = (const uint32_t *)((const ElfW(Addr) *)(t.hash + 4) + words);
  const uint32_t *chain = bucket + buckets;
  uint32_t h = 5381;
  for (const char *c = name; *c; c++) h = h * 33 + (unsigned char)*c;
  if (!buckets) return 0;
  uint32_t i = bucket[h % buckets];
  if (i < first) return 0;
  for (;; i++) {
    uint32_t entry = chain[i - first];
    if ((entry | 1) == (h | 1) && t.symbols[i].st_shndx != SHN_UNDEF && !compare(t.strings + t.symbols[i].st_name, name))
      return (void *)(object->l_addr + t.symbols[i].st_value);
    if (entry & 1) return 0;
  }
}

/* struct link_map *, the program itself; 0 in a process without a dynamic section (none that could hold us).
 * Programs made by unusual linkers have no PT_PHDR; then the ELF header, which stands right before the program
 * headers, is the beginning of the segment at offset 0. */
static const void *first_object(void) {
  const ElfW(Phdr) *headers = (const ElfW(Phdr) *)getauxval(AT_PHDR);
  size_t count = getauxval(AT_PHNUM);
  ElfW(Addr) bias = 0;
  const ElfW(Dyn) *dynamic = 0;
  int biased = 0;
  if (!headers) return 0;
  for (size_t i = 0; i < count; i++)
    if (headers[i].p_type == PT_PHDR) bias = (ElfW(Addr))headers - headers[i].p_vaddr, biased = 1;
  if (!biased) {
    const ElfW(Ehdr) *header = (const ElfW(Ehdr) *)headers - 1;
    if ((size_t)(const char *)header % 4096 || !begins((const char *)header->e_ident, "\177ELF")) return 0;
    for (size_t i = 0; i < count; i++)
      if (headers[i].p_type == PT_LOAD && headers[i].p_offset == 0) bias = (ElfW(Addr))header - headers[i].p_vaddr;
  }
  for (size_t i = 0; i < count; i++)
    if (headers[i].p_type == PT_DYNAMIC) dynamic = (const ElfW(Dyn) *)(bias + headers[i].p_vaddr);
  for (; dynamic && dynamic->d_tag != DT_NULL; dynamic++)
    if (dynamic->d_tag == DT_DEBUG && dynamic->d_un.d_ptr) return ((struct r_debug *)dynamic->d_un.d_ptr)->r_map;
  return 0;
}

static const char *object_name(const struct link_map *object) {
  const char *soname = tables_of(object).soname;
  return soname ? soname : after_last_slash(object->l_name ? object->l_name : "");
}

/* In libc since 2.34, in libdl before. Both stand near the head of the list and are never unloaded, so the walk
 * needs no lock of the loader's. */
static int find_true_functions(void) {
  if (atomic_load_explicit(&true_dlsym, memory_order_acquire)) return 1;
  for (const struct link_map *object = first_object(); object; object = object->l_next) {
    const char *name = object_name(object);
    if (compare(name, "libc.so.6") && compare(name, "libdl.so.2")) continue;
    void *sym = defined_in(object, "dlsym"), *vsym = defined_in(object, "dlvsym"), *open = defined_in(object, "dlopen"),
         *addr = defined_in(object, "dladdr1");
    if (!sym || !vsym || !open || !addr) continue;
    atomic_store_explicit(&true_dlvsym, (dlvsym_t *)vsym, memory_order_relaxed);
    atomic_store_explicit(&true_dlopen, (dlopen_t *)open, memory_order_relaxed);
    atomic_store_explicit(&true_dladdr1, (dladdr1_t *)addr, memory_order_relaxed);
    atomic_store_explicit(&true_dlerror, (dlerror_t *)defined_in(object, "dlerror"), memory_order_relaxed);
    atomic_store_explicit(&true_dlsym, (dlsym_t *)sym, memory_order_release);
    return 1;
  }
  return 0;
}

/* Another C library: CUDA is not for it, but its programs come into a run all the same (an Alpine binary started by a
 * shell), and must find everything where it is. */
static void *foreign_function(const char *name) {
  for (const struct link_map *object = first_object(); object; object = object->l_next) {
    const char *soname = tables_of(object).soname;
    void *found = soname && !compare(soname, "libgpufence.so") ? 0 : defined_in(object, name);
    if (found) return found;
  }
  return 0;
}

/* ---- What an object is ----------------------------------------------------------------------------------- */

static const struct link_map *object_at(const void *address) {
  Dl_info info;
  void *object = 0;
  if (!address || !true_dladdr1(address, &info, &object, RTLD_DL_LINKMAP)) return 0;
  return object;
}

/* dlmopen gives a program a second set of libraries, drivers included, in which we are not: what is found there must
 * stay there, or one driver is initialised and another one used. */
static int in_our_namespace(const struct link_map *object) {
  while (object && object->l_prev) object = object->l_prev;
  return object == first_object();
}

/* A runtime is told by its version nodes: wheels rename the file and the soname. */
static int runtime_node_of(const struct tables *t) {
  if (!t->definitions || !t->strings) return 0;
  const char *at = (const char *)t->definitions;
  for (;;) {
    const ElfW(Verdef) *definition = (const ElfW(Verdef) *)at;
    const ElfW(Verdaux) *aux = (const ElfW(Verdaux) *)(at + definition->vd_aux);
    const char *name = t->strings + aux->vda_name;
    if (!(definition->vd_flags & VER_FLG_BASE)) {
      if (!compare(name, "libcudart.so.11.0")) return GPUFENCE_NODE_RUNTIME_11;
      if (!compare(name, "libcudart.so.12")) return GPUFENCE_NODE_RUNTIME_12;
      if (!compare(name, "libcudart.so.13")) return GPUFENCE_NODE_RUNTIME_13;
    }
    if (!definition->vd_next) return 0;
    at += definition->vd_next;
  }
}

static int object_kind(const void *link_map, int *runtime_node) {
  const struct link_map *object = link_map;
  if (!object) return GPUFENCE_OBJECT_OTHER;
  struct tables t = tables_of(object);
  if (t.soname && !compare(t.soname, "libgpufence.so")) return GPUFENCE_OBJECT_GATE;
  const char *name = t.soname ? t.soname : after_last_slash(object->l_name ? object->l_name : "");
  if (begins(name, "libcuda.so")) return GPUFENCE_OBJECT_DRIVER;
  if (begins(name, "libnvidia-ml.so")) return GPUFENCE_OBJECT_NVML;
  if (begins(name, "libnvidia-") || begins(name, "libcudadebugger.so")) return GPUFENCE_OBJECT_NVIDIA;
  int node = runtime_node_of(&t);
  if (runtime_node) *runtime_node = node;
  return node ? GPUFENCE_OBJECT_RUNTIME : GPUFENCE_OBJECT_OTHER;
}

static int find_hook(const char *name, int node) {
  uint32_t low = 0, high = HOOKS;
  while (low < high) {
    uint32_t middle = (low + high) / 2;
    int order = compare(hook_name(middle), name);
    if (!order) order = (int)hook_nodes[middle] - node;
    if (!order) return (int)middle;
    if (order < 0) low = middle + 1;
    else high = middle;
  }
  return -1;
}

/* ---- No core --------------------------------------------------------------------------------------------- */

static int missing_driver(void) { return 500; }  /* CUDA_ERROR_NOT_FOUND */
static int missing_runtime(void) { return 500; } /* cudaErrorSymbolNotFound */
static int missing_nvml(void) { return 13; }     /* NVML_ERROR_FUNCTION_NOT_FOUND */
static int no_device(void) { return 100; }       /* CUDA_ERROR_NO_DEVICE */

static void *missing(int node) {
  if (node == GPUFENCE_NODE_DRIVER) return (void *)missing_driver;
  if (node == GPUFENCE_NODE_NVML) return (void *)missing_nvml;
  return (void *)missing_runtime;
}

/* The true function of a hook, without the core: in scope behind us, else in any loaded object of its kind. */
static void *true_function(uint32_t index) {
  const char *name = hook_name(index);
  int node = hook_nodes[index];
  void *found = 0;
  if (node < 10) found = true_dlsym(RTLD_NEXT, name);
  int want = node == GPUFENCE_NODE_DRIVER ? GPUFENCE_OBJECT_DRIVER
             : node == GPUFENCE_NODE_NVML ? GPUFENCE_OBJECT_NVML
                                          : GPUFENCE_OBJECT_RUNTIME;
  for (const struct link_map *object = first_object(); object && !found; object = object->l_next) {
    int runtime = 0;
    if (object_kind(object, &runtime) == want && (node < 10 || runtime == node)) found = defined_in(object, name);
  }
  return found ? found : missing(node);
}

static _Atomic(void *) denied_lookup[2]; /* the denied driver's cuGetProcAddress and cuGetProcAddress_v2 */

static int deny_in_answer(const char *symbol, void **out, int result) {
  if (!result && out && *out && symbol && !compare(symbol, "cuInit")) *out = (void *)no_device;
  return result;
}
static int denied_get_proc_address(const char *symbol, void **out, int version, uint64_t flags) {
  int (*real)(const char *, void **, int, uint64_t) =
      (int (*)(const char *, void **, int, uint64_t))atomic_load(&denied_lookup[0]);
  return deny_in_answer(symbol, out, real(symbol, out, version, flags));
}
static int denied_get_proc_address_v2(const char *symbol, void **out, int version, uint64_t flags, void *status) {
  int (*real)(const char *, void **, int, uint64_t, void *) =
      (int (*)(const char *, void **, int, uint64_t, void *))atomic_load(&denied_lookup[1]);
  return deny_in_answer(symbol, out, real(symbol, out, version, flags, status));
}

/* design §2: deny if asked to, or if unset and a view or cap stands in the environment, or the admin requires it.
 * Returns the reason, or 0 to let CUDA through. */
static const char *reason_to_deny(void) {
  static const char *const wants[] = {
      "GPUFENCE_VIEW", "GPUFENCE_DEVICES", "GPUFENCE_GPU_MEM", "GPUFENCE_GPU_MEM_PER_PROCESS",
      "GPUFENCE_GPU_MEM_PER_JOB", "GPUFENCE_GPU_MEM_PER_USER", "GPUFENCE_GPU_MEM_PER_GROUP", "GPUFENCE_GPU_MEM_TOTAL",
      "GPUFENCE_GPU_MEM_TOTAL_PER_JOB", "GPUFENCE_GPU_MEM_TOTAL_PER_USER", "GPUFENCE_GPU_MEM_OUTER"};
  const char *on_error = environment("GPUFENCE_ON_ERROR");
  if (syscall(SYS_faccessat, -100 /* AT_FDCWD */, "/etc/gpufence/require", 0) == 0) return "/etc/gpufence/require exists";
  const char *off = environment("GPUFENCE");
  if (off && !compare(off, "off")) return 0;
  if (on_error && !compare(on_error, "deny")) return "GPUFENCE_ON_ERROR=deny";
  if (on_error && *on_error) return 0;
  for (size_t i = 0; i < sizeof wants / sizeof *wants; i++)
  {
    const char *value = environment(wants[i]);
    if (value && (*value || i == 0)) return wants[i]; /* an empty view is one without GPUs */
  }
  return 0;
}

static void *without_core(uint32_t index) {
  void *target = true_function(index);
  if (reason_to_deny()) {
    if (!compare(hook_name(index), "cuInit")) return (void *)no_device;
    if (!compare(hook_name(index), "cuGetProcAddress") && target != (void *)missing_driver) {
      atomic_store(&denied_lookup[0], target);
      target = (void *)denied_get_proc_address;
    }
    if (!compare(hook_name(index), "cuGetProcAddress_v2") && target != (void *)missing_driver) {
      atomic_store(&denied_lookup[1], target);
      target = (void *)denied_get_proc_address_v2;
    }
  }
  /* A missing function may come with a library that is loaded later: only what was found is kept. */
  if (target != missing(hook_nodes[index])) __atomic_store_n(&gate_slots[index], target, __ATOMIC_RELEASE);
  return target;
}

/* ---- The core -------------------------------------------------------------------------------------------- */

static _Atomic(const struct gpufence_core *) core;
static _Atomic int core_failed;
static __thread int inside; /* this thread is loading the core or arming: it passes through */

static size_t put(char *line, size_t at, size_t room, const char *text) {
  while (*text && at < room) line[at++] = *text++;
  return at;
}

static void say_not_fenced(const char *subject, const char *why) {
  char line[768], digits[24];
  size_t at = 0, n = sizeof digits, room = sizeof line - 1;
  long pid = syscall(SYS_getpid);
  digits[--n] = 0;
  do digits[--n] = (char)('0' + pid % 10);
  while (pid /= 10);
  const char *deny = reason_to_deny();
  at = put(line, at, room, "gpufence[");
  at = put(line, at, room, digits + n);
  at = put(line, at, room, "] GF501 error: not fenced: ");
  at = put(line, at, room, subject);
  at = put(line, at, room, why);
  at = put(line, at, room, deny ? "; CUDA is denied, because of " : "; CUDA runs without the fence");
  if (deny) at = put(line, at, room, deny);
  line[at++] = '\n';
  syscall(SYS_write, 2, line, at);
}

/* The dl functions are filled in before the core sees it. */
static struct gpufence_gate api = {
    .version = GPUFENCE_GATE_VERSION,
    .hooks = HOOKS,
    .hook_name = hook_name,
    .hook_node = hook_node,
    .thunk = hook_thunk,
    .slots = gate_slots,
    .missing = missing,
    .object_kind = object_kind,
    .first_object = first_object,
};

/* Beside ourselves. $ORIGIN serves a relative LD_PRELOAD after a chdir; a secure process may not use it. */
static void *open_core(void) {
  char path[4096];
  size_t at = 0;
  const struct link_map *self = object_at(gate_thunks);
  const char *name = self ? self->l_name : 0;
  if (name && *name == '/') {
    size_t directory = (size_t)(after_last_slash(name) - name);
    for (; at < directory && at < sizeof path - 32; at++) path[at] = name[at];
  } else {
    at = put(path, at, sizeof path - 32, "$ORIGIN/");
  }
  at = put(path, at, sizeof path - 1, "libgpufence-core.so");
  path[at] = 0;
  return true_dlopen(path, RTLD_NOW);
}

static const struct gpufence_core *load_core(void) {
  const struct gpufence_core *loaded = atomic_load_explicit(&core, memory_order_acquire);
  if (loaded || atomic_load_explicit(&core_failed, memory_order_relaxed)) return loaded;
  /* Several threads may come here at once. dlopen answers all of them alike, and they store the same values:
   * no lock, because another thread's constructor in dlopen may itself wait for us. */
  const char *why = 0;
  void *handle = open_core();
  if (!handle) {
    why = true_dlerror ? true_dlerror() : 0;
    if (!why) why = "libgpufence-core.so can't be loaded";
  } else {
    gpufence_core_entry *entry = (gpufence_core_entry *)true_dlsym(handle, "gpufence_core");
    __atomic_store_n(&api.dlsym, true_dlsym, __ATOMIC_RELAXED);
    __atomic_store_n(&api.dlvsym, true_dlvsym, __ATOMIC_RELAXED);
    __atomic_store_n(&api.dlopen, true_dlopen, __ATOMIC_RELAXED);
    __atomic_store_n(&api.dladdr1, true_dladdr1, __ATOMIC_RELAXED);
    loaded = entry ? entry(&api) : 0;
    if (!loaded) why = "libgpufence-core.so is of another version than libgpufence.so";
  }
  if (loaded) {
    atomic_store_explicit(&core, loaded, memory_order_release);
  } else if (!atomic_exchange(&core_failed, 1)) {
    say_not_fenced("", why);
  }
  return loaded;
}

HIDDEN void *gate_resolve(uint32_t index, void *caller) {
  if (!find_true_functions()) return missing(hook_nodes[index]);
  if (inside) return true_function(index);
  inside = 1;
  const struct gpufence_core *loaded = load_core();
  void *target = loaded ? loaded->resolve(index, caller) : without_core(index);
  inside = 0;
  return target ? target : true_function(index);
}

/* ---- dlsym ----------------------------------------------------------------------------------------------- */

struct answer {
  void *value;
  void *jump; /* not 0: jump there instead */
};

static int ours(const char *name) {
  if (!name) return 0;
  if (begins(name, "__cuda")) name += 2; /* what nvcc makes of kernel<<<>>> */
  if (name[0] == 'c' && name[1] == 'u') {
    const char *rest = begins(name, "cuda") ? name + 4 : name + 2;
    return *rest >= 'A' && *rest <= 'Z';
  }
  return begins(name, "nvml") && name[4] >= 'A' && name[4] <= 'Z';
}

/* Hooks lead to one driver, the one that its soname finds. A handle of the loader's is the object's link map. What the
 * object is comes first: dlopen would look through every directory of libraries for a driver that is not loaded. */
static int is_second_driver(const struct link_map *object) {
  if (object_kind(object, 0) != GPUFENCE_OBJECT_DRIVER || !in_our_namespace(object)) return 0;
  const void *first = true_dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  return first && first != object;
}

/* What a program gets of a driver that is not the fence's: its own functions, or no GPU where that would be a way
 * around a view or a cap. */
static void *of_second_driver(const struct link_map *object, const char *name, void *found) {
  static _Atomic int said;
  if (!atomic_exchange(&said, 1))
    say_not_fenced(object->l_name, " is a second CUDA driver in this process, and only the first one is fenced");
  if (!reason_to_deny()) return found;
  if (!compare(name, "cuInit")) return (void *)no_device;
  int which = !compare(name, "cuGetProcAddress") ? 0 : !compare(name, "cuGetProcAddress_v2") ? 1 : -1;
  if (which < 0) return found;
  void *expected = 0;
  if (!atomic_compare_exchange_strong(&denied_lookup[which], &expected, found) && expected != found)
    return (void *)missing_driver; /* a third one */
  return which ? (void *)denied_get_proc_address_v2 : (void *)denied_get_proc_address;
}

/* The index of the hook that stands for `found`, if that is a driver's, runtime's or NVML's; else -1. */
static int hook_for(const char *name, const void *found) {
  int runtime = 0, index = -1;
  const struct link_map *object = object_at(found);
  if (!in_our_namespace(object)) return -1;
  switch (object_kind(object, &runtime)) {
    case GPUFENCE_OBJECT_DRIVER: index = find_hook(name, GPUFENCE_NODE_DRIVER); break;
    case GPUFENCE_OBJECT_NVML: index = find_hook(name, GPUFENCE_NODE_NVML); break;
    case GPUFENCE_OBJECT_RUNTIME: index = find_hook(name, runtime); break;
    default: break;
  }
  if (index < 0) {
    const struct gpufence_core *loaded = atomic_load_explicit(&core, memory_order_acquire);
    if (loaded) index = loaded->route(found);
  }
  return index;
}

static int hooked_anywhere(const char *name) {
  static const unsigned char nodes[] = {GPUFENCE_NODE_DRIVER, GPUFENCE_NODE_NVML, GPUFENCE_NODE_RUNTIME_11,
                                        GPUFENCE_NODE_RUNTIME_12, GPUFENCE_NODE_RUNTIME_13};
  for (size_t i = 0; i < sizeof nodes; i++)
    if (find_hook(name, nodes[i]) >= 0) return 1;
  return 0;
}

static int is_gate(const void *address) { return object_kind(object_at(address), 0) == GPUFENCE_OBJECT_GATE; }

/* From here, so that RTLD_NEXT means: behind the gate. */
static void *look_up(void *handle, const char *name, const char *version) {
  return version ? true_dlvsym(handle, name, version) : true_dlsym(handle, name);
}

static struct answer value(void *address) { return (struct answer){address, 0}; }
static struct answer hook_or(int index, void *otherwise) {
  return value(index < 0 ? otherwise : hook_thunk((uint32_t)index));
}

/* RTLD_DEFAULT for a hooked name: our export if this caller would have found a driver's (a runtime's) without us,
 * else what it would have found. */
static struct answer answer_default(const char *name, const char *version, const void *caller, void *jump) {
  void *first = look_up(RTLD_DEFAULT, name, version);
  if (first && !is_gate(first)) { /* the program itself defines it, or a library that stands before us */
    int index = hook_for(name, first);
    return index < 0 ? (struct answer){0, jump} : hook_or(index, first);
  }
  void *behind = look_up(RTLD_NEXT, name, version);
  if (behind) return hook_or(hook_for(name, behind), behind);
  /* Not in the global scope; perhaps in the caller's own (a plug-in opened RTLD_LOCAL). Its link map is its handle. */
  const struct link_map *object = object_at(caller);
  void *local = object ? look_up((void *)object, name, version) : 0;
  if (local && !is_gate(local)) return hook_or(hook_for(name, local), local);
  return value(look_up(RTLD_NEXT, name, version)); /* NULL once more, so that dlerror speaks of this look-up */
}

/* RTLD_NEXT for a hooked name, from a wrapper before or behind us: our hook if a driver is loaded, else NULL. Its own
 * export must not come back, nor the bare driver's. */
static struct answer answer_next(const char *name, const char *version) {
  void *behind = look_up(RTLD_NEXT, name, version);
  if (!behind) return value(0);
  int index = hook_for(name, behind);
  if (index < 0 && true_dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD)) index = find_hook(name, GPUFENCE_NODE_DRIVER);
  return hook_or(index, behind);
}

static struct answer answer_from_handle(void *handle, const char *name, const char *version) {
  void *found = look_up(handle, name, version);
  if (!found) return value(0);
  /* The handle of the program itself: its scope begins with us, driver or not. */
  if (is_gate(found)) {
    void *behind = look_up(RTLD_NEXT, name, version);
    return behind ? hook_or(hook_for(name, behind), behind) : value(0);
  }
  const struct link_map *object = object_at(found);
  if (is_second_driver(object)) return value(of_second_driver(object, name, found));
  return hook_or(hook_for(name, found), found);
}

static int left_alone(const char *name, const void *caller) {
  if (!ours(name)) return 1;
  int kind = object_kind(object_at(caller), 0);
  /* NVIDIA's libraries look their own names up (on WSL2 the driver itself does). */
  return kind == GPUFENCE_OBJECT_DRIVER || kind == GPUFENCE_OBJECT_NVML || kind == GPUFENCE_OBJECT_NVIDIA;
}

/* CUPTI admits one subscriber. The core itself looks up past us. */
static void notice_tool(const char *name, const void *caller) {
  if (!name || !begins(name, "cupti")) return;
  const struct gpufence_core *loaded = atomic_load_explicit(&core, memory_order_acquire);
  if (loaded) loaded->tool_wanted(name, caller);
}

static struct answer answer(void *handle, const char *name, const char *version, const void *caller, void *jump) {
  notice_tool(name, caller);
  if (left_alone(name, caller)) return (struct answer){0, jump};
  if (handle == RTLD_DEFAULT || handle == RTLD_NEXT) {
    if (!hooked_anywhere(name)) return (struct answer){0, jump};
    return handle == RTLD_DEFAULT ? answer_default(name, version, caller, jump) : answer_next(name, version);
  }
  return answer_from_handle(handle, name, version);
}

HIDDEN struct answer gate_dlsym(void *handle, const char *name, void *caller) {
  if (!find_true_functions()) {
    int global = handle == RTLD_DEFAULT || handle == RTLD_NEXT;
    return global && ours(name) ? value(0) : (struct answer){0, foreign_function("dlsym")};
  }
  return answer(handle, name, 0, caller, (void *)true_dlsym);
}

HIDDEN struct answer gate_dlvsym(void *handle, const char *name, const char *version, void *caller) {
  if (!find_true_functions()) return (struct answer){0, foreign_function("dlvsym")};
  if (!version) return (struct answer){0, (void *)true_dlvsym};
  return answer(handle, name, version, caller, (void *)true_dlvsym);
}
