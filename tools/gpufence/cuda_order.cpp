// Parent and child in one file, because the lines between them are their only contract: one UUID each, then
// "end"; or "error" and a reason.
#include "tools/gpufence/cuda_order.h"

#include <cuda.h>
#include <dlfcn.h>

#include <array>
#include <chrono>
#include <cstdio>

#include "tools/gpufence/child.h"

namespace gpufence::command {
namespace {

// cuInit takes seconds on a machine with many GPUs and no persistence daemon.
constexpr auto kPatience = std::chrono::seconds(30);

std::string text_of(const CUuuid& uuid) {
  std::string text = "GPU-";
  for (int i = 0; i < 16; ++i) {
    std::array<char, 4> hex{};
    std::snprintf(hex.data(), hex.size(), "%02x",
                  static_cast<unsigned>(static_cast<unsigned char>(uuid.bytes[i])));
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += hex.data();
  }
  return text;
}

}  // namespace

const char* name_of(Order order) {
  return order == Order::pci ? "PCI_BUS_ID" : "FASTEST_FIRST";
}

tl::expected<std::vector<std::string>, std::string> ask_cuda_order(Order order,
                                                                   const Environment& environment,
                                                                   const std::string& driver) {
  Environment child_environment = environment;
  for (const char* mine : {"CUDA_VISIBLE_DEVICES", "LD_PRELOAD", "GPUFENCE_VIEW", "GPUFENCE_MASK"})
    child_environment.unset(mine);
  child_environment.set("CUDA_DEVICE_ORDER", name_of(order));
  child_environment.set("GPUFENCE", "off");

  const auto said =
      answer_of("/proc/self/exe", {"gpufence", kCudaOrderCommand, driver}, child_environment, kPatience);
  if (!said) return tl::unexpected(said.error());
  const std::string& answer = *said;

  std::vector<std::string> uuids;
  for (std::size_t at = 0; at < answer.size();) {
    const std::size_t end = answer.find('\n', at);
    if (end == std::string::npos) break;
    const std::string line = answer.substr(at, end - at);
    at = end + 1;
    if (line == "end") return uuids;
    if (line.compare(0, 6, "error ") == 0) return tl::unexpected(line.substr(6));
    uuids.push_back(line);
  }
  return tl::unexpected(std::string("the child that asked CUDA gave no answer"));
}

int answer_cuda_order(std::span<const std::string> words) {
  const auto fail = [](const std::string& why) {
    std::printf("error %s\n", why.c_str());
    return 1;
  };
  if (words.size() != 1) return fail("no driver was named");
  void* driver = ::dlopen(words[0].c_str(), RTLD_NOW | RTLD_LOCAL);
  if (driver == nullptr) {
    const char* reason = ::dlerror();
    return fail(reason != nullptr ? reason : words[0]);
  }
  const auto init = reinterpret_cast<decltype(::cuInit)*>(::dlsym(driver, "cuInit"));
  const auto count = reinterpret_cast<decltype(::cuDeviceGetCount)*>(::dlsym(driver, "cuDeviceGetCount"));
  const auto get = reinterpret_cast<decltype(::cuDeviceGet)*>(::dlsym(driver, "cuDeviceGet"));
  auto uuid = reinterpret_cast<CUresult (*)(CUuuid*, CUdevice)>(::dlsym(driver, "cuDeviceGetUuid_v2"));
  // Drivers before 11.4 have the first version alone; without MIG both say the same.
  if (uuid == nullptr)
    uuid = reinterpret_cast<CUresult (*)(CUuuid*, CUdevice)>(::dlsym(driver, "cuDeviceGetUuid"));
  const auto text = reinterpret_cast<decltype(::cuGetErrorString)*>(::dlsym(driver, "cuGetErrorString"));
  if (init == nullptr || count == nullptr || get == nullptr || uuid == nullptr)
    return fail(words[0] + " lacks functions of the CUDA driver");

  const auto said = [&](const char* call, CUresult status) {
    const char* words_of_driver = nullptr;
    if (text != nullptr) text(status, &words_of_driver);
    return std::string(call) + ": " +
           (words_of_driver != nullptr ? words_of_driver
                                       : "error " + std::to_string(static_cast<int>(status)));
  };
  if (const CUresult status = init(0); status != CUDA_SUCCESS) return fail(said("cuInit", status));
  int devices = 0;
  if (const CUresult status = count(&devices); status != CUDA_SUCCESS)
    return fail(said("cuDeviceGetCount", status));
  for (int ordinal = 0; ordinal < devices; ++ordinal) {
    CUdevice device = 0;
    CUuuid identity{};
    if (const CUresult status = get(&device, ordinal); status != CUDA_SUCCESS)
      return fail(said("cuDeviceGet", status));
    if (const CUresult status = uuid(&identity, device); status != CUDA_SUCCESS)
      return fail(said("cuDeviceGetUuid", status));
    std::printf("%s\n", text_of(identity).c_str());
  }
  std::printf("end\n");
  std::fflush(stdout);
  return 0;
}

}  // namespace gpufence::command
