// pread only: a mapping of a file that someone truncates meanwhile is a SIGBUS.
#include "tools/gpufence/elf.h"

#include <elf.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>

namespace gpufence::command {
namespace {

#if defined(__x86_64__)
constexpr unsigned kOwnMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr unsigned kOwnMachine = EM_AARCH64;
#else
#error "gpufence knows x86-64 and arm64"
#endif
static_assert(sizeof(void*) == 8 && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__);

// Real programs have tens of headers and entries; these bounds only keep a hostile file from costing memory.
constexpr std::size_t kMostDynamicEntries = 1 << 16;
constexpr std::size_t kLongestString = 4096;
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 30;

class File {
 public:
  explicit File(int descriptor) : descriptor_(descriptor) {
    struct stat status {};
    if (::fstat(descriptor, &status) == 0 && status.st_size > 0)
      size_ = static_cast<std::uint64_t>(status.st_size);
  }

  [[nodiscard]] std::uint64_t size() const { return size_; }

  [[nodiscard]] bool read(std::uint64_t offset, void* to, std::size_t bytes) const {
    if (offset > size_ || bytes > size_ - offset) return false;
    auto* out = static_cast<char*>(to);
    while (bytes > 0) {
      const ssize_t got = ::pread(descriptor_, out, bytes, static_cast<off_t>(offset));
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return false;
      out += got;
      offset += static_cast<std::uint64_t>(got);
      bytes -= static_cast<std::size_t>(got);
    }
    return true;
  }

  // A terminated string of at most `most` bytes, terminator included.
  [[nodiscard]] std::optional<std::string> text(std::uint64_t offset, std::uint64_t most) const {
    if (offset >= size_) return std::nullopt;
    const auto bytes =
        static_cast<std::size_t>(std::min({most, size_ - offset, std::uint64_t{kLongestString}}));
    std::string buffer(bytes, '\0');
    if (!read(offset, buffer.data(), bytes)) return std::nullopt;
    const std::size_t end = buffer.find('\0');
    if (end == std::string::npos) return std::nullopt;
    buffer.resize(end);
    return buffer;
  }

