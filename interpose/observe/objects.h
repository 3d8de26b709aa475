// Which loaded object an address lies in, and its symbols. Not by dladdr and dlsym: those take the loader's
// lock, which another thread holds for as long as a constructor of a library runs, and that constructor may
// wait for the thread that we are in. Nothing here waits: glibc tells of an address without a lock since
// 2.35; before, dl_iterate_phdr takes a lock that is never held over foreign code but that of other such
// callbacks.
#pragma once

#include <link.h>

#include <cstdint>
#include <optional>
#include <string>

namespace gpufence::observe {

struct Object {
  std::string path{};            // the program's own: as it was called
  std::uintptr_t begin = 0;      // of what it maps; its ELF header
  std::uintptr_t end = 0;        // past it
  std::uintptr_t bias = 0;       // added to the addresses in its file
  std::uintptr_t unwinding = 0;  // its .eh_frame_hdr; 0: it has none
  const ElfW(Dyn) * dynamic = nullptr;

  // "libfoo.so"
  [[nodiscard]] const char* file() const noexcept;
};

// The object must stay loaded while it is looked at: one that has a call in progress does.
[[nodiscard]] std::optional<Object> object_at(std::uintptr_t address);

// The exported symbol that holds the address, mangled; null: none does.
[[nodiscard]] const char* symbol_at(const Object& object, std::uintptr_t address) noexcept;

// The address of an exported symbol; 0: it exports none of this name.
[[nodiscard]] std::uintptr_t find_symbol(const Object& object, const char* name) noexcept;

// In hexadecimal; empty if it was linked without one.
[[nodiscard]] std::string build_id(const Object& object);

// Calls `visit` with each loaded object until it says true. Where /proc is not mounted there are none.
void each_object(bool (*visit)(const Object& object, void* data), void* data);

}  // namespace gpufence::observe
