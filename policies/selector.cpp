// An entry is first turned into the GPUs it means, then all entries are put together: additions in order,
// removals last, so that `-3,all` and `all,-3` both leave the broken card out.
#include "policies/selector.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <optional>

#include "policies/size.h"

namespace gpufence::policies {
namespace {

std::string_view strip(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}
bool is_hex(char c) {
  return is_digit(c) || (lower(c) >= 'a' && lower(c) <= 'f');
}

std::string lowered(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(), lower);
  return result;
}

bool begins(std::string_view text, std::string_view with) {
  return text.substr(0, with.size()) == with;
}

// A number that no machine reaches reads as the largest one; whether it exists is asked afterwards.
std::optional<long> number(std::string_view text) {
  if (text.empty() || !std::all_of(text.begin(), text.end(), is_digit)) return std::nullopt;
  long value = 0;
  const auto end = std::from_chars(text.data(), text.data() + text.size(), value);
  return end.ec == std::errc{} ? value : 1L << 40;
}

struct PciAddress {
  std::optional<unsigned long> domain;
  unsigned long bus = 0, device = 0;
};

// [[DD]DDDD:]BB:DD[.F]. Two digits each are asked for, which keeps MIG's "0:1" apart.
std::optional<PciAddress> pci_address(std::string_view text) {
  const auto hex = [](std::string_view digits) -> std::optional<unsigned long> {
    unsigned long value = 0;
    const auto end = std::from_chars(digits.data(), digits.data() + digits.size(), value, 16);
    if (digits.empty() || !is_hex(digits.front()) || end.ec != std::errc{} ||
        end.ptr != digits.data() + digits.size())
      return std::nullopt;
    return value;
  };
  const std::size_t dot = text.find('.');
  if (dot != std::string_view::npos) {
    // GPUs are function 0; the others of a card are its audio or USB parts.
    if (text.substr(dot + 1) != "0") return std::nullopt;
    text = text.substr(0, dot);
  }
  PciAddress address;
  const std::size_t last = text.rfind(':');
  if (last == std::string_view::npos) return std::nullopt;
  const std::string_view device = text.substr(last + 1);
  std::string_view bus = text.substr(0, last);
  const std::size_t first = bus.find(':');
  if (first != std::string_view::npos) {
    if (first != 4 && first != 8) return std::nullopt;
    address.domain = hex(bus.substr(0, first));
    if (!address.domain) return std::nullopt;
    bus = bus.substr(first + 1);
  }
  if (bus.size() != 2 || device.size() != 2) return std::nullopt;
  const auto bus_number = hex(bus);
  const auto device_number = hex(device);
  if (!bus_number || !device_number) return std::nullopt;
  address.bus = *bus_number;
  address.device = *device_number;
  return address;
}

enum class Show { index, uuid, pci, name, capability, memory, numa };

class Selection {
 public:
  Selection(std::string_view list, std::span<const Gpu> machine, const Ceiling* ceiling,
            std::string_view option)
      : list_(list), machine_(machine), ceiling_(ceiling), option_(option) {
    if (ceiling_ != nullptr) {
      everything_ = ceiling_->gpus;
    } else {
      for (std::size_t i = 0; i < machine_.size(); ++i) everything_.push_back(i);
    }
  }

  tl::expected<std::vector<std::size_t>, Error> run();

 private:
  using Gpus = tl::expected<std::vector<std::size_t>, Error>;

  struct Entry {
    std::string_view text;
    bool names = false;  // by number, UUID or PCI id: may not name one GPU twice
  };

  [[nodiscard]] std::string what() const { return std::string(option_) + ' ' + std::string(list_); }
  [[nodiscard]] tl::unexpected<Error> error(std::string why, std::string remedy) const {
    return tl::unexpected(Error{what(), std::move(why), std::move(remedy)});
  }
  [[nodiscard]] std::string there_is(Show show) const;
  [[nodiscard]] std::string host_index(std::size_t gpu) const {
    return std::to_string(machine_[gpu].host_index);
  }

