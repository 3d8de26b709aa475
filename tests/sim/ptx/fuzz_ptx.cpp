// libFuzzer over parse(): any bytes give a module or an error, in bounded time and memory. What parses is
// linked, its variables are laid out, and its kernels run for a moment on a block with no memory, so that
// decoded code is tried too.
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <thread>

#include "ptx/module.h"
#include "ptx/run.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace ptx = gpufence::sim::ptx;
  const auto parsed = ptx::parse(std::string_view(reinterpret_cast<const char*>(data), size));
  if (!parsed) return 0;
  uint64_t bytes = 0;
  for (const ptx::Global& global : (*parsed)->globals) bytes += global.size;
  const std::vector<uint64_t> addresses((*parsed)->globals.size(), 4096);
  for (size_t i = 0; bytes < (1 << 20) && i < (*parsed)->globals.size(); ++i)
    (void)(*parsed)->image(i, addresses);
  const auto linked = ptx::link({*parsed});
  if (!linked) return 0;
  for (const ptx::Function& function : (*linked)->functions) {
    if (!function.is_entry || function.static_shared_bytes > 65536) continue;
    const std::vector<uint8_t> params(function.param_bytes, 0x5a);
    std::vector<uint64_t> memory(512);
    const auto begin = reinterpret_cast<uint64_t>(memory.data());
    const ptx::AccessMap map({{begin, begin + 4096, true}});
    // Endless loops are legal programs: the first time that a warp gives way is their end.
    std::atomic<bool> cancel{true};
    ptx::Launch launch;
    launch.module = linked->get();
    launch.function = &function;
    launch.block = {40, 1, 1};
    launch.params = params.data();
    launch.memory = &map;
    launch.global_addresses.assign((*linked)->globals.size(), begin);
    launch.host_threads = 1;
    launch.cancel = &cancel;
    (void)ptx::run(launch);
  }
  return 0;
}
