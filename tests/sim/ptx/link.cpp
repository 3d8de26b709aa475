// What is known only of a module as a whole: what each kernel can reach, and symbols that meet over several
// modules.
#include <algorithm>
#include <cstring>
#include <map>

#include "decode.h"
#include "ptx/run.h"

namespace gpufence::sim::ptx {

uint64_t function_address(size_t index) {
  return kFunctionWindow + 16 * (static_cast<uint64_t>(index) + 1);
}

namespace {

// Local names may be there several times in a linked module: what is visible comes first.
template <class Items>
const typename Items::value_type* named(const Items& items, std::string_view name) {
  const typename Items::value_type* found = nullptr;
  for (const auto& item : items) {
    if (item.name != name) continue;
    if (found == nullptr || (!found->is_defined && item.is_defined) ||
        (found->linkage == Linkage::local && item.linkage != Linkage::local))
      found = &item;
  }
  return found;
}

}  // namespace

const Function* Module::function(std::string_view name) const {
  return named(functions, name);
}
const Global* Module::global(std::string_view name) const {
  return named(globals, name);
}

std::vector<uint8_t> Module::image(size_t index, const std::vector<uint64_t>& addresses) const {
  const Global& global = globals.at(index);
  std::vector<uint8_t> bytes(global.size);
  std::copy(global.initial.begin(),
            global.initial.begin() +
                static_cast<std::ptrdiff_t>(std::min<uint64_t>(global.size, global.initial.size())),
            bytes.begin());
  for (const Relocation& relocation : global.relocations) {
    uint64_t value = relocation.is_function                 ? function_address(relocation.target)
                     : relocation.target < addresses.size() ? addresses[relocation.target]
                                                            : 0;
    value = (value + static_cast<uint64_t>(relocation.addend)) >> relocation.shift;
    for (uint32_t k = 0; k < relocation.bytes && relocation.offset + k < bytes.size(); ++k) {
      bytes[relocation.offset + k] = static_cast<uint8_t>(value >> 8 * k);
    }
  }
  return bytes;
}

namespace {

// Functions that `from` may run: called or named, and through pointers whatever data names.
std::vector<uint32_t> reachable(const Module& module, uint32_t from,
                                const std::vector<uint32_t>& named_by_data, bool by_calls_only) {
  std::vector<bool> seen(module.functions.size(), false);
  std::vector<uint32_t> order{from};
  seen[from] = true;
  const auto add = [&](uint32_t f) {
    if (f < seen.size() && !seen[f]) {
      seen[f] = true;
      order.push_back(f);
    }
  };
  for (size_t i = 0; i < order.size(); ++i) {
    const Code* code = module.functions[order[i]].code.get();
    if (code == nullptr) continue;
    if (by_calls_only) {
      for (const CallSite& call : code->calls) {
        if (!call.indirect) add(call.function);
      }
    } else {
      for (const uint32_t f : code->functions_used) add(f);
      if (code->calls_indirectly) {
        for (const uint32_t f : named_by_data) add(f);
      }
    }
  }
  return order;
}

// Local memory along the deepest chain of calls; a call back counts nothing.
std::vector<uint32_t> stack_depths(const Module& module) {
  const size_t count = module.functions.size();
  std::vector<uint32_t> depth(count, 0);
  std::vector<uint8_t> state(count, 0);  // 1: on the way, 2: done
  std::vector<std::pair<uint32_t, size_t>> stack;
  for (uint32_t root = 0; root < count; ++root) {
    if (state[root] != 0) continue;
    stack.emplace_back(root, 0);
    state[root] = 1;
    while (!stack.empty()) {
      auto& [f, next] = stack.back();
      const Code* code = module.functions[f].code.get();
      if (code != nullptr && next < code->functions_used.size()) {
        const uint32_t callee = code->functions_used[next++];
        if (state[callee] == 0) {
          state[callee] = 1;
          stack.emplace_back(callee, 0);
        }
        continue;
      }
      uint64_t deepest = 0;
      if (code != nullptr) {
        for (const uint32_t callee : code->functions_used) {
          if (state[callee] == 2) deepest = std::max<uint64_t>(deepest, depth[callee]);
        }
        deepest += code->local_bytes;
      }
      depth[f] = static_cast<uint32_t>(std::min<uint64_t>(deepest, 512 << 10));
      state[f] = 2;
      stack.pop_back();
    }
  }
  return depth;
}

}  // namespace

std::optional<Error> finish(Module& module) {
  module.const_bytes = module.global_bytes = 0;
  for (const Global& global : module.globals) {
    if (!global.is_defined || global.is_texture || global.space == Space::shared) continue;
    uint64_t& total = global.space == Space::constant ? module.const_bytes : module.global_bytes;
    total = (total + global.align - 1) / global.align * global.align + global.size;
    if (total > kMaxGlobalBytes) return Error{Error::Kind::too_large, "more than 64 GiB of variables", 0};
  }
  std::vector<uint32_t> named_by_data;
  for (const Global& global : module.globals) {
    for (const Relocation& relocation : global.relocations) {
      if (relocation.is_function) named_by_data.push_back(relocation.target);
    }
  }
  std::sort(named_by_data.begin(), named_by_data.end());
  named_by_data.erase(std::unique(named_by_data.begin(), named_by_data.end()), named_by_data.end());
  const std::vector<uint32_t> depths = stack_depths(module);

  for (uint32_t f = 0; f < module.functions.size(); ++f) {
    Function& function = module.functions[f];
    function.unsupported = function.unsupported_here;
    function.local_bytes = depths[f];
    if (!function.is_defined && builtin_named(function.name) != nullptr)
      function.is_defined = function.linkage == Linkage::external;
    if (!function.is_entry || function.code == nullptr) continue;
    function.shared_places.clear();
    function.registers = 0;
    function.const_bytes = 0;
    function.prints = function.uses_heap = function.reserved_shared = false;
    std::vector<uint32_t> constants;
    uint64_t shared = 0;
    uint32_t dynamic_align = 16;
    for (const uint32_t each : reachable(module, f, named_by_data, false)) {
      const Code* code = module.functions[each].code.get();
      if (code == nullptr) continue;
      function.registers = std::max(function.registers, code->registers);
      function.reserved_shared = function.reserved_shared || code->asks_for_reserved;
      for (const uint32_t index : code->shared_used) {
        const Global& variable = module.globals[index];
        const auto known = [index](const auto& place) { return place.first == index; };
        if (!variable.is_defined) dynamic_align = std::max(dynamic_align, variable.align);
        if (!variable.is_defined ||
            std::any_of(function.shared_places.begin(), function.shared_places.end(), known))
          continue;
        shared = (shared + variable.align - 1) / variable.align * variable.align;
        function.shared_places.emplace_back(index, static_cast<uint32_t>(std::min<uint64_t>(shared, ~0U)));
        shared += variable.size;
      }
      for (const Constant& constant : code->constants) {
        if (constant.kind == Constant::Kind::global &&
            module.globals[constant.index].space == Space::constant)
          constants.push_back(constant.index);
      }
    }
    std::sort(constants.begin(), constants.end());
    constants.erase(std::unique(constants.begin(), constants.end()), constants.end());
    uint64_t const_bytes = 0;
    for (const uint32_t index : constants) const_bytes += module.globals[index].size;
    function.const_bytes = static_cast<uint32_t>(std::min<uint64_t>(const_bytes, ~0U));
    if (shared > (uint64_t{16} << 20))
      function.unsupported = "kernel " + function.name + " wants more shared memory than any device has";
    function.static_shared_bytes = static_cast<uint32_t>(std::min<uint64_t>(shared, uint64_t{16} << 20));
    function.dynamic_shared_place =
        (function.static_shared_bytes + dynamic_align - 1) / dynamic_align * dynamic_align;
    for (const uint32_t each : reachable(module, f, named_by_data, true)) {
      const Function& callee = module.functions[each];
      if (callee.code == nullptr) {
        function.prints = function.prints || callee.name == "vprintf";
        function.uses_heap = function.uses_heap || callee.name == "malloc" || callee.name == "free";
      }
      if (!function.unsupported.empty()) continue;
      function.unsupported = callee.unsupported_here;
      if (callee.code == nullptr && callee.unsupported_here.empty() &&
          builtin_named(callee.name) == nullptr) {
        function.unsupported = "undefined function " + callee.name + ", called from kernel " + function.name;
      }
    }
  }
  return std::nullopt;
}

// --- link
// -------------------------------------------------------------------------------------------------------------

namespace {

int strength(Linkage linkage, bool is_defined) {
  if (!is_defined || linkage == Linkage::external) return 0;
  if (linkage == Linkage::common) return 1;
  return linkage == Linkage::weak ? 2 : 3;
}

struct Joiner {
  Module out;
  std::map<std::string, uint32_t, std::less<>> functions, globals;  // names that modules share
  std::optional<Error> error;

