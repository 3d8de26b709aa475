// See call.h. The version suffix is dropped where people read: they wrote cuMemAlloc, not cuMemAlloc_v2.
#include "observe/call.h"

#include <cxxabi.h>
#include <dlfcn.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace gpufence::observe {
namespace {

thread_local constinit Call outermost_call{};

std::string demangled(const char* symbol) {
  int status = 0;
  char* text = abi::__cxa_demangle(symbol, nullptr, nullptr, &status);
  std::string out = text != nullptr && status == 0 ? text : symbol;
  std::free(text);
  return out;
}

}  // namespace

InCall::InCall(const char* api, const void* caller) noexcept : outermost_(outermost_call.caller == nullptr) {
  if (outermost_) outermost_call = {api, caller};
}

InCall::~InCall() {
  if (outermost_) outermost_call = {};
}

Call current(const char* driver_api, const void* caller) noexcept {
  return outermost_call.caller != nullptr ? outermost_call : Call{driver_api, caller};
}

std::string site_text(const void* address) {
  Dl_info info{};
  if (address == nullptr || dladdr(address, &info) == 0 || info.dli_fname == nullptr)
    return "an unknown place";
  const char* slash = std::strrchr(info.dli_fname, '/');
  char offset[32];
  std::snprintf(offset, sizeof offset, "+0x%zx",
                static_cast<std::size_t>(reinterpret_cast<std::uintptr_t>(address) -
                                         reinterpret_cast<std::uintptr_t>(info.dli_fbase)));
  std::string out = (slash != nullptr ? slash + 1 : info.dli_fname);
  // A line of the journal stays a line, whatever files are called.
  for (char& c : out) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = '?';
  }
  out += offset;
  if (info.dli_sname != nullptr) out += " (" + demangled(info.dli_sname) + ")";
  return out;
}

std::string api_text(const Call& call) {
  std::string api = call.api;
  const std::size_t suffix = api.rfind("_v");
  if (suffix != std::string::npos && api.find_first_not_of("0123456789", suffix + 2) == std::string::npos)
    api.resize(suffix);
  return api;
}

std::string text(const Call& call) {
  return api_text(call) + " at " + site_text(call.caller);
}

}  // namespace gpufence::observe
