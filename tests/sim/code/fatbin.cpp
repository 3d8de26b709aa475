#include "fatbin.h"

#include <lz4.h>
#include <zstd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>

namespace gpufence::sim {
namespace {

constexpr uint32_t kWrapperMagic = 0x466243b1, kFatbinMagic = 0xba55ed50;
constexpr uint64_t kLinkedMagic = 0x316b6e696c667067;  // "gpflink1"
constexpr uint64_t kMostText = uint64_t{256} << 20;

struct Wrapper {
  uint32_t magic, version;
  uint64_t fatbin;
  uint64_t name_or_fatbins;  // version 2: NULL-terminated array of fatbins
};

struct Header {
  uint32_t magic;
  uint16_t version, header_bytes;
  uint64_t bytes;  // after the header
};

struct Entry {
  uint16_t kind, version;
  uint32_t header_bytes;
  uint64_t payload_bytes;  // padded to 8
  uint32_t packed_bytes;
  uint32_t options_offset;
  uint16_t minor, major;
  uint32_t sm;
  uint32_t name_offset, name_bytes;
  uint64_t flags;
  uint64_t zero;
  uint64_t unpacked_bytes;
};

// Of write_code(): fatbins follow, back to back.
struct Linked {
  uint64_t magic;
  uint64_t members;
};
static_assert(sizeof(Wrapper) == 24 && sizeof(Header) == 16 && sizeof(Entry) == 64);

constexpr uint16_t kPtx = 1, kElf = 2;
constexpr uint64_t kZstd = 0x8000, kLz4 = 0x2000;

struct ElfHead {
  unsigned char ident[16];
  uint16_t type, machine;
  uint32_t version;
  uint64_t entry, program_headers, sections;
  uint32_t flags;
};
constexpr uint16_t kElfCuda = 190;

template <class T>
T read(const uint8_t* at) {
  T value;
  memcpy(&value, at, sizeof value);
  return value;
}

// sm_XX of a cubin: in the second byte of its flags since ABI 8 (CUDA 13), in the first before. 0: no cubin.
uint32_t cubin_sm(const uint8_t* at, size_t bytes) {
  if (bytes < sizeof(ElfHead) || memcmp(at,
                                        "\x7f"
                                        "ELF",
                                        4) != 0)
    return 0;
  const auto head = read<ElfHead>(at);
  if (head.machine != kElfCuda) return 0;
  return head.ident[8] >= 8 ? head.flags >> 8 & 0xff : head.flags & 0xff;
}

tl::unexpected<std::string> damaged(const char* what) {
  return tl::unexpected<std::string>(what);
}

tl::expected<Binary, std::string> read_fatbin(const uint8_t* at, size_t reachable) {
  if (reachable < sizeof(Header)) return damaged("the fatbin ends in its header");
  const auto header = read<Header>(at);
  if (header.magic != kFatbinMagic) return damaged("no fatbin: wrong magic");
  if (header.header_bytes < sizeof(Header) || header.header_bytes > reachable)
    return damaged("the fatbin's header has an impossible size");
  if (header.bytes > kMostBytes || header.bytes > reachable - header.header_bytes)
    return damaged("the fatbin is larger than the memory that holds it");
  const uint8_t* entry_at = at + header.header_bytes;
  uint64_t left = header.bytes;
  Binary binary;
  for (size_t count = 0; left != 0; ++count) {
    if (count == kMostEntries) return damaged("the fatbin has too many entries");
    if (left < sizeof(Entry)) return damaged("a fatbin entry ends in its header");
    const auto entry = read<Entry>(entry_at);
    if (entry.header_bytes < sizeof(Entry) || entry.header_bytes > left ||
        entry.payload_bytes > left - entry.header_bytes)
      return damaged("a fatbin entry is larger than the fatbin");
    const uint8_t* payload = entry_at + entry.header_bytes;
    if (entry.kind == kElf) {
      binary.cubins.push_back(entry.sm);
    } else if (entry.kind == kPtx) {
      PtxImage image;
      image.compute = entry.sm;
      image.packing = (entry.flags & kZstd) != 0  ? Packing::zstd
                      : (entry.flags & kLz4) != 0 ? Packing::lz4
                                                  : Packing::plain;
      const uint64_t packed = image.packing == Packing::plain ? entry.payload_bytes : entry.packed_bytes;
      if (packed > entry.payload_bytes) return damaged("a packed fatbin entry is larger than its room");
      image.text_bytes = image.packing == Packing::plain ? packed : entry.unpacked_bytes;
      if (image.text_bytes > kMostText) return damaged("a PTX text of a fatbin is larger than 256 MiB");
      image.packed.assign(payload, payload + packed);
      // write_code() keeps bare text so: nvcc writes no compute_0.
      if (image.compute == 0) binary.is_text = true;
      binary.ptx.push_back(std::move(image));
    }  // other kinds (LTO IR, options) are for tools
    const uint64_t step = entry.header_bytes + entry.payload_bytes;
    entry_at += step;
    left -= step;
  }
  return binary;
}

tl::expected<Binary, std::string> read_fatbin_at(uintptr_t address, const Reach& reach) {
  return read_fatbin(reinterpret_cast<const uint8_t*>(address), reach(address));
}

tl::expected<CodeImage, std::string> read_wrapper(const Wrapper& wrapper, const Reach& reach) {
  CodeImage code;
  if (wrapper.version == 1) {
    auto binary = read_fatbin_at(wrapper.fatbin, reach);
    if (!binary) return tl::unexpected(binary.error());
    code.members.push_back(std::move(*binary));
    return code;
  }
  if (wrapper.version != 2) return damaged("a fatbin wrapper of unknown version");
  uintptr_t slot = wrapper.name_or_fatbins;
  for (size_t left = reach(slot) / sizeof(uint64_t);; --left, slot += sizeof(uint64_t)) {
    if (left == 0) return damaged("the wrapper's list of fatbins does not end");
    const auto address = read<uint64_t>(reinterpret_cast<const uint8_t*>(slot));
    if (address == 0) break;
    if (code.members.size() == kMostMembers) return damaged("the wrapper lists too many fatbins");
    auto binary = read_fatbin_at(address, reach);
    if (!binary) return tl::unexpected(binary.error());
    code.members.push_back(std::move(*binary));
  }
  if (code.members.empty()) {  // linked without relocatable code: what nvlink made is all there is
    auto binary = read_fatbin_at(wrapper.fatbin, reach);
    if (!binary) return tl::unexpected(binary.error());
    code.members.push_back(std::move(*binary));
  }
  return code;
}

tl::expected<CodeImage, std::string> read_linked(const uint8_t* at, size_t bytes) {
  if (bytes < sizeof(Linked)) return damaged("the linked image ends in its header");
  const auto linked = read<Linked>(at);
  if (linked.members > kMostMembers) return damaged("the linked image has too many parts");
  at += sizeof(Linked);
  bytes -= sizeof(Linked);
  CodeImage code;
  for (uint64_t i = 0; i < linked.members; ++i) {
    auto binary = read_fatbin(at, bytes);
    if (!binary) return tl::unexpected(binary.error());
    const auto header = read<Header>(at);
    at += header.header_bytes + header.bytes;
    bytes -= header.header_bytes + header.bytes;
    code.members.push_back(std::move(*binary));
  }
  return code;
}

template <class T>
void append(std::vector<uint8_t>& out, const T& value) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(&value);
  out.insert(out.end(), bytes, bytes + sizeof value);
}

bool looks_like_text(const uint8_t* at, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i) {
    const uint8_t c = at[i];
    if (c == '.' || c == '/') return true;  // .version, or a comment
    if (c != ' ' && c != '\t' && c != '\r' && c != '\n') return false;
  }
  return false;
}

