// libFuzzer over the reader of fatbins: any bytes, in a buffer of exactly their size. The first byte chooses
// where the reading starts, so that a wrapper can lie in front of what it points to: its two pointers are
// taken as offsets into the buffer.
#include <algorithm>
#include <cstring>
#include <memory>

#include "fatbin.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace gpufence::sim;
  if (size == 0) return 0;
  const bool wrapped = (data[0] & 1) != 0;
  --size;
  const std::unique_ptr<uint8_t[]> bytes(new uint8_t[size]);
  std::copy(data + 1, data + 1 + size, bytes.get());
  const auto base = reinterpret_cast<uintptr_t>(bytes.get());
  auto to_pointer = [&](size_t at) {
    uint64_t offset = 0;
    if (at + sizeof offset > size) return;
    memcpy(&offset, bytes.get() + at, sizeof offset);
    if (offset != 0) offset += base;
    memcpy(bytes.get() + at, &offset, sizeof offset);
  };
  if (wrapped) {
    to_pointer(8);
    to_pointer(16);
    for (size_t slot = 24; slot < 56; slot += 8) to_pointer(slot);
  }
  const Reach reach = [&](uintptr_t address) -> size_t {
    return address - base < size ? size - (address - base) : 0;
  };
  const auto code = read_code(bytes.get(), reach);
  if (!code) return 0;
  for (const Binary& binary : code->members) {
    for (const uint32_t capability : {75u, 90u, 120u}) {
      const auto fit = candidates(binary, capability);
      if (fit.empty()) (void)why_none(binary, capability);
      for (const PtxImage* image : fit)
        if (const auto text = image->text()) (void)target_fits(*text, capability);
    }
  }
  return 0;
}
