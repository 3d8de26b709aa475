// See devices.h.
#include "observe/devices.h"

#include <cstdio>

namespace gpufence::observe {

std::string uuid_text(const unsigned char (&bytes)[16]) {
  char text[48];
  std::snprintf(text, sizeof text, "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
                bytes[0], bytes[1], bytes[2], bytes[3], bytes[4], bytes[5], bytes[6], bytes[7], bytes[8],
                bytes[9], bytes[10], bytes[11], bytes[12], bytes[13], bytes[14], bytes[15]);
  return text;
}

std::string list_text(std::span<const Device> devices) {
  std::string out = std::to_string(devices.size()) + (devices.size() == 1 ? " GPU visible" : " GPUs visible");
  const char* lead = ": ";
  for (const Device& device : devices) {
    out += lead + ("CUDA " + std::to_string(device.ordinal));
    if (device.host_index >= 0) out += " = host GPU " + std::to_string(device.host_index);
    lead = ", ";
  }
  return out;
}

}  // namespace gpufence::observe