  template <class Item>
  uint32_t place(std::vector<Item>& items, std::map<std::string, uint32_t, std::less<>>& names,
                 const Item& item, bool shares) {
    if (!shares) {
      items.push_back(item);
      return static_cast<uint32_t>(items.size() - 1);
    }
    const auto known = names.find(item.name);
    if (known == names.end()) {
      items.push_back(item);
      names[item.name] = static_cast<uint32_t>(items.size() - 1);
      return static_cast<uint32_t>(items.size() - 1);
    }
    Item& there = items[known->second];
    const int mine = strength(item.linkage, item.is_defined),
              theirs = strength(there.linkage, there.is_defined);
    if (mine == 3 && theirs == 3 && !error)
      error = Error{Error::Kind::invalid, item.name + " is defined in two modules", 0};
    if (mine > theirs || (mine == 1 && theirs == 1 && larger(item, there))) there = item;
    return known->second;
  }
  static bool larger(const Global& a, const Global& b) { return a.size > b.size; }
  static bool larger(const Function&, const Function&) { return false; }
};

}  // namespace

tl::expected<std::shared_ptr<const Module>, Error> link(
    const std::vector<std::shared_ptr<const Module>>& modules) {
  if (modules.empty()) return tl::unexpected(Error{Error::Kind::invalid, "nothing to link", 0});
  Joiner joiner;
  Module& out = joiner.out;
  // Where each module's symbols went. A symbol of the result remembers which module its body came from, as
  // indices in code and relocations are that module's.
  std::vector<std::vector<uint32_t>> functions(modules.size()), globals(modules.size());
  std::vector<size_t> function_from, global_from;
  for (size_t m = 0; m < modules.size(); ++m) {
    const Module& in = *modules[m];
    if (out.target_sm < in.target_sm) {
      out.target = in.target;
      out.target_sm = in.target_sm;
    }
    if (std::pair(out.version_major, out.version_minor) < std::pair(in.version_major, in.version_minor)) {
      out.version_major = in.version_major;
      out.version_minor = in.version_minor;
    }
    if (m != 0 && out.address_bits != in.address_bits)
      return tl::unexpected(Error{Error::Kind::invalid, "modules of different address sizes", 0});
    out.address_bits = in.address_bits;
    for (const Function& function : in.functions) {
      const uint32_t at =
          joiner.place(out.functions, joiner.functions, function, function.linkage != Linkage::local);
      function_from.resize(out.functions.size(), modules.size());
      if (out.functions[at].code == function.code && function.code != nullptr) function_from[at] = m;
      functions[m].push_back(at);
    }
    for (const Global& global : in.globals) {
      const bool dynamic_shared = global.space == Space::shared && !global.is_defined;
      const size_t before = out.globals.size();
      const Global* known = nullptr;
      const auto name = joiner.globals.find(global.name);
      if (name != joiner.globals.end()) known = &out.globals[name->second];
      const int theirs = known != nullptr ? strength(known->linkage, known->is_defined) : -1;
      const int mine = strength(global.linkage, global.is_defined);
      const bool shares = global.linkage != Linkage::local && !dynamic_shared;
      const bool replaces =
          known == nullptr || mine > theirs || (mine == 1 && theirs == 1 && global.size > known->size);
      const uint32_t at = joiner.place(out.globals, joiner.globals, global, shares);
      global_from.resize(out.globals.size(), modules.size());
      if (out.globals.size() != before || !shares || replaces) global_from[at] = m;
      globals[m].push_back(at);
    }
    if (joiner.error) return tl::unexpected(*joiner.error);
  }
  const auto undefined = [&](uint32_t index) {
    const Global& global = out.globals[index];
    return !global.is_defined && global.space != Space::shared;
  };
  for (size_t g = 0; g < out.globals.size(); ++g) {
    const size_t m = global_from[g];
    for (Relocation& relocation : out.globals[g].relocations) {
      relocation.target = (relocation.is_function ? functions : globals)[m][relocation.target];
      if (!relocation.is_function && undefined(relocation.target)) {
        return tl::unexpected(
            Error{Error::Kind::undefined, "undefined symbol " + out.globals[relocation.target].name, 0});
      }
    }
  }
  for (size_t f = 0; f < out.functions.size(); ++f) {
    Function& function = out.functions[f];
    if (function.code == nullptr) continue;
    const size_t m = function_from[f];
    auto code = std::make_shared<Code>(*function.code);
    for (Constant& constant : code->constants) {
      if (constant.kind == Constant::Kind::function) constant.index = functions[m][constant.index];
      if (constant.kind != Constant::Kind::global && constant.kind != Constant::Kind::shared) continue;
      constant.index = globals[m][constant.index];
      if (constant.kind == Constant::Kind::global && undefined(constant.index)) {
        return tl::unexpected(
            Error{Error::Kind::undefined,
                  "undefined symbol " + out.globals[constant.index].name + ", used by " + function.name, 0});
      }
    }
    for (CallSite& call : code->calls) call.function = call.indirect ? 0 : functions[m][call.function];
    for (uint32_t& used : code->functions_used) used = functions[m][used];
    for (uint32_t& used : code->shared_used) used = globals[m][used];
    function.code = std::move(code);
  }
  auto module = std::make_shared<Module>(std::move(out));
  if (auto failed = finish(*module)) return tl::unexpected(*failed);
  return std::shared_ptr<const Module>(std::move(module));
}

}  // namespace gpufence::sim::ptx
