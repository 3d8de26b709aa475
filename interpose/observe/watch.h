/* What the core and the optional observer (cupti/) hand each other. The observer tells which call of the CUDA runtime
 * each thread is in where the runtime is linked statically and its names are out of reach; what that means is for the
 * core to say. Plain C: the observer is a library of its own, opened late or never. Both come from one build; `version`
 * only catches a library that was replaced under a running program. */
#ifndef GPUFENCE_OBSERVE_WATCH_H
#define GPUFENCE_OBSERVE_WATCH_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define GPUFENCE_WATCH_VERSION 1u

/* What a call does besides having a name; bits. */
enum gpufence_watched {
  GPUFENCE_WATCHED_CHOOSES = 1,     /* it makes `device` the thread's GPU */
  GPUFENCE_WATCHED_ORDINAL = 2,     /* the runtime checks `device` by itself */
  GPUFENCE_WATCHED_LAUNCHES = 4,    /* `function`, `stream`, `kernel` */
  GPUFENCE_WATCHED_READS_MASK = 8,  /* its answer hangs on the visible devices */
  GPUFENCE_WATCHED_GIVES_BACK = 16, /* harmless in a forked child */
};

/* One runtime call, at its beginning and at its end. Valid during the callback, but for `name` and `kernel`. */
struct gpufence_watched_call {
  const char *name;  /* "cudaMalloc"; one pointer a call, for good */
  const void *frame; /* lies in the stack frame of the runtime's function: its caller is the program. NULL: not known */
  unsigned does;     /* gpufence_watched */
  int device;        /* ordinal */
  const void *function, *stream; /* const void * or CUkernel; cudaStream_t */
  const char *kernel;            /* mangled; NULL: not known */
};

/* The core's side; lives as long as the process. From any thread, inside CUPTI's callbacks: they neither throw nor wait. */
struct gpufence_watch_core {
  uint32_t version;
  void *(*dlopen)(const char *, int); /* the C library's own, not the gate's */
  void *(*dlsym)(void *, const char *);
  void (*entered)(const struct gpufence_watched_call *);
  void (*left)(const struct gpufence_watched_call *, int result); /* cudaError_t */
  /* Another wants in: `caller` is about to call (or was handed) CUPTI's function `name`. Calls stop(). */
  void (*give_way)(const char *name, const void *caller);
};

/* The observer's side; static storage. */
struct gpufence_watch {
  uint32_t version;
  /* Opens a libcupti that goes with a driver of that version (13000) and subscribes. NULL: it watches; else why not,
   * as a sentence's rest in static storage. Once a process. */
  const char *(*start)(const struct gpufence_watch_core *, int driver_version);
  /* Gives the subscription up for good. From any thread, any number of times; in a forked child it does nothing. */
  void (*stop)(void);
};

/* What libgpufence-cupti.so exports besides CUPTI's own names. */
#define GPUFENCE_WATCH_ENTRY "gpufence_watch"
typedef const struct gpufence_watch *gpufence_watch_entry(void);

#ifdef __cplusplus
}
#endif
#endif
