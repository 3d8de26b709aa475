// Records an event of one GPU in a stream of another, which fails, from a stack of some odd kind.
// Usage: stacks
// plain|deep|threads|measured|small_thread|cancelled|context|signal|jit|return_address|base|far_base
//        stacks constructor LIBRARY · stacks before|after|python LIBRARY SCRIPT: an interpreter that runs it
#include <cuda.h>
#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <cstring>

#include "check.h"

#define KEPT extern "C" __attribute__((noinline, noclone))

static CUevent event;
static CUstream stream;

KEPT CUresult record() {
  const CUresult result = cuEventRecord(event, stream);
  asm volatile("" ::: "memory");  // not the last thing it does
  return result;
}

static CUcontext context[2];
static bool as_expected = false;
KEPT void step() {
  as_expected = cuCtxSetCurrent(context[1]) == CUDA_SUCCESS && record() == CUDA_ERROR_INVALID_HANDLE;
}

KEPT int deep(int depth) {
  if (depth == 0) step();
  const int below = depth > 0 ? deep(depth - 1) : 0;
  asm volatile("" ::: "memory");
  return below + 1;
}

KEPT void* in_thread(void*) {
  step();
  return &stream;
}
static void run_thread(size_t stack) {
  pthread_t thread;
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  if (stack > 0) pthread_attr_setstacksize(&attributes, stack);
  void* result = nullptr;
  if (pthread_create(&thread, &attributes, in_thread, nullptr) == 0) pthread_join(thread, &result);
  if (result != &stream) as_expected = false;
}

KEPT void* when_cancelled(void*) {
  pthread_cancel(pthread_self());
  step();
  pthread_testcancel();
  return nullptr;
}

static ucontext_t back, other;
KEPT void in_context() {
  step();
}

// A function whose name takes long to be read.
template <class... Parts>
struct Long {
  __attribute__((noinline, noclone)) static void run(Parts*...) {
    step();
    asm volatile("" ::: "memory");
  }
};
using Pair = Long<Long<int, char, double>, Long<long, short, float>, Long<Long<int>, Long<char>>>;
using Longer = Long<Pair, Long<Pair, Pair>, Long<Pair, Long<Pair*, Pair&>, Pair>>;
template struct Long<Longer>;
KEPT void in_measured_context() {
  Long<Longer>::run(nullptr);
}

static unsigned char measured[256 << 10];
KEPT void run_in_context(void (*function)()) {
  std::memset(measured, 0xa5, sizeof measured);
  getcontext(&other);
  other.uc_stack.ss_sp = measured;
  other.uc_stack.ss_size = sizeof measured;
  other.uc_link = &back;
  makecontext(&other, function, 0);
  swapcontext(&back, &other);
}

KEPT void on_signal(int) {
  step();
}

// A function that has no unwinding information: sub $8,%rsp; call *%rdi; add $8,%rsp; ret.
static const unsigned char kCode[] = {0x48, 0x83, 0xec, 0x08, 0xff, 0xd7, 0x48, 0x83, 0xc4, 0x08, 0xc3};

// Returns to nowhere, until it does return.
KEPT void with_bad_return_address() {
  auto** frame = static_cast<void**>(__builtin_frame_address(0));
  void* kept = frame[1];
  asm volatile("" : "+r"(frame));
  frame[1] = reinterpret_cast<void*>(0x4141414141414141);
  step();
  frame[1] = kept;
  asm volatile("" : "+r"(frame));
}

