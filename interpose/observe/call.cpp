// See call.h. The version suffix is dropped where people read: they wrote cuMemAlloc, not cuMemAlloc_v2.
#include "observe/call.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <link.h>
#include <unwind.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace gpufence::observe {

thread_local constinit Outermost outermost{};

namespace {

std::string demangled(const char* symbol) {
  int status = 0;
  char* text = abi::__cxa_demangle(symbol, nullptr, nullptr, &status);
  std::string out = text != nullptr && status == 0 ? text : symbol;
  std::free(text);
  return out;
}

const char* file_name(const char* path) {
  const char* slash = std::strrchr(path, '/');
  return slash != nullptr ? slash + 1 : path;
}

std::uint64_t offset_in(const void* address, const Dl_info& info) {
  return reinterpret_cast<std::uintptr_t>(address) - reinterpret_cast<std::uintptr_t>(info.dli_fbase);
}

// The libraries of NVIDIA's toolkit and driver, and ourselves: between the program and the driver, never the
// place where it went wrong.
bool of_cuda(const void* address) {
  Dl_info info{};
  if (dladdr(address, &info) == 0 || info.dli_fname == nullptr) return false;
  const std::string_view file = file_name(info.dli_fname);
  for (const std::string_view name :
       {"libcuda.so", "libcudart.so", "libgpufence", "libnvidia-", "libcublas", "libcudnn", "libcufft",
        "libcurand", "libcusolver", "libcusparse", "libnccl", "libnpp", "libnvrtc", "libnvJitLink",
        "libnvjpeg", "libcutensor"}) {
    if (file.starts_with(name)) return true;
  }
  return false;
}

_Unwind_Reason_Code first_outside(_Unwind_Context* frame, void* found) {
  const auto* address = reinterpret_cast<const void*>(_Unwind_GetIP(frame));
  if (address == nullptr || of_cuda(address)) return _URC_NO_REASON;
  *static_cast<const void**>(found) = address;
  return _URC_END_OF_STACK;
}

bool of_libc(const void* address) {
  Dl_info info{};
  if (dladdr(address, &info) == 0 || info.dli_fname == nullptr) return false;
  const std::string_view file = file_name(info.dli_fname);
  return file.starts_with("libc.so") || file.starts_with("libc-2") || file.starts_with("libpthread") ||
         file.starts_with("ld-linux");
}

_Unwind_Reason_Code first_above_libc(_Unwind_Context* frame, void* found) {
  const auto* address = reinterpret_cast<const void*>(_Unwind_GetIP(frame));
  if (address == nullptr || of_cuda(address) || of_libc(address)) return _URC_NO_REASON;
  *static_cast<const void**>(found) = address;
  return _URC_END_OF_STACK;
}

_Unwind_Reason_Code find_exit(_Unwind_Context* frame, void* found) {
  // The byte before: exit() does not return, so its return address lies behind it.
  const auto* address = reinterpret_cast<const void*>(_Unwind_GetIP(frame) - 1);
  Dl_info info{};
  if (dladdr(address, &info) == 0 || info.dli_sname == nullptr || std::strcmp(info.dli_sname, "exit") != 0)
    return _URC_NO_REASON;
  *static_cast<bool*>(found) = true;
  return _URC_END_OF_STACK;
}

// From the object's PT_NOTE segments, in hexadecimal; empty if it was linked without one.
std::string build_id(const link_map* object, const void* base) {
  const auto* header = static_cast<const ElfW(Ehdr)*>(base);
  if (object == nullptr || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0) return {};
  const auto* segment = reinterpret_cast<const ElfW(Phdr)*>(static_cast<const char*>(base) + header->e_phoff);
  for (int i = 0; i < header->e_phnum; ++i, ++segment) {
    if (segment->p_type != PT_NOTE) continue;
    const auto* at = reinterpret_cast<const char*>(object->l_addr + segment->p_vaddr);
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

}  // namespace

Call outside_cuda(Call call) noexcept {
  if (call.caller != nullptr && of_cuda(call.caller)) {
    const void* found = nullptr;
    _Unwind_Backtrace(first_outside, &found);
    if (found != nullptr) call.caller = found;
  }
  return call;
}

bool is_of_cuda(const void* address) noexcept {
  return of_cuda(address);
}

const void* outside_libc() noexcept {
  const void* found = nullptr;
  _Unwind_Backtrace(first_above_libc, &found);
  return found;
}

bool exiting() noexcept {
  bool found = false;
  _Unwind_Backtrace(find_exit, &found);
  return found;
}

journal::Site site_of(const void* address) {
  journal::Site site;
  Dl_info info{};
  void* object = nullptr;
  if (address == nullptr || dladdr1(address, &info, &object, RTLD_DL_LINKMAP) == 0 ||
      info.dli_fname == nullptr)
    return site;
  site.object = journal::on_one_line(file_name(info.dli_fname));
  site.offset = offset_in(address, info);
  site.build_id = build_id(static_cast<const link_map*>(object), info.dli_fbase);
  if (info.dli_sname != nullptr) site.symbol = demangled(info.dli_sname);
  return site;
}

std::string object_text(const void* address) {
  Dl_info info{};
  if (address == nullptr || dladdr(address, &info) == 0 || info.dli_fname == nullptr)
    return "an unknown place";
  return journal::on_one_line(file_name(info.dli_fname));
}

std::string site_text(const void* address) {
  Dl_info info{};
  if (address == nullptr || dladdr(address, &info) == 0 || info.dli_fname == nullptr)
    return "an unknown place";
  char offset[32];
  std::snprintf(offset, sizeof offset, "+0x%zx", static_cast<std::size_t>(offset_in(address, info)));
  std::string out = journal::on_one_line(file_name(info.dli_fname)) + offset;
  if (info.dli_sname != nullptr) out += " (" + demangled(info.dli_sname) + ")";
  return out;
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
