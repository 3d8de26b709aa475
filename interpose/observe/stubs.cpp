// See stubs.h. The names are local ones, which stand in the file alone and are not loaded.
#include "observe/stubs.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include "observe/objects.h"
#include "observe/process.h"
#include "observe/unwind.h"

namespace gpufence::observe {
namespace {

// The file that is mapped there, by the kernel's word: a program may be called by another name than its own.
std::string file_at(std::uintptr_t address) {
  std::pair<std::uintptr_t, std::string> found{address, {}};
  each_mapping(
      [](const Mapping& mapping, void* data) {
        auto& [wanted, path] = *static_cast<std::pair<std::uintptr_t, std::string>*>(data);
        if (wanted < mapping.begin || wanted >= mapping.end) return false;
        path = mapping.path;
        return true;
      },
      &found);
  return found.second;
}

// A file, mapped; nothing where it can't be.
class Mapped {
 public:
  explicit Mapped(const std::string& path) {
    const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct stat status {};
    if (file >= 0 && ::fstat(file, &status) == 0 && S_ISREG(status.st_mode) && status.st_size > 0) {
      void* at = ::mmap(nullptr, static_cast<std::size_t>(status.st_size), PROT_READ, MAP_PRIVATE, file, 0);
      if (at != MAP_FAILED) bytes_ = {static_cast<const char*>(at), static_cast<std::size_t>(status.st_size)};
    }
    if (file >= 0) ::close(file);
  }
  ~Mapped() {
    if (!bytes_.empty()) ::munmap(const_cast<char*>(bytes_.data()), bytes_.size());
  }
  Mapped(const Mapped&) = delete;
  Mapped& operator=(const Mapped&) = delete;

  // `count` of them from there on; null if they do not lie in the file.
  template <class T>
  const T* at(std::uint64_t offset, std::uint64_t count = 1) const {
    if (offset > bytes_.size() || count > (bytes_.size() - offset) / sizeof(T) || offset % alignof(T) != 0)
      return nullptr;
    return reinterpret_cast<const T*>(bytes_.data() + offset);
  }
  std::string_view text(std::uint64_t offset, std::uint64_t size) const {
    return offset <= bytes_.size() && size <= bytes_.size() - offset ? bytes_.substr(offset, size)
                                                                     : std::string_view();
  }

 private:
  std::string_view bytes_;
};

// The function of the file's full symbol table that holds the address; empty where there is none.
std::string local_name(std::uintptr_t address) {
  const std::optional<Object> object = object_at(address);
  if (!object) return {};
  const Mapped file(file_at(address));
  const auto* header = file.at<ElfW(Ehdr)>(0);
  if (header == nullptr || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
      header->e_shentsize != sizeof(ElfW(Shdr)))
    return {};
  const auto* sections = file.at<ElfW(Shdr)>(header->e_shoff, header->e_shnum);
  if (sections == nullptr) return {};
  for (std::size_t i = 0; i < header->e_shnum; ++i) {
    const ElfW(Shdr)& section = sections[i];
    if (section.sh_type != SHT_SYMTAB || section.sh_link >= header->e_shnum) continue;
    const std::uint64_t count = section.sh_size / sizeof(ElfW(Sym));
    const auto* symbols = file.at<ElfW(Sym)>(section.sh_offset, count);
    const ElfW(Shdr)& strings = sections[section.sh_link];
    const std::string_view names = file.text(strings.sh_offset, strings.sh_size);
    for (std::uint64_t at = 0; symbols != nullptr && at < count; ++at) {
      const ElfW(Sym)& symbol = symbols[at];
      if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC || symbol.st_name >= names.size()) continue;
      const std::uintptr_t begin = object->bias + symbol.st_value;
      if (address < begin || address - begin >= symbol.st_size) continue;
      const std::string_view name = names.substr(symbol.st_name);
      return std::string(name.substr(0, name.find('\0')));
    }
  }
  return {};
}

// Kept by address: a program goes wrong in the same places again.
std::string known_name(std::uintptr_t address) {
  static std::mutex& lock = *new std::mutex;
  static auto& names = *new std::map<std::uintptr_t, std::string>;  // leaked: calls may come until the end
  {
    const std::lock_guard held(lock);
    if (const auto known = names.find(address); known != names.end()) return known->second;
  }
  std::string name = local_name(address);
  const std::lock_guard held(lock);
  if (names.size() > 1000) names.clear();
  return names[address] = std::move(name);
}

struct Above {
  std::uintptr_t from = 0;
  std::string_view kernel;
  bool reached = false;
  std::string stub;  // the last that was one
  const void* found = nullptr;

  // Whether the frame is nvcc's own.
  bool skips(std::uintptr_t address) {
    const std::string name = known_name(address);
    constexpr std::string_view kStub = "__device_stub_";
    if (name.find("__cudaLaunchKernel_helper") != std::string::npos) return true;
    if (const std::size_t at = name.find(kStub); at != std::string::npos) {
      stub = name.substr(at + kStub.size());
      return true;
    }
    // _Z24__device_stub__Z5firstPiPi is called by _Z5firstPi.
    return !name.empty() && (name == kernel || stub.starts_with(name));
  }
};

}  // namespace

Call above_launch_stubs(Call call, const char* kernel) noexcept {
  if (call.caller == nullptr) return call;
  try {
    Above above;
    above.from = reinterpret_cast<std::uintptr_t>(call.caller);
    if (kernel != nullptr) above.kernel = kernel;
    if (!above.skips(above.from - 1)) return call;
    walk(
        registers_here(),
        [](std::uintptr_t at, bool after_call, void* data) {
          auto& to = *static_cast<Above*>(data);
          try {
            to.reached = to.reached || at == to.from;
            if (!to.reached || to.skips(at - (after_call ? 1 : 0))) return true;
            to.found = reinterpret_cast<const void*>(at);
          } catch (...) {
          }
          return false;
        },
        &above);
    if (above.found != nullptr) call.caller = above.found;
  } catch (...) {
  }
  return call;
}

}  // namespace gpufence::observe
