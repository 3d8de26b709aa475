// The list ends at the first entry that is no visible GPU: "0,2,-1,1" is 0 and 2. Two things NVIDIA does not
// document and no hardware was at hand to ask: an entry named twice makes the whole list empty, and blanks
// round an entry do not matter, as PyTorch's parser of this variable has it (torch/cuda/__init__.py,
// _parse_visible_devices).
//
// Split GPUs, by NVIDIA's MIG user guide ("CUDA Device Enumeration"): "CUDA can only enumerate a single
// compute instance", "the first available one if several of them are visible", and "will not enumerate
// non-MIG GPU if any compute instance is enumerated on any other GPU".
#include "mask.h"

#include <algorithm>
#include <charconv>
#include <string_view>

namespace gpufence::sim {
namespace {

std::string_view stripped(std::string_view text) {
  constexpr std::string_view kBlank = " \t\n\r\f\v";
  const size_t from = text.find_first_not_of(kBlank);
  if (from == std::string_view::npos) return {};
  return text.substr(from, text.find_last_not_of(kBlank) - from + 1);
}

// The GPU itself, or the first of its instances; the number of units if it has none.
size_t unit_of(const Machine& machine, size_t gpu) {
  if (!machine.gpus[gpu].mig) return gpu;
  for (size_t i = machine.gpus.size(); i < machine.units(); ++i)
    if (machine.unit(i).parent == gpu) return i;
  return machine.units();
}

// The one unit of which `is` says so; the number of units for none or several.
template <class Is>
size_t only(size_t first, size_t end, size_t none, Is is) {
  size_t found = none;
  for (size_t i = first; i < end; ++i) {
    if (!is(i)) continue;
    if (found != none) return none;
    found = i;
  }
  return found;
}

// "MIG-<GPU-UUID>/<GPU instance ID>/<compute instance ID>", the form of drivers before R470.
bool is_old_name(const Machine& machine, const Gpu& instance, std::string_view entry) {
  const std::string name = "MIG-" + uuid_text(machine.gpus[instance.parent]) + "/" +
                           std::to_string(instance.gpu_instance) + "/" +
                           std::to_string(instance.compute_instance);
  return entry == name;
}

// The unit that one entry means, or the number of units if it means none.
size_t resolve(const Machine& machine, const std::vector<size_t>& ordered, std::string_view entry) {
  const size_t none = machine.units(), gpus = machine.gpus.size();
  if (entry.substr(0, 4) == "GPU-") {
    const size_t gpu = only(0, gpus, none, [&](size_t i) {
      return uuid_text(machine.gpus[i]).compare(0, entry.size(), entry) == 0;
    });
    return gpu == none ? none : unit_of(machine, gpu);
  }
  if (entry.substr(0, 4) == "MIG-") {
    return only(gpus, none, none, [&](size_t i) {
      const Gpu& instance = machine.unit(i);
      return uuid_text(instance).compare(0, entry.size(), entry) == 0 ||
             is_old_name(machine, instance, entry);
    });
  }
  size_t index = 0;
  auto [end, error] = std::from_chars(entry.data(), entry.data() + entry.size(), index);
  if (error != std::errc{} || end != entry.data() + entry.size() || index >= ordered.size()) return none;
  return unit_of(machine, ordered[index]);
}

// A list with an instance is the first of them alone.
std::vector<size_t> one_instance(const Machine& machine, std::vector<size_t> units) {
  const auto instance =
      std::find_if(units.begin(), units.end(), [&](size_t i) { return machine.unit(i).is_instance(); });
  return instance == units.end() ? units : std::vector<size_t>{*instance};
}

}  // namespace

std::vector<size_t> visible_gpus(const Machine& machine, const char* mask, const char* order) {
  std::vector<size_t> ordered;
  const bool by_pci = order != nullptr && std::string_view(order) == "PCI_BUS_ID";
  if (by_pci) {
    for (size_t i = 0; i < machine.gpus.size(); ++i) ordered.push_back(i);
  } else {
    for (int i : fastest_first(machine)) ordered.push_back(static_cast<size_t>(i));
  }
  std::vector<size_t> visible;
  if (mask == nullptr) {
    for (size_t gpu : ordered)
      if (const size_t unit = unit_of(machine, gpu); unit != machine.units()) visible.push_back(unit);
    return one_instance(machine, visible);
  }

  std::string_view rest = mask;
  while (true) {
    const size_t comma = rest.find(',');
    const size_t unit = resolve(machine, ordered, stripped(rest.substr(0, comma)));
    if (unit == machine.units()) break;
    if (std::find(visible.begin(), visible.end(), unit) != visible.end()) return {};
    visible.push_back(unit);
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
  return one_instance(machine, visible);
}

}  // namespace gpufence::sim