  Gpus meaning(Entry& entry) const;
  Gpus by_numbers(std::string_view text, bool positions) const;
  Gpus by_uuid(std::string_view text) const;
  Gpus by_pci(std::string_view text, const PciAddress& address) const;
  Gpus by_condition(std::string_view text, std::string_view key, std::string_view value) const;
  template <typename Meets>
  Gpus that_meet(std::string_view text, Show show, Meets meets) const;

  std::string_view list_;
  std::span<const Gpu> machine_;
  const Ceiling* ceiling_;
  std::string_view option_;
  std::vector<std::size_t> everything_;  // what `all` means
};

std::string Selection::there_is(Show show) const {
  if (machine_.empty()) return "this machine has no GPU";
  std::string text;
  for (const Gpu& gpu : machine_) {
    text += text.empty() ? "" : ", ";
    text += std::to_string(gpu.host_index);
    switch (show) {
      case Show::index:
        text += " (" + short_name(gpu.name) + ", " + gpu.pci + ')';
        break;
      case Show::uuid:
        text += " (" + gpu.uuid + ')';
        break;
      case Show::pci:
        text += " (" + gpu.pci + ')';
        break;
      case Show::name:
        text += " (" + gpu.name + ')';
        break;
      case Show::capability:
        text += " (" + std::to_string(gpu.cc_major) + '.' + std::to_string(gpu.cc_minor) + ')';
        break;
      case Show::memory:
        text += " (" + format_size(gpu.memory) + ')';
        break;
      case Show::numa:
        text += " (" + (gpu.numa < 0 ? "unknown" : std::to_string(gpu.numa)) + ')';
        break;
    }
  }
  return (machine_.size() == 1 ? "there is host GPU " : "there are host GPUs ") + text;
}

Selection::Gpus Selection::by_numbers(std::string_view text, bool positions) const {
  const std::size_t dash = text.find('-');
  const auto first = number(text.substr(0, dash));
  const auto last = dash == std::string_view::npos ? first : number(text.substr(dash + 1));
  if (!first || !last) return error("'" + std::string(text) + "' is no range", "write it as 0-3 or 3-0");

  std::vector<std::size_t> gpus;
  const long step = *first <= *last ? 1 : -1;
  for (long n = *first;; n += step) {
    if (positions) {
      const auto& view = *ceiling_->positions;
      if (static_cast<std::size_t>(n) >= view.size())
        return error("position " + std::to_string(n) + " doesn't exist in this view of " +
                         std::to_string(view.size()) + (view.size() == 1 ? " GPU" : " GPUs") +
                         " (numbering view)",
                     "write host:N for the host's index");
      gpus.push_back(view[static_cast<std::size_t>(n)]);
    } else {
      const auto gpu = std::find_if(machine_.begin(), machine_.end(),
                                    [&](const Gpu& candidate) { return candidate.host_index == n; });
      if (gpu == machine_.end())
        return error(n > 1L << 31 ? "a GPU of that number doesn't exist"
                                  : "host GPU " + std::to_string(n) + " doesn't exist",
                     there_is(Show::index));
      gpus.push_back(static_cast<std::size_t>(gpu - machine_.begin()));
    }
    if (n == *last) return gpus;
  }
}

Selection::Gpus Selection::by_uuid(std::string_view text) const {
  const std::string prefix = lowered(text);
  if (prefix.size() == 4 ||
      !std::all_of(prefix.begin() + 4, prefix.end(), [](char c) { return is_hex(c) || c == '-'; }))
    return error("'" + std::string(text) + "' is no UUID of a GPU", there_is(Show::uuid));
  std::vector<std::size_t> gpus;
  for (std::size_t i = 0; i < machine_.size(); ++i)
    if (begins(lowered(machine_[i].uuid), prefix)) gpus.push_back(i);
  if (gpus.empty()) return error("no GPU has the UUID '" + std::string(text) + "'", there_is(Show::uuid));
  if (gpus.size() > 1)
    return error("'" + std::string(text) + "' is the beginning of more than one UUID", there_is(Show::uuid));
  return gpus;
}

Selection::Gpus Selection::by_pci(std::string_view text, const PciAddress& address) const {
  std::vector<std::size_t> gpus;
  for (std::size_t i = 0; i < machine_.size(); ++i) {
    const auto own = pci_address(machine_[i].pci);
    if (own && own->bus == address.bus && own->device == address.device &&
        (!address.domain || own->domain == address.domain))
      gpus.push_back(i);
  }
  if (gpus.empty()) return error("no GPU has the PCI id '" + std::string(text) + "'", there_is(Show::pci));
  if (gpus.size() > 1)
    return error("'" + std::string(text) + "' is the PCI id of more than one GPU", there_is(Show::pci));
  return gpus;
}

template <typename Meets>
Selection::Gpus Selection::that_meet(std::string_view text, Show show, Meets meets) const {
  std::vector<std::size_t> gpus;
  for (const std::size_t gpu : everything_)
    if (meets(machine_[gpu])) gpus.push_back(gpu);
  if (gpus.empty())
    return error("no GPU" + (ceiling_ ? " of " + ceiling_->source : std::string{}) + " meets '" +
                     std::string(text) + "'",
                 there_is(show));
  return gpus;
}

Selection::Gpus Selection::by_condition(std::string_view text, std::string_view key,
                                        std::string_view value) const {
  if (value.empty())
    return error("'" + std::string(text) + "' asks for nothing", "write it as " + std::string(key) +
                                                                     (key == "name"  ? ":A100"
                                                                      : key == "cc"  ? ":8.0+"
                                                                      : key == "mem" ? ":40GiB+"
                                                                                     : ":0"));
  const bool or_more = value.back() == '+';
  const std::string_view bare = or_more ? value.substr(0, value.size() - 1) : value;

  if (key == "name") {
    const std::string part = lowered(value);
    return that_meet(text, Show::name,
                     [&](const Gpu& gpu) { return lowered(gpu.name).find(part) != std::string::npos; });
  }
  if (key == "cc") {
    const std::size_t dot = bare.find('.');
    const auto major = number(bare.substr(0, dot));
    const auto minor = dot == std::string_view::npos ? std::optional<long>(0) : number(bare.substr(dot + 1));
    if (!major || !minor)
      return error("'" + std::string(text) + "' is no compute capability", "write it as cc:8.0 or cc:8.0+");
    const bool any_minor = dot == std::string_view::npos;
    return that_meet(text, Show::capability, [&](const Gpu& gpu) {
      if (or_more) return gpu.cc_major > *major || (gpu.cc_major == *major && gpu.cc_minor >= *minor);
      return gpu.cc_major == *major && (any_minor || gpu.cc_minor == *minor);
    });
  }
  if (key == "mem") {
    const auto bytes = parse_size(bare);
    if (!bytes) return error("'" + std::string(text) + "': " + bytes.error().why, "write it as mem:40GiB+");
    // No card has exactly the size on its label, so only a lower bound is of use.
    if (!or_more)
      return error("'" + std::string(text) + "' would be an exact size, which no card has",
                   "write mem:" + std::string(value) + "+ for at least that much");
    return that_meet(text, Show::memory, [&](const Gpu& gpu) { return gpu.memory >= *bytes; });
  }
  const auto node = number(value);
  if (!node) return error("'" + std::string(text) + "' is no NUMA node", "write it as numa:0");
  return that_meet(text, Show::numa, [&](const Gpu& gpu) { return gpu.numa >= 0 && gpu.numa == *node; });
}

// Also sets entry.names.
Selection::Gpus Selection::meaning(Entry& entry) const {
  const std::string_view text = entry.text;
  if (text == "all") return everything_;
  const std::size_t colon = text.find(':');
  const std::string_view key = text.substr(0, colon);
  const std::string_view value =
      colon == std::string_view::npos ? std::string_view{} : text.substr(colon + 1);

  if (colon != std::string_view::npos) {
    for (const std::string_view known : {"name", "cc", "mem", "numa"})
      if (key == known) return by_condition(text, key, value);
    if (key == "free" || key == "rank")
      return error("this version doesn't know '" + std::string(key) + ":' yet",
                   "name GPUs by number, UUID or PCI id");
  }
  if (text == "healthy" || text == "rank")
    return error("this version doesn't know '" + std::string(text) + "' yet",
                 "name GPUs by number, UUID or PCI id");
  if (text == "none") return error("'none' stands alone", "write --devices none for no GPU");

  entry.names = true;
  if (begins(lowered(text), "gpu-")) return by_uuid(text);
  if (key == "host" && !value.empty() && is_digit(value.front())) return by_numbers(value, false);
  if (is_digit(text.front()) && colon == std::string_view::npos && text.find('.') == std::string_view::npos &&
      std::all_of(text.begin(), text.end(), [](char c) { return is_digit(c) || c == '-'; }))
    return by_numbers(text, ceiling_ != nullptr && ceiling_->positions.has_value());
  if (const auto address = pci_address(text)) return by_pci(text, *address);
  if (begins(text, "MIG-") || (number(key) && number(value)))
    return error("this version doesn't know MIG slices yet, which '" + std::string(text) + "' names",
                 "name whole GPUs by number, UUID or PCI id");
  return error("'" + std::string(text) + "' is no GPU, range or condition", there_is(Show::index));
}

Selection::Gpus Selection::run() {
  list_ = strip(list_);
  if (list_.empty())
    return tl::unexpected(
        Error{std::string(option_), "the list is empty", "write none for no GPU, all for every GPU"});
  if (list_ == "none") return std::vector<std::size_t>{};

  std::vector<std::size_t> view;
  std::vector<std::size_t> removed;
  std::map<std::size_t, std::string_view> named;  // GPU → the entry that named it
  bool adds = false;
  std::string_view rest = list_;
  while (true) {
    const std::size_t comma = rest.find(',');
    Entry entry{strip(rest.substr(0, comma))};
    if (entry.text.empty()) return error("an entry is empty", "write the list as 2,0");
    const bool takes_away = entry.text.front() == '-';
    if (takes_away) entry.text = strip(entry.text.substr(1));
    if (entry.text.empty()) return error("'-' takes away nothing", "write the list as all,-3");

    const Gpus gpus = meaning(entry);
    if (!gpus) return gpus;
    if (takes_away) {
      removed.insert(removed.end(), gpus->begin(), gpus->end());
    } else {
      adds = true;
      for (const std::size_t gpu : *gpus) {
        if (ceiling_ != nullptr &&
            std::find(everything_.begin(), everything_.end(), gpu) == everything_.end()) {
          std::string allotted;
          for (const std::size_t one : everything_)
            allotted += (allotted.empty() ? "" : ",") + host_index(one);
          std::string remedy =
              everything_.empty() ? "no GPU is left to choose from" : "choose among host GPUs " + allotted;
          if (!ceiling_->way_out.empty()) remedy += ", or leave it with " + ceiling_->way_out;
          return error(
              "host GPU " + host_index(gpu) + " is outside " + ceiling_->source + ", " + ceiling_->origin,
              std::move(remedy));
        }
        if (entry.names) {
          const auto [before, first] = named.emplace(gpu, entry.text);
          if (!first)
            return error("host GPU " + host_index(gpu) + " is named twice, by '" +
                             std::string(before->second) + "' and '" + std::string(entry.text) + "'",
                         "name it once");
        }
        if (std::find(view.begin(), view.end(), gpu) == view.end()) view.push_back(gpu);
      }
    }
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }

  if (!adds) view = everything_;
  for (const std::size_t gpu : removed) {
    if (named.count(gpu) != 0)
      return error("host GPU " + host_index(gpu) + " is both named and taken away", "write one of the two");
    view.erase(std::remove(view.begin(), view.end(), gpu), view.end());
  }
  if (view.empty())
    return error(!everything_.empty()  ? "this leaves no GPU"
                 : ceiling_ == nullptr ? "there is no GPU to choose from"
                                       : ceiling_->source + ", " + ceiling_->origin + ", leaves no GPU",
                 "write none if no GPU is meant");
  return view;
}

}  // namespace

tl::expected<std::vector<std::size_t>, Error> select_gpus(std::string_view list, std::span<const Gpu> machine,
                                                          const Ceiling* ceiling, std::string_view option) {
  return Selection(list, machine, ceiling, option).run();
}

}  // namespace gpufence::policies