// Calls with a frame pointer that points to nothing, which is what its frame is found by.
KEPT void with_bad_base(unsigned long by) {
  auto* room = static_cast<volatile char*>(__builtin_alloca(64 + by % 2));  // so that it has a frame pointer
  room[0] = 0;
  asm volatile(
      "movq %%rbp, %%r12\n\tmovq %%rsp, %%r13\n\tandq $-16, %%rsp\n\t"
      "addq %1, %%rbp\n\tcall *%0\n\t"
      "movq %%r13, %%rsp\n\tmovq %%r12, %%rbp"
      :
      : "r"(step), "b"(by)
      : "r12", "r13", "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "memory", "cc");
}

// For scripts: one thread waits with the interpreter's lock in its hand until another has made its call
// without.
static sem_t made;
KEPT void step_and_tell() {
  step();
  sem_post(&made);
}
KEPT void wait_for_step() {
  sem_wait(&made);
}

static int run_python(const char* what, const char* library, const char* script) {
  void* python = dlopen(library, RTLD_NOW | RTLD_GLOBAL);
  if (python == nullptr) return 2;
  const auto start = reinterpret_cast<void (*)()>(dlsym(python, "Py_Initialize"));
  const auto run = reinterpret_cast<int (*)(const char*, void*)>(dlsym(python, "PyRun_SimpleStringFlags"));
  const auto end = reinterpret_cast<int (*)()>(dlsym(python, "Py_FinalizeEx"));
  sem_init(&made, 0, 0);
  if (!std::strcmp(what, "before")) step();
  start();
  if (run(script, nullptr) != 0) return 2;
  end();
  if (!std::strcmp(what, "after")) step();
  return 0;
}

int main(int argc, char** argv) {
  const char* what = argc > 1 ? argv[1] : "";
  CHECK(cuInit(0));
  for (int gpu = 0; gpu < 2; ++gpu) {
    CHECK(cuCtxCreate(&context[gpu], nullptr, 0, gpu));
    if (gpu == 0) CHECK(cuStreamCreate(&stream, 0));
    if (gpu == 1) CHECK(cuEventCreate(&event, 0));
  }
  if (!std::strcmp(what, "plain")) step();
  if (!std::strcmp(what, "deep")) deep(200);
  if (!std::strcmp(what, "threads")) run_thread(0);
  if (!std::strcmp(what, "small_thread")) run_thread(PTHREAD_STACK_MIN);
  if (!std::strcmp(what, "cancelled")) {
    pthread_t thread;
    void* result = nullptr;
    pthread_create(&thread, nullptr, when_cancelled, nullptr);
    pthread_join(thread, &result);
    if (result != PTHREAD_CANCELED) return 2;
  }
  if (!std::strcmp(what, "context")) {
    run_in_context(in_context);
  }
  if (!std::strcmp(what, "measured")) {
    run_in_context(in_measured_context);
    size_t untouched = 0;
    while (untouched < sizeof measured && measured[untouched] == 0xa5) ++untouched;
    std::printf("stack: %zu\n", sizeof measured - untouched);
  }
  if (!std::strcmp(what, "signal")) {
    static char stack[256 << 10];
    stack_t alternate{};
    alternate.ss_sp = stack;
    alternate.ss_size = sizeof stack;
    sigaltstack(&alternate, nullptr);
    struct sigaction action {};
    action.sa_handler = on_signal;
    action.sa_flags = SA_ONSTACK;
    sigaction(SIGUSR1, &action, nullptr);
    raise(SIGUSR1);
  }
  if (!std::strcmp(what, "jit")) {
    void* code = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    std::memcpy(code, kCode, sizeof kCode);
    mprotect(code, 4096, PROT_READ | PROT_EXEC);
    reinterpret_cast<void (*)(void (*)())>(code)(step);
  }
  if (!std::strcmp(what, "return_address")) with_bad_return_address();
  if (!std::strcmp(what, "base")) with_bad_base(0x4141414141414140);
  if (!std::strcmp(what, "far_base")) with_bad_base(32 << 20);
  if (!std::strcmp(what, "constructor")) {
    if (dlopen(argv[2], RTLD_NOW) == nullptr) return 2;
  }
  if (!std::strcmp(what, "python") || !std::strcmp(what, "before") || !std::strcmp(what, "after")) {
    if (const int status = run_python(what, argv[2], argv[3]); status != 0) return status;
  }
  std::printf("%s: %s\n", what, as_expected ? "as expected" : "NOT as expected");
  return as_expected ? 0 : 1;
}
