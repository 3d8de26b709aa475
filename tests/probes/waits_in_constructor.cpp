// A library whose constructor waits for a thread that uses CUDA: the loader's lock is held all the while.
#include <pthread.h>

extern "C" void step();

static void* in_thread(void*) {
  step();
  return nullptr;
}

__attribute__((constructor)) static void begin() {
  pthread_t thread;
  if (pthread_create(&thread, nullptr, in_thread, nullptr) == 0) pthread_join(thread, nullptr);
}
