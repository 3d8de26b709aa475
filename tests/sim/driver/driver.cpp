// cuInit's work, the gate's slow paths, and what the process keeps for good.
#include "driver.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "instead.h"
#include "mask.h"
#include "queue.h"

namespace gpufence::sim {
namespace {

constinit std::atomic<Driver*> the_driver{nullptr};
// A word in a page that the kernel clears in every forked child, raw clone included: 1 where CUDA is live. A
// child of a process with CUDA live gets CUDA_ERROR_NOT_INITIALIZED from every call, cuInit too: NVIDIA
// leaves it undefined (CUDA C++ guideline 1.6), drivers since 361.42 answer so (github.com/inducer/pycuda
// issue 137).
constinit std::atomic<std::atomic<uint32_t>*> life{nullptr};
constinit std::mutex init_lock;
constinit bool init_failed = false;

constinit std::atomic<const char*> calls_file{nullptr};

std::atomic<uint32_t>* make_life() {
  void* page = mmap(nullptr, static_cast<size_t>(sysconf(_SC_PAGESIZE)), PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return nullptr;
  madvise(page, static_cast<size_t>(sysconf(_SC_PAGESIZE)), MADV_WIPEONFORK);
  return static_cast<std::atomic<uint32_t>*>(page);
}

}  // namespace

constinit std::atomic<int> recording{0};

Driver& driver() {
  return *the_driver.load(std::memory_order_acquire);
}

bool ready() {
  const std::atomic<uint32_t>* word = life.load(std::memory_order_acquire);
  return word != nullptr && word->load(std::memory_order_relaxed) == 1;
}

CUresult initialise() {
  // A child forked by one thread while another is in here must not find the lock taken for ever.
  keep_forks_out();
  static const int registered =
      pthread_atfork([] { init_lock.lock(); }, [] { init_lock.unlock(); }, [] { init_lock.unlock(); });
  (void)registered;
  std::lock_guard<std::mutex> held(init_lock);
  if (life.load() != nullptr) return ready() ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED;
  if (init_failed) return CUDA_ERROR_NO_DEVICE;
  // Read here, once, and never again: a mask that changes later changes nothing.
  const char* mask = getenv("CUDA_VISIBLE_DEVICES");
  const char* order = getenv("CUDA_DEVICE_ORDER");
  const Machine& machine = this_machine();
  const std::vector<size_t> visible = visible_gpus(machine, mask, order);
  if (visible.empty()) {
    init_failed = true;
    return CUDA_ERROR_NO_DEVICE;
  }
  std::atomic<uint32_t>* word = make_life();
  if (word == nullptr) return CUDA_ERROR_OPERATING_SYSTEM;
  auto* made = new Driver(machine);
  for (size_t i = 0; i < machine.units(); ++i) {
    auto* device = new Device;
    device->gpu = &machine.unit(i);
    device->host_index = i;
    made->host.push_back(device);
  }
  for (size_t host_index : visible) {
    made->host[host_index]->ordinal = static_cast<int>(made->visible.size());
    made->visible.push_back(made->host[host_index]);
  }
  the_driver.store(made, std::memory_order_release);
  word->store(1, std::memory_order_relaxed);
  life.store(word, std::memory_order_release);
  return CUDA_SUCCESS;
}

bool lose(Device& device) {
  if (device.calls.fetch_add(1) + 1 < device.gpu->lost_at) return false;
  if (device.lost.exchange(true)) return true;
  driver().occupancy.mark_lost(device.gpu->is_instance() ? device.gpu->parent : device.host_index);
  // What still runs there ends, and nothing more begins.
  driver().contexts.each_live([&](Context* context) {
    if (context->device == &device) fail(*context, kLost);
  });
  return true;
}

namespace {

void take_time(const char* name) {
  for (const Slow& slow : this_machine().slow) {
    if (slow.call != name) continue;
    timespec rest{static_cast<time_t>(slow.ns / 1'000'000'000), static_cast<long>(slow.ns % 1'000'000'000)};
    while (nanosleep(&rest, &rest) != 0 && errno == EINTR) {
    }
  }
}

}  // namespace

void write_call(const char* name, CUresult result) {
  take_time(name);
  if (recording.load(std::memory_order_acquire) == 0) {
    const char* file = getenv("GPUFENCE_SIM_CALLS");
    if (file == nullptr || *file == '\0') {
      recording.store(this_machine().slow.empty() ? 1 : 2, std::memory_order_release);
      return;
    }
    // Absolute, as the program may change its directory; opened for each line, as it may close what it did
    // not open. Leaked.
    char here[4096];
    std::string path =
        *file == '/' || getcwd(here, sizeof here) == nullptr ? file : std::string(here) + "/" + file;
    const char* none = nullptr;
    char* copy = strdup(path.c_str());
    if (!calls_file.compare_exchange_strong(none, copy)) ::free(copy);
    recording.store(2, std::memory_order_release);
  }
  const char* path = calls_file.load();
  if (path == nullptr) return;
  char line[256];
  const int length =
      snprintf(line, sizeof line, "%d %d %s %d\n", getpid(), gettid(), name, static_cast<int>(result));
  const int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (fd < 0) return;
  [[maybe_unused]] ssize_t n = write(fd, line, static_cast<size_t>(length));
  close(fd);
}

int unsupported(const char* name, std::atomic<bool>& said) {
  if (!said.exchange(true)) {
    char line[300];
    const std::string_view instead = instead_of_call(name);
    const int length = snprintf(line, sizeof line,
                                "gpufence[%d] GF601 warning: the simulator has no %s: it answered "
                                "CUDA_ERROR_NOT_SUPPORTED; %.*s\n",
                                getpid(), name, static_cast<int>(instead.size()), instead.data());
    [[maybe_unused]] ssize_t n = write(STDERR_FILENO, line, static_cast<size_t>(length));
  }
  return recorded(name, CUDA_ERROR_NOT_SUPPORTED);
}

}  // namespace gpufence::sim
