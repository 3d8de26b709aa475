/* What the gate and the core hand each other when the core is loaded. Plain C: the gate has no C++ runtime.
 * The gate owns the exported names, their slots and the true dl functions; the core owns every decision.
 * Both come from one build; `version` only catches a library that was replaced under a running program. */
#ifndef GPUFENCE_GATE_GATE_H
#define GPUFENCE_GATE_GATE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define GPUFENCE_GATE_VERSION 2u

/* Which library exports a hooked name. A runtime name stands once a version node, each with a slot of its own. */
enum gpufence_node {
  GPUFENCE_NODE_DRIVER = 0,     /* libcuda.so.1, unversioned */
  GPUFENCE_NODE_NVML = 1,       /* libnvidia-ml.so.1, unversioned */
  GPUFENCE_NODE_RUNTIME_11 = 11, /* libcudart.so.11.0 */
  GPUFENCE_NODE_RUNTIME_12 = 12, /* libcudart.so.12 */
  GPUFENCE_NODE_RUNTIME_13 = 13  /* libcudart.so.13 */
};

/* What an object of the process is, told by its soname or (runtime) by its version definitions. */
enum gpufence_object {
  GPUFENCE_OBJECT_OTHER = 0,
  GPUFENCE_OBJECT_DRIVER,
  GPUFENCE_OBJECT_NVML,
  GPUFENCE_OBJECT_RUNTIME,
  GPUFENCE_OBJECT_NVIDIA, /* other libraries of NVIDIA's driver: they look themselves up and are left alone */
  GPUFENCE_OBJECT_GATE
};

/* Passed to gpufence_core; lives as long as the process. */
struct gpufence_gate {
  uint32_t version;
  uint32_t hooks;                             /* number of exported hooks, slots and thunks */
  const char *(*hook_name)(uint32_t index);
  int (*hook_node)(uint32_t index);           /* enum gpufence_node */
  void *(*thunk)(uint32_t index);             /* the exported address */
  void **slots;                               /* slots[i]: where thunk i jumps */
  void *(*missing)(int node);                 /* a function that answers "no such entry point" in that level's code */
  void *(*dlsym)(void *, const char *);       /* the C library's own, not the gate's */
  void *(*dlvsym)(void *, const char *, const char *);
  void *(*dlopen)(const char *, int);
  int (*dladdr1)(const void *, void *info, void **link_map, int flags);
  int (*object_kind)(const void *link_map, int *runtime_node); /* enum gpufence_object */
  const void *(*first_object)(void);          /* struct link_map *, head of the list of loaded objects */
};

/* Returned by gpufence_core; static storage of the core. */
struct gpufence_core {
  uint32_t version;
  /* The first call of hook `index` from `caller` (its return address): arm if need be, and say where to jump.
   * NULL: the gate finds the true function itself. */
  void *(*resolve)(uint32_t index, void *caller);
  /* The index of the hook for which the driver handed out `address`, or -1. */
  int (*route)(const void *address);
  /* `caller` looks CUPTI's function `name` up: whoever holds CUPTI on the fence's behalf leaves. */
  void (*tool_wanted)(const char *name, const void *caller);
};

/* The only export of libgpufence-core.so. NULL when the versions differ. */
typedef const struct gpufence_core *gpufence_core_entry(const struct gpufence_gate *);

#ifdef __cplusplus
}
#endif
#endif
