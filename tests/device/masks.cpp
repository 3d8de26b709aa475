// When and how CUDA_VISIBLE_DEVICES is read, and what the driver makes of odd values. getenv is this
// program's own, so that it sees who asks.
#include <cstring>
#include <vector>

#include "ask.h"

extern char** environ;

namespace {
int asked_for_mask = 0;

char* find(const char* name) {
  if (strcmp(name, "CUDA_VISIBLE_DEVICES") == 0) ++asked_for_mask;
  const size_t length = strlen(name);
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry)
    if (strncmp(*entry, name, length) == 0 && (*entry)[length] == '=') return *entry + length + 1;
  return nullptr;
}
}  // namespace

extern "C" {
[[gnu::visibility("default")]] char* getenv(const char* name) noexcept {
  return find(name);
}
[[gnu::visibility("default")]] char* secure_getenv(const char* name) noexcept {
  return find(name);
}
}

namespace ask {
namespace {

std::string devices() {
  int count = 0;
  const CUresult result = cuDeviceGetCount(&count);
  return result == CUDA_SUCCESS ? std::to_string(count) + " GPUs" : name_of(result);
}

}  // namespace

void mask_time() {
  unsetenv("CUDA_VISIBLE_DEVICES");
  fact("getenv(CUDA_VISIBLE_DEVICES) while the library was loaded", "%d times", asked_for_mask);
  asked_for_mask = 0;
  int version = 0;
  cuDriverGetVersion(&version);
  fact("by cuDriverGetVersion, before cuInit", "%d times", asked_for_mask);
  asked_for_mask = 0;
  // As the fence does it: the pointer to the environment is another for the time of the call.
  static char nothing[] = "CUDA_VISIBLE_DEVICES=";
  std::vector<char*> swapped = {nothing};
  for (char** entry = environ; *entry != nullptr; ++entry) swapped.push_back(*entry);
  swapped.push_back(nullptr);
  char** before = environ;
  environ = swapped.data();
  const CUresult result = cuInit(0);
  environ = before;
  fact("by cuInit", "%d times", asked_for_mask);
  const bool honoured = result == CUDA_ERROR_NO_DEVICE || devices() == "0 GPUs";
  fact("an empty mask swapped in just before cuInit, with libcuda long loaded", "%s (cuInit: %s, then %s)",
       honoured ? "honoured" : "not honoured", name_of(result).c_str(), devices().c_str());
  asked_for_mask = 0;
  setenv("CUDA_VISIBLE_DEVICES", "0", 1);
  fact("cuInit again with the mask set to 0", "%s, then %s, %d times asked", name_of(cuInit(0)).c_str(),
       devices().c_str(), asked_for_mask);
}

void mask_shows(const std::string& value) {
  if (value == "(unset)")
    unsetenv("CUDA_VISIBLE_DEVICES");
  else
    setenv("CUDA_VISIBLE_DEVICES", value.c_str(), 1);
  const CUresult result = cuInit(0);
  std::string seen = result == CUDA_SUCCESS ? "" : name_of(result);
  int count = 0;
  if (result == CUDA_SUCCESS && cuDeviceGetCount(&count) == CUDA_SUCCESS) {
    seen = std::to_string(count) + " GPUs";
    for (int device = 0; device < count; ++device) {
      CUuuid uuid;
      if (cuDeviceGetUuid(&uuid, device) != CUDA_SUCCESS) continue;
      char text[64];
      const auto* b = reinterpret_cast<const unsigned char*>(uuid.bytes);
      snprintf(text, sizeof text,
               "%s GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
               device == 0 ? ":" : ",", b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10],
               b[11], b[12], b[13], b[14], b[15]);
      seen += text;
    }
  }
  fact("“" + value + "”", "%s", seen.c_str());
}

}  // namespace ask
