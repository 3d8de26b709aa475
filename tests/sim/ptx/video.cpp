// Video instructions: parts of words chosen by selectors, computed as wide as needed, saturated, then merged
// with or added to a third word. One handler for all of them; they are rare, and their choices multiply.
#include <algorithm>

#include "control.h"

namespace gpufence::sim::ptx {
namespace {

// Part `at` of `bits` bits, as wide as it may become.
int64_t part(uint64_t word, unsigned at, unsigned bits, bool sign) {
  const uint64_t value = word >> (at * bits) & (~uint64_t{0} >> (64 - bits));
  return sign && (value >> (bits - 1) & 1) != 0 ? static_cast<int64_t>(value) - (int64_t{1} << bits)
                                                : static_cast<int64_t>(value);
}

int64_t clamp(int64_t value, unsigned bits, bool sign) {
  const int64_t most = (int64_t{1} << (sign ? bits - 1 : bits)) - 1;
  return std::clamp(value, sign ? -most - 1 : int64_t{0}, most);
}

bool holds(Compare compare, int64_t a, int64_t b) {
  switch (compare) {
    case Compare::eq:
      return a == b;
    case Compare::ne:
      return a != b;
    case Compare::lt:
      return a < b;
    case Compare::le:
      return a <= b;
    case Compare::gt:
      return a > b;
    default:
      return a >= b;
  }
}

int64_t compute(const Video& video, int64_t a, int64_t b) {
  switch (video.what) {
    case Video::What::add:
      return a + b;
    case Video::What::sub:
      return a - b;
    case Video::What::average:  // halves go away from zero
      return a + b >= 0 ? (a + b + 1) >> 1 : (a + b) >> 1;
    case Video::What::difference:
      return a > b ? a - b : b - a;
    case Video::What::min:
      return std::min(a, b);
    case Video::What::max:
      return std::max(a, b);
    case Video::What::shl:
    case Video::What::shr: {
      const int64_t by = video.wraps ? b & 31 : std::min<int64_t>(b, 32);
      return video.what == Video::What::shl ? static_cast<int64_t>(static_cast<uint64_t>(a) << by) : a >> by;
    }
    case Video::What::set:
      return holds(video.compare, a, b) ? 1 : 0;
  }
  return 0;
}

uint32_t one(const Video& video, uint32_t a, uint32_t b, uint32_t c) {
  const unsigned bits = video.d_bits;
  int64_t value = compute(video, part(a, video.a_part[0], video.a_bits, video.a_signed),
                          part(b, video.b_part[0], video.b_bits, video.b_signed));
  if (video.saturates) value = clamp(value, bits, video.d_signed);
  const auto word = static_cast<uint32_t>(value);
  switch (video.second) {
    case Video::Second::add:
      return word + c;
    case Video::Second::min:
    case Video::Second::max: {
      const int64_t x = part(word, 0, 32, video.d_signed), y = part(c, 0, 32, video.d_signed);
      return static_cast<uint32_t>(video.second == Video::Second::min ? std::min(x, y) : std::max(x, y));
    }
    case Video::Second::merge: {
      const uint32_t mask = (~uint32_t{0} >> (32 - bits)) << (video.d_part * bits);
      return (word << (video.d_part * bits) & mask) | (c & ~mask);
    }
    case Video::Second::none:
      break;
  }
  return word;
}

uint32_t several(const Video& video, uint32_t a, uint32_t b, uint32_t c) {
  const unsigned bits = video.d_bits, parts = 32 / bits;
  const uint64_t both = uint64_t{b} << 32 | a;  // selectors count through a and then b
  uint32_t result = video.second == Video::Second::add ? c : 0;
  for (unsigned k = 0; k < parts; ++k) {
    int64_t value = compute(video, part(both, video.a_part[k], bits, video.a_signed),
                            part(both, video.b_part[k], bits, video.b_signed));
    if (video.saturates) value = clamp(value, bits, video.d_signed);
    const bool chosen = (video.mask >> k & 1) != 0;
    const uint32_t mask = (~uint32_t{0} >> (32 - bits)) << (k * bits);
    if (video.second == Video::Second::add)
      result += chosen ? static_cast<uint32_t>(value) : 0;
    else
      result |= chosen ? static_cast<uint32_t>(value) << (k * bits) & mask : c & mask;
  }
  return result;
}

}  // namespace

const Op* op_video(Warp& warp, const Op* op) {
  const Video& video = warp.frame->code->videos[static_cast<size_t>(op->imm)];
  uint32_t* d = row<uint32_t>(warp, op->r[0]);
  const uint32_t* a = row<uint32_t>(warp, op->r[1]);
  const uint32_t* b = row<uint32_t>(warp, op->r[2]);
  const uint32_t* c = row<uint32_t>(warp, op->r[3]);
  for (uint32_t left = exec_mask(warp, op); left != 0; left &= left - 1) {
    const auto i = static_cast<unsigned>(__builtin_ctz(left));
    d[i] = video.is_simd ? several(video, a[i], b[i], c[i]) : one(video, a[i], b[i], c[i]);
  }
  return op + 1;
}

}  // namespace gpufence::sim::ptx
