// See objects.h.
#include "observe/objects.h"

#include <dlfcn.h>
#include <errno.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "observe/process.h"

namespace gpufence::observe {
namespace {

std::uintptr_t number(const void* address) {
  return reinterpret_cast<std::uintptr_t>(address);
}

std::string path_of(const char* name) {
  if (name != nullptr && *name != '\0') return name;
  return program_invocation_name != nullptr ? program_invocation_name : "";
}

struct Tables {
  const ElfW(Sym) * symbols = nullptr;
  const char* names = nullptr;
  std::size_t names_size = 0;
  const std::uint32_t* gnu_hash = nullptr;
  const std::uint32_t* hash = nullptr;

  explicit Tables(const Object& object) noexcept {
    // The loader writes addresses in place of offsets, but not where the section can't be written.
    const auto address = [&](ElfW(Addr) value) {
      return value >= object.begin && value < object.end ? value : value + object.bias;
    };
    for (const ElfW(Dyn)* entry = object.dynamic; entry != nullptr && entry->d_tag != DT_NULL; ++entry) {
      switch (entry->d_tag) {
        case DT_SYMTAB:
          symbols = reinterpret_cast<const ElfW(Sym)*>(address(entry->d_un.d_ptr));
          break;
        case DT_STRTAB:
          names = reinterpret_cast<const char*>(address(entry->d_un.d_ptr));
          break;
        case DT_STRSZ:
          names_size = entry->d_un.d_val;
          break;
        case DT_GNU_HASH:
          gnu_hash = reinterpret_cast<const std::uint32_t*>(address(entry->d_un.d_ptr));
          break;
        case DT_HASH:
          hash = reinterpret_cast<const std::uint32_t*>(address(entry->d_un.d_ptr));
          break;
        default:
          break;
      }
    }
  }

  // The GNU table: sizes, a filter, the buckets, a chain of hashes for each; the last of a chain is odd.
  struct Gnu {
    std::uint32_t buckets, first, filters, shift;
    const ElfW(Addr) * filter;
    const std::uint32_t *bucket, *chain;
    explicit Gnu(const std::uint32_t* table) noexcept
        : buckets(table[0]),
          first(table[1]),
          filters(table[2]),
          shift(table[3]),
          filter(reinterpret_cast<const ElfW(Addr) *>(table + 4)),
          bucket(reinterpret_cast<const std::uint32_t*>(filter + filters)),
          chain(bucket + buckets) {}
  };

  [[nodiscard]] std::size_t count() const noexcept {
    if (hash != nullptr) return hash[1];
    if (gnu_hash == nullptr) return 0;
    const Gnu table(gnu_hash);
    std::uint32_t last = 0;
    for (std::uint32_t i = 0; i < table.buckets; ++i) last = std::max(last, table.bucket[i]);
    if (last < table.first) return table.first;
    while ((table.chain[last - table.first] & 1) == 0) ++last;
    return last + 1;
  }

  [[nodiscard]] const char* name_of(const ElfW(Sym) & symbol) const noexcept {
    return symbol.st_name < names_size ? names + symbol.st_name : nullptr;
  }
};

bool is_code_or_data(const ElfW(Sym) & symbol) {
  return symbol.st_shndx != SHN_UNDEF && ELF64_ST_TYPE(symbol.st_info) != STT_TLS;
}

#if !__GLIBC_PREREQ(2, 35)
struct Search {
  std::uintptr_t address;
  std::optional<Object> found;
};

Object object_of(const dl_phdr_info& info) {
  Object object;
  object.path = path_of(info.dlpi_name);
  object.bias = info.dlpi_addr;
  object.begin = ~std::uintptr_t{0};
  for (int i = 0; i < info.dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = info.dlpi_phdr[i];
    const std::uintptr_t at = info.dlpi_addr + segment.p_vaddr;
    if (segment.p_type == PT_LOAD) {
      object.begin = std::min<std::uintptr_t>(object.begin, at & ~(segment.p_align - 1));
      object.end = std::max<std::uintptr_t>(object.end, at + segment.p_memsz);
    }
    if (segment.p_type == PT_DYNAMIC) object.dynamic = reinterpret_cast<const ElfW(Dyn)*>(at);
    if (segment.p_type == PT_GNU_EH_FRAME) object.unwinding = at;
  }
  return object;
}
#endif

}  // namespace

const char* Object::file() const noexcept {
  const std::size_t slash = path.rfind('/');
  return path.c_str() + (slash == std::string::npos ? 0 : slash + 1);
}

std::optional<Object> object_at(std::uintptr_t address) {
#if __GLIBC_PREREQ(2, 35)
  dl_find_object found{};
  if (_dl_find_object(reinterpret_cast<void*>(address), &found) != 0) return std::nullopt;
  Object object;
  object.path = path_of(found.dlfo_link_map->l_name);
  object.begin = number(found.dlfo_map_start);
  object.end = number(found.dlfo_map_end);
  object.bias = found.dlfo_link_map->l_addr;
  object.unwinding = number(found.dlfo_eh_frame);
  object.dynamic = found.dlfo_link_map->l_ld;
  return object;
#else
  Search search{address, {}};
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* data) {
        auto& one = *static_cast<Search*>(data);
        try {
          Object object = object_of(*info);
          if (one.address < object.begin || one.address >= object.end) return 0;
          one.found = std::move(object);
        } catch (...) {  // through the loader nothing may be thrown
        }
        return 1;
      },
      &search);
  return search.found;