std::string list(const char* prefix, std::vector<uint32_t> numbers) {
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  std::string out;
  for (uint32_t n : numbers) out += (out.empty() ? "" : ", ") + std::string(prefix) + std::to_string(n);
  return out;
}

}  // namespace

Reach process_memory() {
  struct Mapping {
    uintptr_t begin, end;
  };
  auto mappings = std::make_shared<std::vector<Mapping>>();
  if (FILE* maps = fopen("/proc/self/maps", "re")) {
    char* line = nullptr;
    size_t room = 0;
    while (getline(&line, &room, maps) > 0) {
      unsigned long long begin = 0, end = 0;
      char readable = 0;
      if (sscanf(line, "%llx-%llx %c", &begin, &end, &readable) != 3 || readable != 'r') continue;
      if (!mappings->empty() && mappings->back().end == begin)
        mappings->back().end = end;
      else
        mappings->push_back({begin, end});
    }
    free(line);
    fclose(maps);
  }
  return [mappings](uintptr_t address) -> size_t {
    // Without /proc what the caller says must do, as it must for the genuine driver.
    if (mappings->empty()) return address == 0 ? 0 : SIZE_MAX - address;
    auto next = std::upper_bound(mappings->begin(), mappings->end(), address,
                                 [](uintptr_t a, const Mapping& m) { return a < m.end; });
    return next != mappings->end() && next->begin <= address ? next->end - address : 0;
  };
}

