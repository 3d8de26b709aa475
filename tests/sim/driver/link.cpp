// The JIT linker, for PTX and fatbins with PTX. What it makes is an image of our own kind that the load calls
// take (fatbin.h); it is linked anew at the load, for the GPU that it is loaded on.
#include <cstring>

#include "code.h"

namespace gpufence::sim {
bool read_file(const char* path, std::vector<char>& out);  // module.cpp
}

using namespace gpufence::sim;

namespace {

CUresult create(unsigned count, CUjit_option* options, void** values, CUlinkState* out) {
  JitLog log;
  if (out == nullptr || !log.read(count, options, values)) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard<std::mutex> held(code_table().lock);
  Link* link = code_table().links.take();
  if (link == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  // The buffers live as long as the link (cuLinkCreate's documentation); the sizes are told at its creation
  // only.
  link->error_log = log.error;
  link->error_log_bytes = log.error_bytes;
  log.write({});
  code_table().links.publish(link);
  *out = reinterpret_cast<CUlinkState>(link);
  return CUDA_SUCCESS;
}

template <class Body>
CUresult with_link(const char* name, CUlinkState given, Body&& body) {
  return in_context(name, [&](Context& context) {
    std::lock_guard<std::mutex> held(code_table().lock);
    Link* link = code_table().links.check(given);
    return link == nullptr ? CUDA_ERROR_INVALID_HANDLE : body(*link, context);
  });
}

void complain(Link& link, const std::string& text) {
  JitLog log;
  log.error = link.error_log;
  log.error_bytes = link.error_log_bytes;
  log.write(text);
}

CUresult add(Link& link, Context& context, CUjitInputType type, const void* data, size_t bytes) {
  if (data == nullptr || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  if (type != CU_JIT_INPUT_PTX && type != CU_JIT_INPUT_FATBINARY && type != CU_JIT_INPUT_CUBIN) {
    say_once(
        "the simulator links PTX and fatbins only, no objects and libraries: it answered "
        "CUDA_ERROR_NOT_SUPPORTED");
    return type >= 0 && type < CU_JIT_NUM_INPUT_TYPES ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE;
  }
  // PTX need not end with NUL here.
  std::vector<char> copy(static_cast<const char*>(data), static_cast<const char*>(data) + bytes);
  copy.push_back('\0');
  const auto base = reinterpret_cast<uintptr_t>(copy.data());
  auto read = read_code(copy.data(), [&](uintptr_t address) {
    return address - base < copy.size() ? copy.size() - (address - base) : 0;
  });
  if (!read) {
    complain(link, read.error());
    return type == CU_JIT_INPUT_PTX ? CUDA_ERROR_INVALID_PTX : CUDA_ERROR_INVALID_IMAGE;
  }
  // What is wrong with this part alone is told here; missing symbols are found when all parts are there.
  for (Binary& binary : read->members) {
    for (const PtxImage* image : candidates(binary, capability(*context.device))) {
      const auto text = image->text();
      if (!text) return CUDA_ERROR_INVALID_IMAGE;
      if (!target_fits(*text, capability(*context.device))) continue;
      if (const auto parsed = ptx::parse(*text); !parsed) {
        complain(link, ptxas_says(parsed.error()));
        return CUDA_ERROR_INVALID_PTX;
      }
      break;
    }
    link.image.members.push_back(std::move(binary));
  }
  return CUDA_SUCCESS;
}

CUresult add_file(Link& link, Context& context, CUjitInputType type, const char* path) {
  std::vector<char> bytes;
  if (path == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!gpufence::sim::read_file(path, bytes)) return CUDA_ERROR_FILE_NOT_FOUND;
  return add(link, context, type, bytes.data(), bytes.size());
}

}  // namespace

CUresult cuLinkCreate(unsigned int count, CUjit_option* options, void** values, CUlinkState* out) {
  return in_context(__func__, [&](Context&) { return create(count, options, values, out); });
}
CUresult cuLinkCreate_v2(unsigned int count, CUjit_option* options, void** values, CUlinkState* out) {
  return in_context(__func__, [&](Context&) { return create(count, options, values, out); });
}

CUresult cuLinkAddData(CUlinkState given, CUjitInputType type, void* data, size_t bytes, const char*,
                       unsigned int, CUjit_option*, void**) {
  return with_link(__func__, given,
                   [&](Link& link, Context& context) { return add(link, context, type, data, bytes); });
}
CUresult cuLinkAddData_v2(CUlinkState given, CUjitInputType type, void* data, size_t bytes, const char*,
                          unsigned int, CUjit_option*, void**) {
  return with_link(__func__, given,
                   [&](Link& link, Context& context) { return add(link, context, type, data, bytes); });
}
CUresult cuLinkAddFile(CUlinkState given, CUjitInputType type, const char* path, unsigned int, CUjit_option*,
                       void**) {
  return with_link(__func__, given,
                   [&](Link& link, Context& context) { return add_file(link, context, type, path); });
}
CUresult cuLinkAddFile_v2(CUlinkState given, CUjitInputType type, const char* path, unsigned int,
                          CUjit_option*, void**) {
  return with_link(__func__, given,
                   [&](Link& link, Context& context) { return add_file(link, context, type, path); });
}

CUresult cuLinkComplete(CUlinkState given, void** image, size_t* bytes) {
  return with_link(__func__, given, [&](Link& link, Context& context) {
    if (image == nullptr) return CUDA_ERROR_INVALID_VALUE;
    std::shared_ptr<const ptx::Module> linked;
    std::string log;
    const CUresult result = compile(link.image, *context.device, linked, log);
    complain(link, log);
    if (result != CUDA_SUCCESS) return result;
    link.made = write_code(link.image);
    *image = link.made.data();
    if (bytes != nullptr) *bytes = link.made.size();
    return CUDA_SUCCESS;
  });
}

CUresult cuLinkDestroy(CUlinkState given) {
  return initialised(__func__, [&] {
    std::lock_guard<std::mutex> held(code_table().lock);
    Link* link = code_table().links.check(given);
    if (link == nullptr) return CUDA_ERROR_INVALID_HANDLE;
    link->image = {};
    link->made = {};
    code_table().links.retire(link);
    return CUDA_SUCCESS;
  });
}
