// See backtrace.h.
#include "observe/backtrace.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>

#include "journal/stack.h"
#include "observe/call.h"
#include "observe/objects.h"
#include "observe/unwind.h"

namespace gpufence::observe {
namespace {

// Below main or a thread's first function stand at most so many that only start it, and above the call that
// is told of at most so many of a runtime that is linked statically.
constexpr std::size_t kStarting = 4;
constexpr std::size_t kOfRuntime = 16;

struct Place {
  std::uintptr_t at;
  std::uintptr_t call;  // before where it returns to, which may already be another function
};

struct Places {
  std::size_t most = 0;
  bool outside = false;  // of CUDA's libraries by now
  std::vector<Place> seen{};
};

bool note(std::uintptr_t at, bool after_call, void* data) {
  auto& places = *static_cast<Places*>(data);
  try {
    const std::uintptr_t call = at - (after_call ? 1 : 0);
    const std::optional<Object> object = object_at(call);
    if (object && !places.outside && journal::is_cuda_library(object->file())) return true;
    places.outside = true;
    places.seen.push_back({at, call});
    return object.has_value() && places.seen.size() < places.most;
  } catch (...) {
    return false;
  }
}

bool only_starts(const journal::Site& frame) {
  const std::string_view file = frame.object;
  return file.starts_with("libc.so") || file.starts_with("libc-2") || file.starts_with("libpthread") ||
         file.starts_with("ld-linux") || frame.symbol == "_start";
}

}  // namespace

std::vector<journal::Site> native_stack(std::size_t most, const void* first) {
  Places places{.most = most + kStarting + kOfRuntime};
  walk(registers_here(), note, &places);
  const bool complete = places.seen.size() < places.most;
  auto from = std::find_if(places.seen.begin(), places.seen.end(), [&](const Place& place) {
    return place.at == reinterpret_cast<std::uintptr_t>(first);
  });
  if (from == places.seen.end()) from = places.seen.begin();
  std::vector<journal::Site> frames;
  for (; from != places.seen.end() && frames.size() < most + kStarting; ++from) {
    const std::optional<Object> object = object_at(from->call);
    frames.push_back(object ? site_in(*object, from->at, from->call) : journal::Site{.offset = from->at});
  }
  if (complete && from == places.seen.end()) {
    while (frames.size() > 1 && only_starts(frames.back())) frames.pop_back();
  }
  if (frames.size() > most) frames.resize(most);
  return frames;
}

}  // namespace gpufence::observe
