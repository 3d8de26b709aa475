// Memory that travels to another process as a descriptor: a file with the memory and, behind it, a page that
// says what it is. Each kind has a label of its own, which begins with `char magic[8]` and has `bytes` and
// `host_index`.
#pragma once
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>

#include "driver.h"

namespace gpufence::sim {

inline uint64_t page_bytes() {
  return static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

// The label of the file that stands behind a shareable handle, which is a descriptor, cast to a pointer.
// False if it is no such file.
template <class Label>
bool read_label(void* handle, const char (&magic)[8], int* descriptor, Label* label) {
  *descriptor = static_cast<int>(reinterpret_cast<intptr_t>(handle));
  struct stat status {};
  return fstat(*descriptor, &status) == 0 && S_ISREG(status.st_mode) &&
         static_cast<uint64_t>(status.st_size) > page_bytes() &&
         pread(*descriptor, label, sizeof *label, status.st_size - static_cast<off_t>(page_bytes())) ==
             sizeof *label &&
         memcmp(label->magic, magic, sizeof magic) == 0 &&
         label->bytes + page_bytes() == static_cast<uint64_t>(status.st_size);
}

// A descriptor of its own for whoever exports.
inline CUresult give_descriptor(int file, void* out) {
  const int copy = fcntl(file, F_DUPFD_CLOEXEC, 3);
  if (copy < 0) return CUDA_ERROR_OPERATING_SYSTEM;
  memcpy(out, &copy, sizeof copy);
  return CUDA_SUCCESS;
}

// Its GPU has to be visible here as well; nullptr if it is not.
inline Device* visible_at(uint64_t host_index) {
  for (Device* device : driver().visible)
    if (device->host_index == host_index) return device;
  return nullptr;
}

inline bool is_access(CUmemAccess_flags flags) {
  return flags == CU_MEM_ACCESS_FLAGS_PROT_NONE || flags == CU_MEM_ACCESS_FLAGS_PROT_READ ||
         flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
}

}  // namespace gpufence::sim
