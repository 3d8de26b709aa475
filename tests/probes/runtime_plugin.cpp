// A plug-in that is linked to a runtime of its own. Built with -O2, so that `last` makes a tail call: whoever
// called it is the caller.
extern "C" int cudaSetDevice(int device);
extern "C" int cudaDeviceSetMemPool(int device, void* pool);

static volatile int results = 0;

extern "C" void choose() {
  results = cudaSetDevice(0);
}
extern "C" void pool() {
  results = cudaDeviceSetMemPool(0, nullptr);
}
extern "C" int last() {
  return cudaDeviceSetMemPool(0, nullptr);
}
