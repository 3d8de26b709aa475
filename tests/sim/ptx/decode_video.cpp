// Video instructions, scalar and SIMD: their words and selectors.
#include <algorithm>

#include "decoder.h"

namespace gpufence::sim::ptx {

// %r1.b0, %r1.h10, %r1.b3210: a register and which of its parts.
bool Decoder::selected(const Operand& operand, Operand* word, std::string_view* selector) {
  *word = operand;
  *selector = {};
  const size_t dot = operand.kind == Operand::Kind::name ? operand.name.rfind('.') : std::string_view::npos;
  if (dot == std::string_view::npos || find(operand.name) != nullptr) return true;
  const std::string_view tail = operand.name.substr(dot + 1);
  const char last = tail.starts_with('h') ? '3' : '7';
  if (!tail.starts_with('h') && !tail.starts_with('b')) return true;
  for (const char c : tail.substr(1)) {
    if (c < '0' || c > last) return invalid("an unknown selector ." + std::string(tail));
  }
  word->name = operand.name.substr(0, dot);
  *selector = tail;
  return true;
}

// One part of each word: d.dsel, a.asel, b.bsel, c.
void Decoder::video(Ins& ins, Video video) {
  Opcode& op = ins.op;
  const std::string_view second = op.take_any({"add", "min", "max"});
  if (!arity(ins, 3, 4)) return;
  Operand words[3];
  for (unsigned k = 0; k < 3; ++k) {
    std::string_view selector;
    if (!selected(ins[k], &words[k], &selector)) return;
    if (selector.empty()) continue;
    const unsigned bits = selector.front() == 'h' ? 16 : 8;
    if (selector.size() != 2 || static_cast<unsigned>(selector[1] - '0') >= 32 / bits)
      return void(invalid("an unknown selector ." + std::string(selector)));
    const auto at = static_cast<uint8_t>(selector[1] - '0');
    (k == 0 ? video.d_bits : k == 1 ? video.a_bits : video.b_bits) = static_cast<uint8_t>(bits);
    (k == 0 ? video.d_part : k == 1 ? video.a_part[0] : video.b_part[0]) = at;
  }
  const bool merges = video.d_bits != 32;
  if ((!second.empty() || merges) != (ins.count == 4) || (!second.empty() && merges))
    return void(invalid("a third word without its use"));
  video.second = merges            ? Video::Second::merge
                 : second == "add" ? Video::Second::add
                 : second == "min" ? Video::Second::min
                 : second == "max" ? Video::Second::max
                                   : Video::Second::none;
  const Place a = source(words[1], Type::b32), b = source(words[2], Type::b32);
  const Place c = ins.count == 4 ? source(ins[3], Type::b32) : a;
  const Place d = dest(words[0], Type::b32);
  if (!ok()) return;
  Draft& draft = alu(ins, op_video);
  def(draft, 0, d);
  use(draft, 1, a);
  use(draft, 2, b);
  use(draft, 3, c);
  draft.op.imm = static_cast<int64_t>(code_->videos.size());
  code_->videos.push_back(video);
}

// All parts at once: d.mask, a.asel, b.bsel, c.
void Decoder::simd_video(Ins& ins, Video video, unsigned parts) {
  Opcode& op = ins.op;
  video.is_simd = true;
  video.second = op.take("add") ? Video::Second::add : Video::Second::merge;
  if (video.saturates && video.second == Video::Second::add) return void(unsupported(""));
  if (!arity(ins, 4)) return;
  video.d_bits = static_cast<uint8_t>(32 / parts);
  video.mask = static_cast<uint8_t>((1U << parts) - 1);
  for (unsigned k = 0; k < parts; ++k) {
    video.a_part[k] = static_cast<uint8_t>(k);
    video.b_part[k] = static_cast<uint8_t>(parts + k);
  }
  Operand words[3];
  for (unsigned k = 0; k < 3; ++k) {
    std::string_view selector;
    if (!selected(ins[k], &words[k], &selector)) return;
    if (selector.empty()) continue;
    if ((selector.front() == 'h' ? 2U : 4U) != parts || (k != 0 && selector.size() != parts + 1))
      return void(invalid("an unknown selector ." + std::string(selector)));
    if (k == 0) {
      video.mask = 0;
      for (const char c : selector.substr(1)) video.mask |= static_cast<uint8_t>(1U << (c - '0'));
      if (video.mask == 0 || video.mask >= 1U << parts)
        return void(invalid("an unknown mask ." + std::string(selector)));
      continue;
    }
    // The first digit names what comes into the highest part.
    for (unsigned n = 0; n < parts; ++n)
      (k == 1 ? video.a_part : video.b_part)[parts - 1 - n] = static_cast<uint8_t>(selector[1 + n] - '0');
  }
  const Place a = source(words[1], Type::b32), b = source(words[2], Type::b32), c = source(ins[3], Type::b32),
              d = dest(words[0], Type::b32);
  if (!ok()) return;
  Draft& draft = alu(ins, op_video);
  def(draft, 0, d);
  use(draft, 1, a);
  use(draft, 2, b);
  use(draft, 3, c);
  draft.op.imm = static_cast<int64_t>(code_->videos.size());
  code_->videos.push_back(video);
}

// add, min and max of pairs of 16 bits are what SIMD video instructions are without their selectors.
bool Decoder::in_packed(Ins& ins) {
  Opcode& op = ins.op;
  const bool is_signed = op.has("s16x2");
  if (!is_signed && !op.has("u16x2")) return false;
  Video video;
  video.is_simd = true;
  video.second = Video::Second::merge;
  video.d_bits = 16;
  video.mask = 3;
  video.a_signed = video.b_signed = video.d_signed = is_signed;
  for (uint8_t k = 0; k < 2; ++k) {
    video.a_part[k] = k;
    video.b_part[k] = static_cast<uint8_t>(2 + k);
  }
  if (op.base() == "add")
    video.what = Video::What::add;
  else if (op.base() == "min")
    video.what = Video::What::min;
  else if (op.base() == "max")
    video.what = Video::What::max;
  else
    return unsupported(""), true;
  const bool relu = op.take("relu");
  op.take(is_signed ? "s16x2" : "u16x2");
  if (relu && (!is_signed || op.base() == "add")) return unsupported(""), true;
  if (!arity(ins, 3)) return true;
  const Place a = source(ins[1], Type::b32), b = source(ins[2], Type::b32), d = dest(ins[0], Type::b32);
  const auto step = [&](Place to, Place x, Place y) {
    if (!ok()) return;
    Draft& draft = alu(ins, op_video);
    def(draft, 0, to);
    use(draft, 1, x);
    use(draft, 2, y);
    use(draft, 3, literal(4, 0));
    draft.op.imm = static_cast<int64_t>(code_->videos.size());
    code_->videos.push_back(video);
  };
  const Place result = relu && ok() ? place(4) : d;
  step(result, a, b);
  if (!relu) return true;
  video.what = Video::What::max;
  step(d, result, literal(4, 0));
  return true;
}

bool Decoder::in_video(Ins& ins) {
  static constexpr std::pair<std::string_view, Video::What> kNames[] = {
      {"vadd", Video::What::add},      {"vsub", Video::What::sub}, {"vabsdiff", Video::What::difference},
      {"vavrg", Video::What::average}, {"vmin", Video::What::min}, {"vmax", Video::What::max},
      {"vshl", Video::What::shl},      {"vshr", Video::What::shr}, {"vset", Video::What::set}};
  Opcode& op = ins.op;
  std::string_view base = op.base();
  const unsigned parts = base.ends_with('2') ? 2 : base.ends_with('4') ? 4 : 1;
  if (parts != 1) base.remove_suffix(1);
  const auto* found = std::find_if(std::begin(kNames), std::end(kNames),
                                   [&](const auto& name) { return name.first == base; });
  if (found == std::end(kNames)) return false;
  Video video;
  video.what = found->second;
  const bool shifts = video.what == Video::What::shl || video.what == Video::What::shr;
  if ((parts != 1 && shifts) || (parts == 1 && video.what == Video::What::average)) return false;
  const Type d = video.what == Video::What::set ? Type::u32 : op.take_type();
  const Type a = op.take_type(), b = op.take_type();
  for (const Type type : {d, a, b}) {
    if (type != Type::u32 && type != Type::s32) return unsupported(""), true;
  }
  video.d_signed = d == Type::s32;
  video.a_signed = a == Type::s32;
  video.b_signed = b == Type::s32;
  if (video.what == Video::What::set) {
    Key key;
    Combine combine = Combine::none;
    if (!comparison(ins, &key, &combine)) return true;
    if (key.compare > Compare::ge || combine != Combine::none) return unsupported(""), true;
    video.compare = key.compare;
  } else {
    video.saturates = op.take("sat");
  }
  if (shifts) {
    video.wraps = op.take("wrap");
    if ((!video.wraps && !op.take("clamp")) || b != Type::u32) return unsupported(""), true;
  }
  if (parts == 1)
    this->video(ins, video);
  else
    simd_video(ins, video, parts);
  return true;
}

}  // namespace gpufence::sim::ptx