 private:
  int descriptor_;
  std::uint64_t size_ = 0;
};

std::string machine_name(unsigned char width, unsigned machine) {
  const std::string bits = width == ELFCLASS32 ? "32-bit " : "64-bit ";
  switch (machine) {
    case EM_386:
      return bits + "x86";
    case EM_X86_64:
      return bits + "x86-64";
    case EM_ARM:
      return bits + "Arm";
    case EM_AARCH64:
      return bits + "Arm";
    case EM_PPC64:
      return bits + "POWER";
    case EM_RISCV:
      return bits + "RISC-V";
    default:
      return bits + "machine " + std::to_string(machine);
  }
}

// Where an address of the running program lies in the file.
std::optional<std::uint64_t> file_offset(const std::vector<Elf64_Phdr>& headers, std::uint64_t address) {
  for (const Elf64_Phdr& header : headers)
    if (header.p_type == PT_LOAD && address >= header.p_vaddr && address - header.p_vaddr < header.p_filesz) {
      const std::uint64_t into = address - header.p_vaddr;
      if (header.p_offset > std::numeric_limits<std::uint64_t>::max() - into) return std::nullopt;
      return header.p_offset + into;
    }
  return std::nullopt;
}

// Where a stretch of the file ends; offsets that no file has end nowhere.
std::uint64_t end_of(std::uint64_t offset, std::uint64_t bytes) {
  constexpr auto most = std::numeric_limits<std::uint64_t>::max();
  return bytes == 0 ? 0 : bytes > most - offset ? most : offset + bytes;
}

}  // namespace

std::string cut_off(std::uint64_t size, std::uint64_t extent) {
  return "cut off at " + std::to_string(size) + " of " + std::to_string(extent) + " bytes";
}

std::string own_machine() {
  return machine_name(ELFCLASS64, kOwnMachine);
}

tl::expected<Elf, std::string> read_elf(int descriptor) {
  const File file(descriptor);
  Elf elf;
  elf.size = file.size();
  // A cut is the reason behind whatever else doesn't fit.
  const auto damaged = [&elf](const char* why) {
    return tl::unexpected(elf.complete() ? std::string(why) : cut_off(elf.size, elf.extent));
  };

  std::array<unsigned char, EI_NIDENT + 4> start{};
  if (!file.read(0, start.data(), start.size()) || std::memcmp(start.data(), ELFMAG, SELFMAG) != 0)
    return damaged("it is no ELF file");
  const bool big = start[EI_DATA] == ELFDATA2MSB;
  const unsigned machine = big ? start[EI_NIDENT + 2] * 256u + start[EI_NIDENT + 3]
                               : start[EI_NIDENT + 3] * 256u + start[EI_NIDENT + 2];
  elf.machine = machine_name(start[EI_CLASS], machine);
  if (start[EI_CLASS] != ELFCLASS64 || start[EI_DATA] != ELFDATA2LSB || machine != kOwnMachine) {
    elf.foreign = true;
    return elf;
  }

  Elf64_Ehdr header{};
  if (!file.read(0, &header, sizeof header)) return damaged("its header is cut off");
  // A count of 0 beside an offset says that the table's first entry has the count.
  elf.extent =
      std::max(end_of(0, sizeof header),
               header.e_shoff == 0 ? 0
                                   : end_of(header.e_shoff, std::uint64_t{header.e_shentsize} *
                                                                std::max<unsigned>(header.e_shnum, 1)));
  elf.extent =
      std::max(elf.extent, end_of(header.e_phoff, std::uint64_t{header.e_phnum} * header.e_phentsize));
  if (header.e_phnum == 0) return elf;
  if (header.e_phentsize != sizeof(Elf64_Phdr)) return damaged("its program headers have an impossible size");
  std::vector<Elf64_Phdr> headers(header.e_phnum);
  if (!file.read(header.e_phoff, headers.data(), headers.size() * sizeof(Elf64_Phdr)))
    return damaged("its program headers can't be read");
  bool loads = false, links = false;
  for (const Elf64_Phdr& part : headers) {
    elf.extent = std::max(elf.extent, end_of(part.p_offset, part.p_filesz));
    loads = loads || part.p_type == PT_LOAD;
    links = links || part.p_type == PT_DYNAMIC;
  }
  // What ld.so looks at before it maps anything.
  const bool known =
      header.e_ident[EI_VERSION] == EV_CURRENT && header.e_version == EV_CURRENT &&
      (header.e_ident[EI_OSABI] == ELFOSABI_SYSV || header.e_ident[EI_OSABI] == ELFOSABI_GNU) &&
      header.e_ident[EI_ABIVERSION] == 0;
  elf.shared_object = header.e_type == ET_DYN && known && loads && links;

  for (const Elf64_Phdr& part : headers) {
    if (part.p_type != PT_INTERP) continue;
    const auto interpreter = file.text(part.p_offset, part.p_filesz);
    if (!interpreter || interpreter->empty()) return damaged("the name of its loader can't be read");
    elf.interpreter = *interpreter;
    break;
  }

  std::uint64_t strings = 0, strings_size = 0;
  std::vector<std::uint64_t> needed;
  std::optional<std::uint64_t> rpath, runpath, soname;
  for (const Elf64_Phdr& part : headers) {
    if (part.p_type != PT_DYNAMIC) continue;
    const std::size_t entries = static_cast<std::size_t>(
        std::min<std::uint64_t>(part.p_filesz / sizeof(Elf64_Dyn), kMostDynamicEntries));
    if (part.p_offset > file.size() || entries * sizeof(Elf64_Dyn) > file.size() - part.p_offset)
      return damaged("its dynamic section reaches past the end of the file");
    std::vector<Elf64_Dyn> dynamic(entries);
    if (!file.read(part.p_offset, dynamic.data(), entries * sizeof(Elf64_Dyn)))
      return damaged("its dynamic section can't be read");
    for (const Elf64_Dyn& entry : dynamic) {
      if (entry.d_tag == DT_NULL) break;
      if (entry.d_tag == DT_STRTAB) strings = entry.d_un.d_ptr;
      if (entry.d_tag == DT_STRSZ) strings_size = entry.d_un.d_val;
      if (entry.d_tag == DT_NEEDED) needed.push_back(entry.d_un.d_val);
      if (entry.d_tag == DT_RPATH) rpath = entry.d_un.d_val;
      if (entry.d_tag == DT_RUNPATH) runpath = entry.d_un.d_val;
      if (entry.d_tag == DT_FLAGS_1) elf.position_independent = (entry.d_un.d_val & DF_1_PIE) != 0;
      if (entry.d_tag == DT_SONAME) soname = entry.d_un.d_val;
    }
    break;
  }
  if (needed.empty() && !rpath && !runpath && !soname) return elf;

  const auto table = file_offset(headers, strings);
  const auto string_at = [&](std::uint64_t index) -> std::optional<std::string> {
    if (!table || index >= strings_size || *table > std::numeric_limits<std::uint64_t>::max() - index)
      return std::nullopt;
    return file.text(*table + index, strings_size - index);
  };
  for (const std::uint64_t index : needed) {
    auto name = string_at(index);
    if (!name) return damaged("the names of its libraries can't be read");
    elf.needed.push_back(*std::move(name));
  }
  if (rpath && !runpath) {
    auto path = string_at(*rpath);
    if (!path) return damaged("its library path can't be read");
    elf.rpath = *std::move(path);
  }
  if (runpath) elf.runpath = string_at(*runpath).value_or("");
  if (soname) elf.soname = string_at(*soname).value_or("");
  return elf;
}

tl::expected<std::vector<ElfSection>, std::string> read_sections(int descriptor) {
  const File file(descriptor);
  Elf64_Ehdr header{};
  if (!file.read(0, &header, sizeof header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
      header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB ||
      header.e_machine != kOwnMachine)
    return tl::unexpected(std::string("it is no ELF file of this machine"));
  std::vector<ElfSection> sections;
  if (header.e_shoff == 0) return sections;
  if (header.e_shentsize != sizeof(Elf64_Shdr))
    return tl::unexpected(std::string("its section headers have an impossible size"));
  Elf64_Shdr first{};
  if (!file.read(header.e_shoff, &first, sizeof first))
    return tl::unexpected(std::string("its section headers can't be read"));
  // Counts and indices that a half-word can't hold stand in the table's first entry.
  const std::uint64_t count = header.e_shnum != 0 ? header.e_shnum : first.sh_size;
  const std::uint64_t names_at = header.e_shstrndx != SHN_XINDEX ? header.e_shstrndx : first.sh_link;
  if (count > (file.size() - header.e_shoff) / sizeof(Elf64_Shdr))
    return tl::unexpected(std::string("its section headers reach past the end of the file"));
  std::vector<Elf64_Shdr> headers(static_cast<std::size_t>(count));
  if (!file.read(header.e_shoff, headers.data(), headers.size() * sizeof(Elf64_Shdr)))
    return tl::unexpected(std::string("its section headers can't be read"));
  if (names_at >= headers.size()) return sections;
  const Elf64_Shdr& names = headers[static_cast<std::size_t>(names_at)];
  for (const Elf64_Shdr& section : headers) {
    if (section.sh_type == SHT_NULL || section.sh_name >= names.sh_size) continue;
    if (end_of(names.sh_offset, names.sh_size) > file.size()) break;
    auto name = file.text(names.sh_offset + section.sh_name, names.sh_size - section.sh_name);
    const std::uint64_t size = section.sh_type == SHT_NOBITS ? 0 : section.sh_size;
    if (!name || end_of(section.sh_offset, size) > file.size()) continue;
    sections.push_back({*std::move(name), section.sh_offset, size});
  }
  return sections;
}

tl::expected<std::vector<std::string>, std::string> read_imports(int descriptor) {
  const auto sections = read_sections(descriptor);
  if (!sections) return tl::unexpected(sections.error());
  std::optional<std::string> symbols, names;
  for (const ElfSection& section : *sections) {
    if (section.name == ".dynsym") symbols = read_bytes(descriptor, section.offset, section.size);
    if (section.name == ".dynstr") names = read_bytes(descriptor, section.offset, section.size);
  }
  std::vector<std::string> imports;
  if (!symbols || !names) return imports;
  for (std::size_t at = 0; symbols->size() - at >= sizeof(Elf64_Sym); at += sizeof(Elf64_Sym)) {
    Elf64_Sym symbol{};
    std::memcpy(&symbol, symbols->data() + at, sizeof symbol);
    if (symbol.st_shndx != SHN_UNDEF || symbol.st_name == 0 || symbol.st_name >= names->size()) continue;
    const std::size_t end = names->find('\0', symbol.st_name);
    imports.push_back(names->substr(symbol.st_name, end - symbol.st_name));
  }
  return imports;
}

std::optional<std::string> read_bytes(int descriptor, std::uint64_t offset, std::uint64_t size) {
  const File file(descriptor);
  if (size > kMostBytes || end_of(offset, size) > file.size()) return std::nullopt;
  std::string bytes(static_cast<std::size_t>(size), '\0');
  if (!file.read(offset, bytes.data(), bytes.size())) return std::nullopt;
  return bytes;
}

}  // namespace gpufence::command