#endif
}

const char* symbol_at(const Object& object, std::uintptr_t address) noexcept {
  const Tables tables(object);
  if (tables.symbols == nullptr || tables.names == nullptr) return nullptr;
  const ElfW(Sym)* best = nullptr;
  for (std::size_t i = 0, count = tables.count(); i < count; ++i) {
    const ElfW(Sym)& symbol = tables.symbols[i];
    const std::uintptr_t at = object.bias + symbol.st_value;
    if (!is_code_or_data(symbol) || address < at || address - at >= std::max<std::size_t>(symbol.st_size, 1))
      continue;
    if (best == nullptr || symbol.st_value > best->st_value) best = &symbol;
  }
  return best != nullptr ? tables.name_of(*best) : nullptr;
}

std::uintptr_t find_symbol(const Object& object, const char* name) noexcept {
  const Tables tables(object);
  if (tables.symbols == nullptr || tables.names == nullptr || tables.gnu_hash == nullptr) return 0;
  const Tables::Gnu table(tables.gnu_hash);
  if (table.buckets == 0 || table.filters == 0) return 0;
  std::uint32_t hash = 5381;
  for (const char* c = name; *c != '\0'; ++c) hash = hash * 33 + static_cast<unsigned char>(*c);
  constexpr std::uint32_t kBits = sizeof(ElfW(Addr)) * 8;
  const ElfW(Addr) filter = table.filter[hash / kBits % table.filters];
  if ((filter >> (hash % kBits) & filter >> ((hash >> table.shift) % kBits) & 1) == 0) return 0;
  for (std::uint32_t at = table.bucket[hash % table.buckets]; at >= table.first; ++at) {
    const std::uint32_t here = table.chain[at - table.first];
    const ElfW(Sym)& symbol = tables.symbols[at];
    if ((here | 1) == (hash | 1) && is_code_or_data(symbol)) {
      const char* text = tables.name_of(symbol);
      if (text != nullptr && std::strcmp(text, name) == 0) return object.bias + symbol.st_value;
    }
    if ((here & 1) != 0) break;
  }
  return 0;
}

std::string build_id(const Object& object) {
  const auto* header = reinterpret_cast<const ElfW(Ehdr)*>(object.begin);
  if (header == nullptr || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0) return {};
  const auto* segment = reinterpret_cast<const ElfW(Phdr)*>(object.begin + header->e_phoff);
  for (int i = 0; i < header->e_phnum; ++i, ++segment) {
    if (segment->p_type != PT_NOTE) continue;
    const auto* at = reinterpret_cast<const char*>(object.bias + segment->p_vaddr);
    const char* end = at + segment->p_memsz;
    while (at + sizeof(ElfW(Nhdr)) <= end) {
      const auto* note = reinterpret_cast<const ElfW(Nhdr)*>(at);
      const char* name = at + sizeof *note;
      const char* text = name + (note->n_namesz + 3) / 4 * 4;
      if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == 4 && std::memcmp(name, "GNU", 4) == 0) {
        std::string id;
        for (ElfW(Word) byte = 0; byte < note->n_descsz; ++byte) {
          char digits[3];
          std::snprintf(digits, sizeof digits, "%02x", static_cast<unsigned char>(text[byte]));
          id += digits;
        }
        return id;
      }
      at = text + (note->n_descsz + 3) / 4 * 4;
    }
  }
  return {};
}

void each_object(bool (*visit)(const Object& object, void* data), void* data) {
  struct Visit {
    bool (*visit)(const Object& object, void* data);
    void* data;
    std::string last;
  } each{visit, data, {}};
  each_mapping(
      [](const Mapping& mapping, void* given) {
        auto& one = *static_cast<Visit*>(given);
        if (!mapping.executable || mapping.path.empty() || mapping.path == one.last) return false;
        one.last = mapping.path;
        const std::optional<Object> object = object_at(mapping.begin);
        return object && one.visit(*object, one.data);
      },
      &each);
}

}  // namespace gpufence::observe