tl::expected<std::string, std::string> PtxImage::text() const {
  std::string out;
  switch (packing) {
    case Packing::plain:
      out.assign(packed.begin(), packed.end());
      break;
    case Packing::zstd: {
      // The frame tells its size too: a text of another size is damage, found before memory is taken for it.
      if (ZSTD_getFrameContentSize(packed.data(), packed.size()) != text_bytes)
        return damaged("a packed PTX text is damaged");
      out.resize(text_bytes);
      const size_t made = ZSTD_decompress(out.data(), out.size(), packed.data(), packed.size());
      if (ZSTD_isError(made) != 0 || made != text_bytes) return damaged("a packed PTX text is damaged");
      break;
    }
    case Packing::lz4: {
      if (text_bytes > packed.size() * 256 + 64) return damaged("a packed PTX text is damaged");
      out.resize(text_bytes);
      const int made = LZ4_decompress_safe(reinterpret_cast<const char*>(packed.data()), out.data(),
                                           static_cast<int>(packed.size()), static_cast<int>(out.size()));
      if (made < 0 || static_cast<uint64_t>(made) != text_bytes)
        return damaged("a packed PTX text is damaged");
      break;
    }
  }
  while (!out.empty() && out.back() == '\0') out.pop_back();
  return out;
}

tl::expected<CodeImage, std::string> read_code(const void* image, const Reach& reach) {
  const auto address = reinterpret_cast<uintptr_t>(image);
  const auto* at = static_cast<const uint8_t*>(image);
  const size_t bytes = reach(address);
  if (bytes >= sizeof(uint32_t)) {
    const auto magic = read<uint32_t>(at);
    if (magic == kWrapperMagic) {
      if (bytes < sizeof(Wrapper)) return damaged("the fatbin wrapper is cut off");
      return read_wrapper(read<Wrapper>(at), reach);
    }
    if (bytes >= sizeof(uint64_t) && read<uint64_t>(at) == kLinkedMagic) return read_linked(at, bytes);
    CodeImage code;
    if (magic == kFatbinMagic) {
      auto binary = read_fatbin(at, bytes);
      if (!binary) return tl::unexpected(binary.error());
      code.members.push_back(std::move(*binary));
      return code;
    }
    if (const uint32_t sm = cubin_sm(at, bytes); sm != 0) {
      code.members.emplace_back().cubins.push_back(sm);
      return code;
    }
  }
  const auto* end = static_cast<const uint8_t*>(memchr(at, 0, std::min<uint64_t>(bytes, kMostText)));
  if (end == nullptr || !looks_like_text(at, static_cast<size_t>(end - at)))
    return damaged("neither a fatbin, a cubin nor PTX");
  CodeImage code;
  Binary& binary = code.members.emplace_back();
  binary.is_text = true;
  PtxImage& text = binary.ptx.emplace_back();
  text.packed.assign(at, end);
  text.text_bytes = text.packed.size();
  return code;
}

