// tex, tld4, txq, suld, sust, sured, suq. Textures and surfaces are known by the 64-bit handles of their
// objects: nvcc knows no references (.texref, .surfref) any longer, nor samplers apart from their textures.
#include "decoder.h"

namespace gpufence::sim::ptx {

bool Decoder::geometry(Ins& ins, Geometry* geometry) {
  static constexpr std::pair<std::string_view, Geometry> kNames[] = {{"1d", Geometry::one},
                                                                     {"2d", Geometry::two},
                                                                     {"3d", Geometry::three},
                                                                     {"a1d", Geometry::layers_of_one},
                                                                     {"a2d", Geometry::layers_of_two},
                                                                     {"cube", Geometry::cube},
                                                                     {"acube", Geometry::layers_of_cubes}};
  for (const auto& [name, which] : kNames) {
    if (!ins.op.take(name)) continue;
    *geometry = which;
    return true;
  }
  return unsupported("");
}

// The handle in [handle, coordinates], or [handle].
Place Decoder::object(const Operand& operand, bool with_coordinates) {
  Place at = 0;
  int64_t offset = 0;
  bool wide = true;
  if (ok() && operand.kind == Operand::Kind::memory && operand.count != (with_coordinates ? 1U : 0U)) {
    if (operand.count > 1) return unsupported("a sampler of its own"), 0;
    return invalid(with_coordinates ? "coordinates are missing" : "coordinates where there are none"), 0;
  }
  const Variable* variable =
      ok() && operand.kind == Operand::Kind::memory && !operand.name.empty() ? find(operand.name) : nullptr;
  if (ok() && operand.kind == Operand::Kind::memory && (variable == nullptr || variable->space != Space::reg))
    return unsupported("a texture or surface reference; objects work"), 0;
  if (!address(operand, &at, &offset, &wide)) return 0;
  if (!wide || offset != 0) return unsupported("a handle that is not 64 bits"), 0;
  return at;
}

// {a, b, …}, or for one element also the element alone.
bool Decoder::vector(const Operand& operand, unsigned least, unsigned most,
                     std::vector<const Operand*>* parts) {
  if (!ok()) return false;
  if (operand.kind != Operand::Kind::list) {
    if (least > 1) return invalid("a vector is missing");
    parts->push_back(&operand);
    return true;
  }
  if (operand.count < least || operand.count > most) return invalid("a vector of another length");
  for (uint32_t k = 0; k < operand.count; ++k) parts->push_back(&body_.operands[operand.first + k]);
  return true;
}

void Decoder::stage(const Ins& ins, const std::vector<std::pair<Place, unsigned>>& rows) {
  for (size_t first = 0; first < rows.size() && ok(); first += 6) {
    Draft& draft = alu(ins, op_stage);
    for (size_t k = first; k < rows.size() && k < first + 6; ++k) {
      use(draft, static_cast<unsigned>(k - first), rows[k].first);
      draft.op.imm |= static_cast<int64_t>(rows[k].second) << 4 * (k - first);
      ++draft.op.small[0];
    }
  }
}

namespace {

struct Shape {
  bool layers;
  unsigned coordinates;  // without the layer
  unsigned least, most;  // elements of a vector of coordinates; the last of four is often ignored
  unsigned gradients;    // elements that count
};
Shape shape_of(Geometry geometry) {
  switch (geometry) {
    case Geometry::one:
      return {false, 1, 1, 1, 1};
    case Geometry::two:
      return {false, 2, 2, 2, 2};
    case Geometry::three:
    case Geometry::cube:
      return {false, 3, 3, 4, 3};
    case Geometry::layers_of_one:
      return {true, 1, 2, 2, 1};
    case Geometry::layers_of_two:
      return {true, 2, 3, 4, 2};
    case Geometry::layers_of_cubes:
      break;
  }
  return {true, 3, 4, 4, 3};
}

}  // namespace

void Decoder::lookup(Ins& ins, bool gathers) {
  Opcode& op = ins.op;
  Lookup lookup;
  lookup.gathers = gathers;
  if (gathers) {
    const std::string_view component = op.take_any({"r", "g", "b", "a"});
    if (component.empty()) return void(unsupported(""));
    lookup.component = static_cast<uint8_t>(std::string_view("rgba").find(component));
  } else {
    const std::string_view level = op.take_any({"base", "level", "grad"});
    lookup.level = level == "level"  ? Lookup::Level::given
                   : level == "grad" ? Lookup::Level::by_gradients
                                     : Lookup::Level::base;
  }
  if (!geometry(ins, &lookup.geometry)) return;
  const Shape shape = shape_of(lookup.geometry);
  const std::string_view length = op.take_any({"v2", "v4"});
  // f16 is no type that registers of a word hold.
  lookup.result = op.take_type();
  const Type coordinate = op.take_type();
  const bool pairs = lookup.result == Type::f16x2;
  if ((lookup.result != Type::u32 && lookup.result != Type::s32 && lookup.result != Type::f32 &&
       lookup.result != Type::f16 && !pairs) ||
      (coordinate != Type::f32 && coordinate != Type::s32) || length != (pairs ? "v2" : "v4"))
    return void(unsupported(""));
  lookup.integer_coordinates = coordinate == Type::s32;
  const bool flat = lookup.geometry != Geometry::cube && lookup.geometry != Geometry::layers_of_cubes;
  if (lookup.integer_coordinates && (!flat || gathers)) return void(unsupported(""));
  if (gathers && shape.coordinates == 1) return void(unsupported(""));
  if (gathers && lookup.geometry == Geometry::three) return void(unsupported(""));
  const size_t levels = lookup.level == Lookup::Level::given          ? 1
                        : lookup.level == Lookup::Level::by_gradients ? 2
                                                                      : 0;
  if (!arity(ins, 2 + levels, 4 + levels)) return;

  std::vector<std::pair<Place, unsigned>> staged;
  const auto add = [&](const Operand& operand, Type type, unsigned slot) {
    const Place at = source(operand, type);
    if (ok()) staged.emplace_back(at, slot);
  };
  const Place handle = object(ins[1], true);
  std::vector<const Operand*> coordinates;
  if (!ok() || !vector(body_.operands[ins[1].first], shape.least, shape.most, &coordinates)) return;
  if (shape.layers) add(*coordinates[0], Type::u32, 0);
  for (unsigned k = 0; k < shape.coordinates; ++k)
    add(*coordinates[k + (shape.layers ? 1 : 0)], coordinate, 1 + k);
  size_t next = 2;
  if (lookup.level == Lookup::Level::given) {
    lookup.integer_level = lookup.integer_coordinates;
    add(ins[next++], coordinate, 4);
  }
  for (unsigned g = 0; g < 2 && lookup.level == Lookup::Level::by_gradients; ++g) {
    std::vector<const Operand*> step;
    if (!vector(ins[next++], shape.gradients, shape.gradients == 3 ? 4 : shape.gradients, &step)) return;
    for (unsigned k = 0; k < shape.gradients; ++k) add(*step[k], Type::f32, 4 + 3 * g + k);
  }
  if (next < ins.count && ins[next].kind == Operand::Kind::list) {
    if (!flat) return void(unsupported("an offset in a cubemap"));
    std::vector<const Operand*> offset;
    if (!vector(ins[next++], shape.coordinates, 4, &offset)) return;
    for (unsigned k = 0; k < shape.coordinates; ++k) add(*offset[k], Type::s32, 10 + k);
    lookup.has_offset = true;
  }
  if (next < ins.count) return void(unsupported("a comparison of depths"));

  const Operand* result = &ins[0];
  Place resident = predicate_sink_;
  if (result->kind == Operand::Kind::pair) {
    resident = predicate_dest(body_.operands[result->first + 1]);
    result = &body_.operands[result->first];
  }
  const unsigned count = pairs ? 2 : 4;
  std::vector<const Operand*> results;
  if (!vector(*result, count, count, &results)) return;
  const Type register_type = pairs ? Type::b32 : lookup.result == Type::f16 ? Type::b16 : Type::b32;
  Place places[4] = {};
  for (unsigned k = 0; k < count; ++k) places[k] = dest(*results[k], register_type);
  if (!ok()) return;
  // What is not staged counts as 0.
  for (const auto& [slot, needed] :
       {std::pair{2U, shape.coordinates < 2}, {3U, shape.coordinates < 3}, {0U, !shape.layers}})
    if (needed) staged.emplace_back(literal(4, 0), slot);
  if (lookup.level == Lookup::Level::by_gradients)
    for (unsigned k = shape.gradients; k < 3; ++k)
      for (const unsigned slot : {4 + k, 7 + k}) staged.emplace_back(literal(4, 0), slot);
  for (unsigned k = shape.coordinates; k < 3 && lookup.has_offset; ++k)
    staged.emplace_back(literal(4, 0), 10 + k);
  stage(ins, staged);
  if (!ok()) return;
  Draft& draft = alu(ins, op_lookup);
  for (unsigned k = 0; k < count; ++k) def(draft, k, places[k]);
  def(draft, 4, resident);
  use(draft, 5, handle);
  draft.op.imm = static_cast<int64_t>(code_->lookups.size());
  code_->lookups.push_back(lookup);
}

void Decoder::surface(Ins& ins, SurfaceAccess access) {
  using What = SurfaceAccess::What;
  Opcode& op = ins.op;
  const bool loads = access.what == What::load, reduces = access.what == What::reduce;
  const std::string_view addressing = op.take_any({"b", "p"});
  access.counts_texels = addressing == "p";
  if (addressing.empty() || (loads && access.counts_texels)) return void(unsupported(""));
  if (access.what == What::store && access.counts_texels) access.what = What::store_formatted;
  if (reduces) {
    const std::string_view kind = op.take_any({"add", "min", "max", "and", "or"});
    if (kind.empty()) return void(unsupported(""));
    access.reduction = static_cast<uint8_t>(kind == "add"   ? AtomicKind::add
                                            : kind == "min" ? AtomicKind::min
                                            : kind == "max" ? AtomicKind::max
                                            : kind == "and" ? AtomicKind::and_
                                                            : AtomicKind::or_);
  }
  if (!geometry(ins, &access.geometry)) return;
  const Shape shape = shape_of(access.geometry);
  if (access.geometry == Geometry::cube || access.geometry == Geometry::layers_of_cubes ||
      (shape.layers && (reduces || access.counts_texels)))
    return void(unsupported(""));
  op.take_any({"ca", "cg", "cs", "cv", "wb", "wt"});
  const std::string_view length = op.take_any({"v2", "v4"});
  access.parts = length == "v2" ? 2 : length == "v4" ? 4 : 1;
  access.type = op.take_type();
  const std::string_view beyond = op.take_any({"trap", "clamp", "zero"});
  access.beyond = beyond == "clamp"  ? SurfaceAccess::Beyond::clamp
                  : beyond == "zero" ? SurfaceAccess::Beyond::zero
                                     : SurfaceAccess::Beyond::trap;
  const unsigned bytes = bytes_of(access.type);
  if (bytes == 0 || bytes > 8 || is_float(access.type) || bytes * access.parts > 16 ||
      (access.what == What::store_formatted && access.type != Type::b32) ||
      (reduces && (bytes < 4 || access.parts > 1)))
    return void(unsupported(""));
  if (!arity(ins, 2)) return;
  const Operand &at = ins[loads ? 1 : 0], &values = ins[loads ? 0 : 1];
  const Place handle = object(at, true);
  std::vector<const Operand*> coordinates;
  if (!ok() || !vector(body_.operands[at.first], shape.least, shape.most, &coordinates)) return;
  std::vector<std::pair<Place, unsigned>> staged;
  for (unsigned k = 0; k < shape.coordinates + (shape.layers ? 1 : 0); ++k) {
    const Place place = source(*coordinates[k], Type::b32);
    staged.emplace_back(place, k + (shape.layers ? 0 : 1));
  }
  std::vector<const Operand*> parts;
  if (!vector(values, access.parts, access.parts, &parts)) return;
  Place places[4] = {};
  access.register_bytes = 0;
  for (unsigned k = 0; k < access.parts; ++k) {
    uint8_t wide = 0;
    if (loads && parts[k]->kind == Operand::Kind::sink) continue;
    places[k] = loads ? any_dest(*parts[k], access.type, &wide) : any_source(*parts[k], access.type, &wide);
    if (!ok()) return;
    if (access.register_bytes != 0 && access.register_bytes != wide)
      return void(unsupported("a vector of registers of different sizes"));
    access.register_bytes = wide;
  }
  if (access.register_bytes == 0) access.register_bytes = row_bytes(access.type);
  if (access.register_bytes < bytes) return void(unsupported("a register smaller than the type"));
  for (unsigned k = 0; k < access.parts; ++k)
    if (places[k] == 0) places[k] = sink(access.register_bytes);
  stage(ins, staged);
  if (!ok()) return;
  Draft& draft = alu(ins, op_surface);
  for (unsigned k = 0; k < access.parts; ++k) {
    if (loads)
      def(draft, k, places[k]);
    else
      use(draft, k, places[k]);
  }
  use(draft, 5, handle);
  draft.op.imm = static_cast<int64_t>(code_->surface_accesses.size());
  code_->surface_accesses.push_back(access);
}

void Decoder::query(Ins& ins, bool of_texture) {
  static constexpr std::pair<std::string_view, Query> kNames[] = {
      {"width", Query::width},
      {"height", Query::height},
      {"depth", Query::depth},
      {"array_size", Query::array_size},
      {"num_mipmap_levels", Query::levels},
      {"num_samples", Query::samples},
      {"normalized_coords", Query::normalized_coordinates},
      {"filter_mode", Query::filter_mode},
      {"addr_mode_0", Query::address_mode_0},
      {"addr_mode_1", Query::address_mode_1},
      {"addr_mode_2", Query::address_mode_2}};
  Opcode& op = ins.op;
  const bool of_level = of_texture && op.take("level");
  const Query last = of_level ? Query::depth : of_texture ? Query::address_mode_2 : Query::array_size;
  for (const auto& [name, which] : kNames) {
    if (which > last || !op.take(name)) continue;
    if (!op.take("b32") || !arity(ins, of_level ? 3 : 2)) return void(unsupported(""));
    const Place handle = object(ins[1], false), d = dest(ins[0], Type::b32);
    const Place level = of_level && ok() ? source(ins[2], Type::b32) : literal(4, 0);
    if (!ok()) return;
    Draft& draft = alu(ins, op_query);
    def(draft, 0, d);
    use(draft, 1, handle);
    use(draft, 2, level);
    draft.op.small[0] = static_cast<uint8_t>(which);
    draft.op.small[1] = of_texture ? 0 : 1;
    draft.op.small[2] = of_level ? 1 : 0;
    return;
  }
  // The rest answers in words of the source language (channel_data_type), or of no language (memory_layout).
  unsupported("");
}

bool Decoder::in_texture(Ins& ins) {
  const std::string_view base = ins.op.base();
  SurfaceAccess access;
  if (base == "tex" || base == "tld4") {
    lookup(ins, base == "tld4");
  } else if (base == "suld") {
    surface(ins, access);
  } else if (base == "sust" || base == "sured") {
    access.what = base == "sust" ? SurfaceAccess::What::store : SurfaceAccess::What::reduce;
    surface(ins, access);
  } else if (base == "txq" || base == "suq") {
    query(ins, base == "txq");
  } else {
    return false;
  }
  return true;
}

}  // namespace gpufence::sim::ptx
