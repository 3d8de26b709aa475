// See backtrace.h.
#include "observe/backtrace.h"

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "journal/stack.h"
#include "observe/call.h"
#include "observe/objects.h"
#include "observe/unwind.h"

namespace gpufence::observe {
namespace {

// Below main or a thread's first function stand at most so many that only start it.
constexpr std::size_t kStarting = 4;

struct Places {
  std::size_t most = 0;
  bool outside = false;  // of CUDA's libraries by now
  std::vector<journal::Site> frames{};
};

bool note(std::uintptr_t at, bool after_call, void* data) {
  auto& places = *static_cast<Places*>(data);
  try {
    // A call is before where it returns to, which may already be another function.
    const std::uintptr_t call = at - (after_call ? 1 : 0);
    const std::optional<Object> object = object_at(call);
    if (object && !places.outside && journal::is_cuda_library(object->file())) return true;
    places.outside = true;
    if (!object) {
      places.frames.push_back({.offset = at});
      return false;
    }
    places.frames.push_back(site_in(*object, at, call));
  } catch (...) {
    return false;
  }
  return places.frames.size() < places.most + kStarting;
}

bool only_starts(const journal::Site& frame) {
  const std::string_view file = frame.object;
  return file.starts_with("libc.so") || file.starts_with("libc-2") || file.starts_with("libpthread") ||
         file.starts_with("ld-linux") || frame.symbol == "_start";
}

}  // namespace

std::vector<journal::Site> native_stack(std::size_t most) {
  Places places{.most = most};
  walk(registers_here(), note, &places);
  std::vector<journal::Site>& frames = places.frames;
  if (frames.size() < most + kStarting) {
    while (frames.size() > 1 && only_starts(frames.back())) frames.pop_back();
  }
  if (frames.size() > most) frames.resize(most);
  return std::move(frames);
}

}  // namespace gpufence::observe