std::vector<Binary> read_section(const uint8_t* at, size_t bytes) {
  std::vector<Binary> found;
  while (bytes >= sizeof(Header)) {
    const auto header = read<Header>(at);
    size_t step = sizeof(uint64_t);  // of the padding between two
    if (header.magic != 0) {
      auto binary = read_fatbin(at, bytes);
      if (!binary) break;
      found.push_back(std::move(*binary));
      step = header.header_bytes + header.bytes;
    }
    at += step;
    bytes -= step;
  }
  return found;
}

std::vector<uint8_t> write_code(const CodeImage& code) {
  std::vector<uint8_t> out;
  append(out, Linked{kLinkedMagic, code.members.size()});
  for (const Binary& binary : code.members) {
    Header header{kFatbinMagic, 1, sizeof(Header), 0};
    auto room = [](const PtxImage& image) { return (image.packed.size() + 7) / 8 * 8; };
    for (const PtxImage& image : binary.ptx) header.bytes += sizeof(Entry) + room(image);
    append(out, header);
    for (const PtxImage& image : binary.ptx) {
      Entry entry{};
      entry.kind = kPtx;
      entry.header_bytes = sizeof(Entry);
      entry.payload_bytes = room(image);
      entry.packed_bytes = static_cast<uint32_t>(image.packed.size());
      entry.sm = image.compute;
      entry.flags = image.packing == Packing::zstd ? kZstd : image.packing == Packing::lz4 ? kLz4 : 0;
      entry.unpacked_bytes = image.text_bytes;
      append(out, entry);
      out.insert(out.end(), image.packed.begin(), image.packed.end());
      out.resize(out.size() + room(image) - image.packed.size());
    }
  }
  return out;
}

std::vector<const PtxImage*> candidates(const Binary& binary, uint32_t capability) {
  std::vector<const PtxImage*> fit;
  for (const PtxImage& image : binary.ptx)
    if (image.compute <= capability) fit.push_back(&image);
  std::stable_sort(fit.begin(), fit.end(),
                   [](const PtxImage* a, const PtxImage* b) { return a->compute > b->compute; });
  return fit;
}

bool target_fits(std::string_view ptx, uint32_t capability) {
  constexpr std::string_view kDirective = ".target";
  // Comments may hold the word; a line that starts with it does not.
  size_t at = 0;
  for (;;) {
    at = ptx.find(kDirective, at);
    if (at == std::string_view::npos) return true;  // the parser will say what is wrong
    const size_t line = ptx.find_last_of('\n', at);
    const size_t first = ptx.find_first_not_of(" \t\r", line == std::string_view::npos ? 0 : line + 1);
    if (first == at) break;
    at += kDirective.size();
  }
  at = ptx.find("sm_", at);
  if (at == std::string_view::npos) return true;
  uint32_t sm = 0;
  for (at += 3; at < ptx.size() && ptx[at] >= '0' && ptx[at] <= '9' && sm < 10000; ++at)
    sm = sm * 10 + static_cast<uint32_t>(ptx[at] - '0');
  const char suffix = at < ptx.size() ? ptx[at] : '\0';
  if (suffix == 'a') return sm == capability;
  if (suffix == 'f') return sm <= capability && sm / 10 == capability / 10;
  return sm <= capability;
}

std::string why_none(const Binary& binary, uint32_t capability) {
  const std::string wanted = std::to_string(capability);
  std::string why = "kernel module has no PTX";
  if (!binary.ptx.empty()) {
    std::vector<uint32_t> computes;
    for (const PtxImage& image : binary.ptx) computes.push_back(image.compute);
    why += " for compute capability " + std::to_string(capability / 10) + "." +
           std::to_string(capability % 10) + ": only " + list("compute_", computes);
    if (!binary.cubins.empty()) why += ", and code for " + list("sm_", binary.cubins);
  } else if (!binary.cubins.empty()) {
    why += ": only code for " + list("sm_", binary.cubins);
  }
  return why + "; compile with -gencode arch=compute_" + wanted + ",code=compute_" + wanted;
}

}  // namespace gpufence::sim
