// See call.h. The version suffix is dropped where people read: they wrote cuMemAlloc, not cuMemAlloc_v2.
#include "observe/call.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string_view>

#include "journal/stack.h"
#include "observe/demangle.h"
#include "observe/objects.h"
#include "observe/unwind.h"

namespace gpufence::observe {

thread_local constinit Outermost outermost{};
const char kOnTheStack = 0;

namespace {

std::uintptr_t number(const void* address) {
  return reinterpret_cast<std::uintptr_t>(address);
}

// Of a place that a call returns to: the call is before it.
std::optional<Object> object_of(const void* address) {
  return address != nullptr ? object_at(number(address) - 1) : std::nullopt;
}

// The libraries of NVIDIA's toolkit and driver, and ourselves: between the program and the driver, never the
// place where it went wrong.
bool of_cuda(std::uintptr_t at) noexcept {
  try {
    const std::optional<Object> object = object_at(at);
    return object && journal::is_cuda_library(object->file());
  } catch (...) {
    return false;
  }
}

bool of_libc(std::uintptr_t at) noexcept {
  try {
    const std::optional<Object> object = object_at(at);
    const std::string_view file = object ? object->file() : "";
    return file.starts_with("libc.so") || file.starts_with("libc-2") || file.starts_with("libpthread") ||
           file.starts_with("ld-linux");
  } catch (...) {
    return false;
  }
}

template <bool (*... skipped)(std::uintptr_t) noexcept>
const void* first_outside() noexcept {
  const void* found = nullptr;
  walk(
      registers_here(),
      [](std::uintptr_t at, bool after_call, void* out) {
        if ((skipped(at - (after_call ? 1 : 0)) || ...)) return true;
        *static_cast<const void**>(out) = reinterpret_cast<const void*>(at);
        return false;
      },
      &found);
  return found;
}

// To follow a stack takes tens of microseconds, and a program makes its allocations in few places. How far
// above its parameters a runtime's function has its return address is for the compiler to say, once for all
// its calls: known by the call's name and where the runtime calls the driver. What stands there is believed
// if it was found by following the stack before.
constinit std::array<std::atomic<std::uint64_t>, 256> distances{};  // a tag of 48 bits, 16 bits of bytes
constinit std::array<std::atomic<std::uintptr_t>, 1024> places{};

std::uint64_t mixed(std::uintptr_t one, std::uintptr_t other) noexcept {
  return (one ^ (other << 32 | other >> 32)) * 0x9E3779B97F4A7C15ULL;
}

// Where the program made the watched call that this thread is in; 0: not found.
std::uintptr_t place_on_stack(const void* driver_caller) noexcept {
  const std::uintptr_t frame = number(outermost.frame);
  if (frame == 0) return 0;
  const std::uintptr_t name = number(outermost.call.api);
  const std::uint64_t way = mixed(name, number(driver_caller));
  std::atomic<std::uint64_t>& known = distances[way >> 56];
  const auto place_at = [&](std::uintptr_t place) -> std::atomic<std::uintptr_t>& {
    return places[mixed(place, name) >> 54];
  };
  if (const std::uint64_t distance = known.load(std::memory_order_relaxed);
      distance != 0 && distance >> 16 == (way & 0xffffffffffff)) {
    std::uintptr_t place = 0;
    std::memcpy(&place, reinterpret_cast<const void*>(frame + (distance & 0xffff)), sizeof place);
    if (place != 0 && place_at(place).load(std::memory_order_relaxed) == place) return place;
  }
  const std::uintptr_t* found = return_of_frame(registers_here(), frame);
  if (found == nullptr) return 0;
  const std::uintptr_t distance = number(found) - frame;
  if (distance <= 0xffff) {
    known.store((way & 0xffffffffffff) << 16 | distance, std::memory_order_relaxed);
    place_at(*found).store(*found, std::memory_order_relaxed);
  }
  return *found;
}

}  // namespace

Call with_place(const void* otherwise) noexcept {
  const void* place = otherwise;
  if (const std::uintptr_t found = place_on_stack(otherwise); found != 0)
    place = reinterpret_cast<const void*>(found);
  if (place != nullptr) outermost.call.caller = place;  // else it is looked for again
  return {outermost.call.api, place};
}

Call outside_cuda(Call call) noexcept {
  if (call.caller != nullptr && of_cuda(number(call.caller) - 1)) {
    const void* found = first_outside<of_cuda>();
    if (found != nullptr) call.caller = found;
  }
  return call;
}

bool is_of_cuda(const void* address) noexcept {
  return address != nullptr && of_cuda(number(address) - 1);
}

const void* outside_libc() noexcept {
  return first_outside<of_cuda, of_libc>();
}

bool exiting() noexcept {
  bool found = false;
  walk(
      registers_here(),
      [](std::uintptr_t at, bool after_call, void* out) {
        // exit() does not return, so its return address may lie behind it.
        const std::uintptr_t call = at - (after_call ? 1 : 0);
        try {
          const std::optional<Object> object = object_at(call);
          const char* symbol = object ? symbol_at(*object, call) : nullptr;
          if (symbol == nullptr || std::strcmp(symbol, "exit") != 0) return true;
        } catch (...) {
          return false;
        }
        *static_cast<bool*>(out) = true;
        return false;
      },
      &found);
  return found;
}

journal::Site site_in(const Object& object, std::uintptr_t shown, std::uintptr_t at) {
  journal::Site site;
  site.object = journal::on_one_line(object.file());
  site.offset = shown - object.begin;
  site.build_id = build_id(object);
  if (const char* symbol = symbol_at(object, at); symbol != nullptr) site.symbol = demangled(symbol);
  return site;
}

journal::Site site_of(const void* address) {
  const std::optional<Object> object = object_of(address);
  return object ? site_in(*object, number(address), number(address) - 1) : journal::Site{};
}

std::string object_text(const void* address) {
  const std::optional<Object> object = object_of(address);
  return object ? journal::on_one_line(object->file()) : "an unknown place";
}

std::string site_text(const void* address) {
  const journal::Site site = site_of(address);
  if (site.object.empty()) return "an unknown place";
  char offset[32];
  std::snprintf(offset, sizeof offset, "+0x%zx", static_cast<std::size_t>(site.offset));
  return site.object + offset + (site.symbol.empty() ? "" : " (" + site.symbol + ")");
}

std::string kernel_text(const char* mangled) {
  std::string text = demangled(mangled);
  // The parameter list is the last parenthesis at its depth; a template's arguments may hold others.
  int depth = 0;
  for (std::size_t at = text.size(); at-- > 0;) {
    if (text[at] == ')') ++depth;
    if (text[at] == '(' && --depth == 0) {
      text.resize(at);
      break;
    }
  }
  if (text.starts_with("void ")) text.erase(0, 5);
  return journal::on_one_line(text);
}

std::string api_text(const Call& call) {
  std::string api = call.api;
  if (api.starts_with("__")) api.erase(0, 2);  // what nvcc makes of kernel<<<>>>
  if (api.ends_with("_ptsz") || api.ends_with("_ptds")) api.resize(api.size() - 5);
  const std::size_t suffix = api.rfind("_v");
  if (suffix != std::string::npos && api.find_first_not_of("0123456789", suffix + 2) == std::string::npos)
    api.resize(suffix);
  return api;
}

std::string text(const Call& call) {
  return api_text(call) + " at " + site_text(call.caller);
}

}  // namespace gpufence::observe
