// Which call of the program we are in. The driver level enforces, the runtime level annotates: while a
// runtime call runs, what the driver hooks below it find is told in the runtime call's name and place, as the
// programmer wrote it.
#pragma once

#include <string>

namespace gpufence::observe {

struct Call {
  const char* api = "";          // "cudaMalloc", "cuMemAlloc_v2"
  const void* caller = nullptr;  // return address in the program
};

// For the time of a runtime call. Calls nest (a callback may call again): the outermost counts.
class InCall {
 public:
  InCall(const char* api, const void* caller) noexcept;
  ~InCall();
  InCall(const InCall&) = delete;
  InCall& operator=(const InCall&) = delete;

 private:
  bool outermost_;
};

// The runtime call that this thread is in, else the driver call given.
[[nodiscard]] Call current(const char* driver_api, const void* caller) noexcept;

// "libfoo.so+0x1a2b (make_stream)": the object's file name, the offset in it, the nearest exported symbol.
[[nodiscard]] std::string site_text(const void* address);

// "cuMemAlloc": without the version suffix, as the programmer wrote it.
[[nodiscard]] std::string api_text(const Call& call);

// "cudaMalloc at train+0x1a2b (main)"
[[nodiscard]] std::string text(const Call& call);

}  // namespace gpufence::observe
