// Names of GPUs for people.
#include "policies/gpu.h"

#include <algorithm>

namespace gpufence::policies {

std::string short_name(std::string_view name) {
  for (const std::string_view brand : {"NVIDIA ", "Tesla ", "GeForce "})
    if (name.substr(0, brand.size()) == brand) name.remove_prefix(brand.size());
  // What follows the model says how it is mounted and how much memory it has: "A100-SXM4-40GB", "H100 80GB
  // HBM3".
  for (const std::string_view mount : {"-SXM", "-PCI", " PCI", "-PG", " SXM"})
    name = name.substr(0, name.find(mount));
  std::size_t word = name.find(' ');
  while (word != std::string_view::npos) {
    const std::string_view rest = name.substr(word + 1);
    std::size_t digits = 0;
    while (digits < rest.size() && rest[digits] >= '0' && rest[digits] <= '9') ++digits;
    if (digits > 0 && rest.substr(digits, 2) == "GB") {
      name = name.substr(0, word);
      break;
    }
    word = name.find(' ', word + 1);
  }
  return std::string(name);
}

std::string host_name(const Gpu& gpu) {
  return "host GPU " + std::to_string(gpu.host_index) + " (" + short_name(gpu.name) + ", " + gpu.pci + ')';
}

std::string full_name(int ordinal, const Gpu& gpu) {
  return "CUDA " + std::to_string(ordinal) + " = " + host_name(gpu);
}

}  // namespace gpufence::policies
