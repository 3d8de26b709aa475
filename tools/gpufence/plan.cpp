// The order of the steps is that of the promises: first what limits us, then what is asked within it, then
// caps, whose positions mean nothing before the view is known.
#include "tools/gpufence/plan.h"

#include <algorithm>
#include <numeric>

#include "policies/mask.h"

namespace gpufence::command {
namespace {

using policies::Amount;
using policies::CapSpec;
using policies::Ceiling;
using policies::Error;
using policies::Gpu;
using Indices = std::vector<std::size_t>;

template <typename T>
using Answer = tl::expected<T, Error>;

std::string join(const std::vector<std::string>& parts) {
  std::string text;
  for (std::size_t i = 0; i < parts.size(); ++i) text += (i == 0 ? "" : ",") + parts[i];
  return text;
}

std::string host_indices(const Indices& gpus, const std::vector<Gpu>& machine) {
  std::vector<std::string> numbers;
  for (const std::size_t gpu : gpus) numbers.push_back(std::to_string(machine[gpu].host_index));
  return join(numbers);
}

std::string uuids(const Indices& gpus, const std::vector<Gpu>& machine) {
  std::vector<std::string> names;
  for (const std::size_t gpu : gpus) names.push_back(machine[gpu].uuid);
  return join(names);
}

bool one_model(const std::vector<Gpu>& machine) {
  return std::all_of(machine.begin(), machine.end(), [&](const Gpu& gpu) {
    return gpu.name == machine.front().name && gpu.memory == machine.front().memory &&
           gpu.cc_major == machine.front().cc_major && gpu.cc_minor == machine.front().cc_minor;
  });
}

// GPUs that don't answer are not enumerated by CUDA either.
Indices in_pci_order(const std::vector<Gpu>& machine) {
  Indices order;
  for (std::size_t i = 0; i < machine.size(); ++i)
    if (!machine[i].uuid.empty()) order.push_back(i);
  // A domain of more than four digits sorts behind the others.
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    const std::string &one = machine[a].pci, &other = machine[b].pci;
    return one.size() != other.size() ? one.size() < other.size() : one < other;
  });
  return order;
}

Order order_of(const Environment& environment) {
  return environment.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID" ? Order::pci : Order::fastest;
}

// The machine as CUDA enumerates it. Identical cards stand in PCI order in both orders.
tl::expected<Indices, std::string> enumeration(const std::vector<Gpu>& machine, Order order,
                                               const AskOrder& ask) {
  if (order == Order::pci || one_model(machine)) return in_pci_order(machine);
  const auto answer = ask(order);
  if (!answer) return tl::unexpected(answer.error());
  Indices result;
  for (const std::string& uuid : *answer) {
    const auto gpu =
        std::find_if(machine.begin(), machine.end(), [&](const Gpu& one) { return one.uuid == uuid; });
    if (gpu == machine.end()) return tl::unexpected("CUDA tells of " + uuid + ", and NVML doesn't");
    result.push_back(static_cast<std::size_t>(gpu - machine.begin()));
  }
  return result;
}

policies::MaskReading read_within(const std::string& mask, const Indices& order,
                                  const std::vector<Gpu>& machine) {
  std::vector<std::string> names;
  for (const std::size_t gpu : order) names.push_back(machine[gpu].uuid);
  policies::MaskReading reading = policies::read_mask(mask, names);
  for (std::size_t& gpu : reading.gpus) gpu = order[gpu];
  return reading;
}

// GPUFENCE_VIEW and GPUFENCE_POSITIONS: full UUIDs, in the order of an outer run's ordinals.
Answer<Indices> outer_view(const std::string& text, const std::vector<Gpu>& machine,
                           const std::string& variable = "GPUFENCE_VIEW") {
  Indices view;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t comma = std::min(text.find(',', at), text.size());
    const std::string uuid = text.substr(at, comma - at);
    const auto gpu =
        std::find_if(machine.begin(), machine.end(), [&](const Gpu& one) { return one.uuid == uuid; });
    if (uuid.empty() || gpu == machine.end())
      return tl::unexpected(Error{variable,
                                  "'" + uuid + "', inherited from an outer run, is no GPU of this machine",
                                  "start it outside of that run, or unset " + variable +
                                      (variable == "GPUFENCE_VIEW" ? " and GPUFENCE_MASK" : "")});
    view.push_back(static_cast<std::size_t>(gpu - machine.begin()));
    at = comma + 1;
  }
  return view;
}

Answer<std::optional<CapSpec>> read_cap(const std::optional<std::string>& text, const std::string& name) {
  if (!text) return std::optional<CapSpec>{};
  auto caps = policies::parse_caps(*text);
  if (caps) return std::optional<CapSpec>(*std::move(caps));
  Error error = caps.error();
  if (text->empty()) return tl::unexpected(Error{name, "is empty", error.remedy});
  if (error.what != *text) error.why = "'" + error.what + "' " + error.why;
  error.what = name + ' ' + *text;
  return tl::unexpected(error);
}

// Caps by position of an outer view, said by position of the new one: the cap stays with the GPU.
CapSpec follow(const CapSpec& caps, const Indices& outer, const Indices& inner) {
  if (caps.by_position.empty()) return caps;
  CapSpec moved{.every = caps.every, .by_position = {}};
  for (std::size_t position = 0; position < inner.size(); ++position) {
    const auto before = std::find(outer.begin(), outer.end(), inner[position]);
    if (before == outer.end()) continue;
    const auto own = caps.by_position.find(static_cast<int>(before - outer.begin()));
    if (own != caps.by_position.end()) moved.by_position[static_cast<int>(position)] = own->second;
  }
  return moved;
}

class Planner {
 public:
  Planner(const RunOptions& options, const Environment& environment, const tl::expected<Host, NoHost>& host,
          const AskOrder& ask_order)
      : options_(options), environment_(environment), ask_order_(ask_order) {
    if (host) {
      plan_.machine = host->identities();
      for (const HostGpu& gpu : host->gpus) unreadable_.push_back(gpu.unreadable);
    } else {
      plan_.no_host = host.error();
    }
  }

  Answer<Plan> run();

 private:
  void set(const char* name, std::string value) { plan_.settings.emplace_back(name, std::move(value)); }
  void unset(const char* name) {
    if (environment_.get(name)) plan_.settings.emplace_back(name, std::nullopt);
  }
  [[nodiscard]] bool nested() const { return environment_.get_nonempty("GPUFENCE_RUN").has_value(); }
  // By --env of this command line.
  [[nodiscard]] bool set_here(const std::string& name) const {
    return std::any_of(options_.env.begin(), options_.env.end(), [&](const std::string& setting) {
      return setting.compare(0, name.size() + 1, name + '=') == 0;
    });
  }
  [[nodiscard]] bool caps_by_position() const;

  Answer<void> decide_view();
  Answer<void> decide_visible();
  // How many GPUs CUDA will show, as far as it could be told.
  [[nodiscard]] std::optional<std::size_t> visible_count() const;
  Answer<void> decide_cap(Cap& cap, const std::optional<std::string>& own);
  Answer<void> decide_remap();
  // Asked of CUDA at most once.
  const Answer<Indices>& outer_positions();
  Answer<Indices> find_outer_positions() const;
  Answer<void> check_switch(const char* name);
  Answer<void> decide_positions();
  void write_view();
  void write_positions();
  void write_cap(const Cap& cap);
  Answer<void> write_outer_caps();

  const RunOptions& options_;
  const Environment& environment_;
  const AskOrder& ask_order_;
  std::vector<std::string> unreadable_;
  // What caps by position mean, where no view says it.
  std::optional<Indices> positions_;
  std::optional<Answer<Indices>> outer_;
  Plan plan_;
};

// Asked before the caps are read in earnest: whether they need CUDA's order. An outer view says it already.
bool Planner::caps_by_position() const {
  if (environment_.get("GPUFENCE_VIEW")) return false;
  for (const auto& text :
       {options_.gpu_mem, options_.gpu_mem_per_process, environment_.get_nonempty("GPUFENCE_GPU_MEM"),
        environment_.get_nonempty("GPUFENCE_GPU_MEM_PER_PROCESS")}) {
    const auto caps = text ? policies::parse_caps(*text) : CapSpec{};
    if (caps && !caps->by_position.empty()) return true;
  }
  return false;
}

Answer<void> Planner::decide_view() {
  std::optional<std::string> list = options_.devices;
  std::string name = "--devices";
  if (!list) {
    list = environment_.get_nonempty("GPUFENCE_DEVICES");
    name = "GPUFENCE_DEVICES";
  }
  if (const auto numbering = environment_.get_nonempty("GPUFENCE_NUMBERING")) {
    if (*numbering != "host" && *numbering != "view")
      return tl::unexpected(Error{"GPUFENCE_NUMBERING " + *numbering, "is no choice", "write host or view"});
    plan_.numbering = *numbering;
  }
  if (options_.numbering) plan_.numbering = *options_.numbering;
  if (!list && options_.numbering)
    return tl::unexpected(Error{"--numbering", "goes with --devices", "write --devices all for every GPU"});
  if (!list && options_.ignore_mask)
    return tl::unexpected(Error{"--ignore-mask", "goes with --devices", "write --devices all for every GPU"});

  std::optional<Error> warning;
  if (!plan_.no_host) {
    // A run that chooses no GPU needs CUDA's order only to show it, or for caps by position.
    const bool matters = list || caps_by_position();
    const AskOrder unasked = [](Order) { return tl::unexpected(std::string("not asked")); };
    // Without a view the program reads its mask itself, in the order that it will find.
    Environment reading = environment_;
    if (!list && options_.order == "pci") reading.set("CUDA_DEVICE_ORDER", name_of(Order::pci));
    if (!list && options_.order == "fastest") reading.set("CUDA_DEVICE_ORDER", name_of(Order::fastest));
    auto ceiling = read_ceiling(reading, plan_.machine, matters || options_.dry_run ? ask_order_ : unasked,
                                options_.ignore_mask, warning);
    if (ceiling) {
      plan_.ceiling = *std::move(ceiling);
      if (plan_.ceiling && set_here("CUDA_VISIBLE_DEVICES")) plan_.ceiling->origin = "set by --env";
    } else if (matters) {
      return tl::unexpected(ceiling.error());
    }
  }
  if (!list) return {};

  // No GPU can be had without asking anyone.
  const std::size_t first = list->find_first_not_of(" \t");
  const std::size_t last = list->find_last_not_of(" \t");
  const bool none = first != std::string::npos && list->substr(first, last - first + 1) == "none";
  if (none) {
    plan_.view = Indices{};
  } else {
    if (plan_.no_host)
      return tl::unexpected(Error{name + ' ' + *list, plan_.no_host->why, plan_.no_host->remedy});
    auto view = policies::select_gpus(*list, plan_.machine, plan_.ceiling ? &*plan_.ceiling : nullptr, name);
    if (!view) return tl::unexpected(view.error());
    for (const std::size_t gpu : *view)
      if (plan_.machine[gpu].uuid.empty())
        return tl::unexpected(
            Error{name + ' ' + *list,
                  "host GPU " + std::to_string(gpu) + " doesn't answer (" + unreadable_[gpu] + ")",
                  "leave it out: all,-" + std::to_string(gpu)});
    plan_.view = *std::move(view);
    if (warning) plan_.warnings.push_back(*warning);
  }
  plan_.visible = plan_.view;
  plan_.visible_by = name + ' ' + *list;
  plan_.needs_fence = name;
  return {};
}

// Without --devices: what the environment leaves. Not knowing the order is no error here, it only shows less.
Answer<void> Planner::decide_visible() {
  if (plan_.view) return {};
  if (plan_.no_host) return {};
  if (plan_.ceiling) {
    plan_.visible = plan_.ceiling->gpus;
    plan_.visible_by = set_here("CUDA_VISIBLE_DEVICES") ? plan_.ceiling->source + ", set by --env"
                                                        : "inherited " + plan_.ceiling->source;
    return {};
  }
  if (environment_.get("CUDA_VISIBLE_DEVICES")) return {};
  const Order order = options_.order == "pci"       ? Order::pci
                      : options_.order == "fastest" ? Order::fastest
                                                    : order_of(environment_);
  const bool matters = caps_by_position();
  if (!options_.dry_run && !matters && !one_model(plan_.machine)) return {};
  auto gpus = enumeration(plan_.machine, order, ask_order_);
  if (gpus) {
    plan_.visible = *std::move(gpus);
    plan_.visible_by = std::string("every GPU, CUDA_DEVICE_ORDER=") + name_of(order);
  } else if (matters) {
    return tl::unexpected(Error{options_.gpu_mem               ? "--gpu-mem"
                                : options_.gpu_mem_per_process ? "--gpu-mem-per-process"
                                                               : "GPUFENCE_GPU_MEM",
                                "which GPUs its positions mean can't be told (" + gpus.error() + ")",
                                "name the GPUs with --devices"});
  }
  return {};
}

// By position: what an inherited cap's positions meant before this run.
const Answer<Indices>& Planner::outer_positions() {
  if (!outer_) outer_ = find_outer_positions();
  return *outer_;
}

Answer<Indices> Planner::find_outer_positions() const {
  if (const auto view = environment_.get("GPUFENCE_VIEW")) return outer_view(*view, plan_.machine);
  if (const auto positions = environment_.get("GPUFENCE_POSITIONS"))
    return outer_view(*positions, plan_.machine, "GPUFENCE_POSITIONS");
  if (environment_.get("CUDA_VISIBLE_DEVICES") && plan_.ceiling) return plan_.ceiling->gpus;
  auto gpus = enumeration(plan_.machine, order_of(environment_), ask_order_);
  if (!gpus)
    return tl::unexpected(Error{"GPUFENCE_GPU_MEM",
                                "which GPUs its positions mean can't be told (" + gpus.error() + ")",
                                "set CUDA_DEVICE_ORDER=PCI_BUS_ID"});
  return *gpus;
}

// Without a view: what CUDA shows at the start, and behind it what an outer run's caps by position count
// beyond that, so that they stay even if the program widens its mask again.
Answer<void> Planner::decide_positions() {
  if (plan_.view || !plan_.visible || !caps_by_position()) return {};
  positions_ = plan_.visible;
  if (!nested() || !environment_.get("GPUFENCE_POSITIONS")) return {};
  const auto& outer = outer_positions();
  if (!outer) return tl::unexpected(outer.error());
  for (const std::size_t gpu : *outer)
    if (std::find(positions_->begin(), positions_->end(), gpu) == positions_->end())
      positions_->push_back(gpu);
  return {};
}

std::optional<std::size_t> Planner::visible_count() const {
  if (plan_.visible) return plan_.visible->size();
  if (plan_.no_host) return std::nullopt;
  const auto mask = environment_.get("CUDA_VISIBLE_DEVICES");
  // How many a mask leaves is the same in every order.
  return mask ? read_within(*mask, in_pci_order(plan_.machine), plan_.machine).gpus.size()
              : plan_.machine.size();
}

Answer<void> Planner::decide_cap(Cap& cap, const std::optional<std::string>& own_text) {
  auto own = read_cap(own_text, cap.option);
  if (!own) return tl::unexpected(own.error());
  auto inherited = read_cap(environment_.get_nonempty(cap.variable), cap.variable);
  if (!inherited) return tl::unexpected(inherited.error());
  cap.own = *std::move(own);
  cap.inherited = *std::move(inherited);
  cap.inherited_from = (set_here(cap.variable) ? "--env " : "inherited ") + cap.variable;
  // A variable that a person set is a default; one that an outer run set holds on.
  if (cap.own && !nested()) cap.inherited.reset();

  const auto check = [&](const std::optional<CapSpec>& caps, const std::string& name) -> Answer<void> {
    if (!caps || caps->by_position.empty()) return {};
    const std::optional<std::size_t> size = visible_count();
    const int position = caps->by_position.rbegin()->first;
    if (!size || static_cast<std::size_t>(position) < *size) return {};
    return tl::unexpected(
        Error{name + ' ' + policies::to_text(*caps),
              "position " + std::to_string(position) + " is beyond the view, which has " +
                  std::to_string(*size) + (*size == 1 ? " GPU" : " GPUs"),
              *size == 0 ? "leave the cap out" : "positions are 0 to " + std::to_string(*size - 1)});
  };
  if (auto checked = check(cap.own, cap.option); !checked) return checked;
  if (cap.inherited) {
    if (nested()) {
      const bool moves =
          plan_.view ? !plan_.view->empty() : positions_ && environment_.get("GPUFENCE_POSITIONS");
      if (moves && !cap.inherited->by_position.empty()) {
        const auto& outer = outer_positions();
        if (!outer) return tl::unexpected(outer.error());
        cap.inherited = follow(*cap.inherited, *outer, plan_.view ? *plan_.view : *positions_);
      }
    } else if (auto checked = check(cap.inherited, cap.variable); !checked) {
      return checked;
    }
  }
  cap.rules = policies::tighter(cap.own.value_or(CapSpec{}), cap.inherited.value_or(CapSpec{}));
  if (cap.rules.caps_anything() && plan_.needs_fence.empty())
    plan_.needs_fence = cap.own && cap.own->caps_anything() ? cap.option : cap.variable;
  return {};
}

// What is asked for here comes in the place of an outer run's, as a whole: two maps behind each other would
// be a third one that nobody wrote.
Answer<void> Planner::decide_remap() {
  std::optional<std::string> text = options_.remap;
  plan_.remap_by = "--remap";
  if (!text) {
    text = environment_.get_nonempty("GPUFENCE_REMAP");
    plan_.remap_by = "GPUFENCE_REMAP";
  }
  if (!text) return {};
  auto remap = policies::parse_remap(*text);
  if (!remap) {
    Error error = remap.error();
    if (text->empty()) return tl::unexpected(Error{plan_.remap_by, "is empty", error.remedy});
    if (error.what != *text) error.why = "'" + error.what + "' " + error.why;
    error.what = plan_.remap_by + ' ' + *text;
    return tl::unexpected(error);
  }
  plan_.remap = *std::move(remap);
  const std::optional<std::size_t> size = visible_count();
  const int highest = plan_.remap->highest();
  if (size && highest >= 0 && static_cast<std::size_t>(highest) >= *size)
    return tl::unexpected(Error{
        plan_.remap_by + ' ' + *text,
        "ordinal " + std::to_string(highest) + " is beyond the view, which has " + std::to_string(*size) +
            (*size == 1 ? " GPU" : " GPUs"),
        *size == 0 ? "leave the remap out" : "ordinals to map to are 0 to " + std::to_string(*size - 1)});
  if (plan_.needs_fence.empty()) plan_.needs_fence = plan_.remap_by;
  return {};
}

void Planner::write_view() {
  if (!plan_.no_host) {
    Indices all(plan_.machine.size());
    std::iota(all.begin(), all.end(), std::size_t{0});
    set("GPUFENCE_GPUS", uuids(all, plan_.machine));
  }
  if (!plan_.view) {
    if (options_.order == "pci") set("CUDA_DEVICE_ORDER", name_of(Order::pci));
    if (options_.order == "fastest") set("CUDA_DEVICE_ORDER", name_of(Order::fastest));
    return;
  }
  const Indices& view = *plan_.view;
  const Order order = options_.order == "fastest" ? Order::fastest : Order::pci;
  std::string mask;
  if (plan_.numbering == "view") {
    for (std::size_t position = 0; position < view.size(); ++position)
      mask += (position == 0 ? "" : ",") + std::to_string(position);
  } else if (order == Order::fastest && !one_model(plan_.machine)) {
    // The host's numbers would mean other GPUs in that order, to a child that lost the preload.
    mask = uuids(view, plan_.machine);
  } else {
    mask = host_indices(view, plan_.machine);
  }
  set("GPUFENCE_VIEW", uuids(view, plan_.machine));
  set("GPUFENCE_NUMBERING", plan_.numbering);
  set("CUDA_VISIBLE_DEVICES", mask);
  set("GPUFENCE_MASK", mask);
  set("CUDA_DEVICE_ORDER", name_of(order));
  unset("GPUFENCE_DEVICES");
}

// Positions that no view gives a meaning are given one, so that each cap stays with its GPU.
void Planner::write_positions() {
  const auto counts = [](const Cap& cap) {
    return cap.rules.caps_anything() && !cap.rules.by_position.empty();
  };
  const bool count = counts(plan_.run_cap) || counts(plan_.process_cap);
  // Where nobody tells what GPUs there are, the outer run's word is all there is.
  if (count && plan_.no_host && nested() && !plan_.view) return;
  if (!count || !positions_ || positions_->empty()) {
    unset("GPUFENCE_POSITIONS");
    return;
  }
  const std::string text = uuids(*positions_, plan_.machine);
  if (environment_.get("GPUFENCE_POSITIONS") != text) set("GPUFENCE_POSITIONS", text);
}

void Planner::write_cap(const Cap& cap) {
  if (cap.rules.caps_anything()) {
    const std::string text = policies::to_text(cap.rules);
    if (environment_.get(cap.variable) != text) set(cap.variable.c_str(), text);
  } else {
    unset(cap.variable.c_str());
  }
}

// What the runs around this one may hold goes on to count for them: one entry a run, from outside, empty
// where one has no cap ("8GiB//4GiB"). The core knows each by the beginning of this run's name.
Answer<void> Planner::write_outer_caps() {
  constexpr const char* kOuter = "GPUFENCE_GPU_MEM_OUTER";
  if (!nested()) {
    unset(kOuter);
    return {};
  }
  const std::string name = *environment_.get_nonempty("GPUFENCE_RUN");
  const auto runs = static_cast<std::size_t>(std::count(name.begin(), name.end(), '/')) + 1;
  std::vector<std::string> levels;
  std::string rest = environment_.get(kOuter).value_or("");
  for (std::size_t i = 0; i + 1 < runs; ++i) {
    const std::size_t end = std::min(rest.find('/'), rest.size());
    levels.push_back(rest.substr(0, end));
    rest.erase(0, end + 1);
  }
  levels.push_back(environment_.get("GPUFENCE_GPU_MEM").value_or(""));
  const bool moves = plan_.view ? !plan_.view->empty() : positions_ && environment_.get("GPUFENCE_POSITIONS");
  std::string text;
  for (std::size_t i = 0; i < levels.size(); ++i) {
    if (i > 0) text += '/';
    if (levels[i].empty()) continue;
    auto caps = policies::parse_caps(levels[i]);
    if (!caps)
      return tl::unexpected(Error{std::string(kOuter) + ' ' + levels[i], caps.error().why, "unset it"});
    if (moves && !caps->by_position.empty()) {
      const auto& outer = outer_positions();
      if (!outer) return tl::unexpected(outer.error());
      caps = follow(*caps, *outer, plan_.view ? *plan_.view : *positions_);
    }
    if (caps->caps_anything()) text += policies::to_text(*caps);
  }
  if (text.find_first_not_of('/') == std::string::npos)
    unset(kOuter);
  else if (environment_.get(kOuter) != text)
    set(kOuter, text);
  return {};
}

// What is asked for here beats a switch that was inherited; beside one that is set here it makes no sense.
Answer<void> Planner::check_switch(const char* name) {
  const char* asked = plan_.view              ? plan_.visible_by.c_str()
                      : plan_.run_cap.own     ? "--gpu-mem"
                      : plan_.process_cap.own ? "--gpu-mem-per-process"
                      : options_.remap        ? "--remap"
                      : options_.sim          ? "--sim"
                                              : nullptr;
  if (asked == nullptr || environment_.get(name) != "off") return {};
  if (set_here(name))
    return tl::unexpected(Error{std::string("--env ") + name + "=off",
                                "turns off the fence that " + std::string(asked) + " needs",
                                "leave one of the two out"});
  unset(name);
  return {};
}

Answer<Plan> Planner::run() {
  if (auto done = decide_view(); !done) return tl::unexpected(done.error());
  if (auto done = decide_visible(); !done) return tl::unexpected(done.error());
  if (auto done = decide_positions(); !done) return tl::unexpected(done.error());
  if (auto done = decide_cap(plan_.run_cap, options_.gpu_mem); !done) return tl::unexpected(done.error());
  if (auto done = decide_cap(plan_.process_cap, options_.gpu_mem_per_process); !done)
    return tl::unexpected(done.error());
  if (auto done = decide_remap(); !done) return tl::unexpected(done.error());
  if (plan_.needs_fence.empty() && environment_.get("GPUFENCE_VIEW")) plan_.needs_fence = "GPUFENCE_VIEW";

  write_view();
  write_cap(plan_.run_cap);
  write_cap(plan_.process_cap);
  if (auto done = write_outer_caps(); !done) return tl::unexpected(done.error());
  write_positions();
  if (options_.remap) set("GPUFENCE_REMAP", policies::to_text(*plan_.remap));
  if (options_.report) set("GPUFENCE_REPORT", "stderr");
  if (options_.diagnose) set("GPUFENCE_DIAGNOSE", *options_.diagnose);
  if (options_.backtrace) set("GPUFENCE_BACKTRACE", *options_.backtrace);
  if (options_.ignore) set("GPUFENCE_IGNORE", *options_.ignore);
  if (options_.log_format) set("GPUFENCE_LOG_FORMAT", *options_.log_format);
  if (options_.color) set("GPUFENCE_COLOR", *options_.color);
  if (options_.loudness) set("GPUFENCE_STDERR", *options_.loudness);
  if (options_.name) set("GPUFENCE_NAME", *options_.name);
  for (const char* name : {"GPUFENCE", "GPUFENCE_MODE"})
    if (auto done = check_switch(name); !done) return tl::unexpected(done.error());
  return std::move(plan_);
}

}  // namespace

std::string Cap::decided_by(int position, std::uint64_t card_total) const {
  const std::uint64_t mine = own ? own->at(position).resolve(card_total) : ~std::uint64_t{0};
  const std::uint64_t theirs = inherited ? inherited->at(position).resolve(card_total) : ~std::uint64_t{0};
  return mine <= theirs ? option : inherited_from;
}

tl::expected<std::optional<Ceiling>, Error> read_ceiling(const Environment& environment,
                                                         const std::vector<Gpu>& machine,
                                                         const AskOrder& ask_order, bool ignore_mask,
                                                         std::optional<Error>& warning) {
  const auto mask = environment.get("CUDA_VISIBLE_DEVICES");
  const auto view_text = environment.get("GPUFENCE_VIEW");
  const auto ended = [&](const policies::MaskReading& reading, std::size_t size) {
    if (!reading.ended_by) return;
    warning = Error{"CUDA_VISIBLE_DEVICES=" + *mask,
                    policies::describe(*reading.ended_by, size) + ", so CUDA reads no further",
                    "correct it where it is set"};
  };

  if (view_text) {
    auto view = outer_view(*view_text, machine);
    if (!view) return tl::unexpected(view.error());
    const bool by_position = environment.get("GPUFENCE_NUMBERING") == "view";
    Ceiling ceiling{.source = "the outer run's view, host GPUs " + host_indices(*view, machine),
                    .gpus = *view};
    if (view->empty()) ceiling.source = "the outer run's view of no GPU";
    if (by_position) ceiling.positions = *view;
    if (!mask || ignore_mask) return ceiling;
    if (mask == environment.get("GPUFENCE_MASK")) {
      if (!by_position) ceiling.source = "CUDA_VISIBLE_DEVICES=" + *mask;
      return ceiling;
    }
    // The program wrote another mask meanwhile: read as the core will read it, within the view.
    Indices order = *view;
    if (!by_position) {
      auto all = enumeration(machine, order_of(environment), ask_order);
      if (!all)
        return tl::unexpected(Error{"CUDA_VISIBLE_DEVICES=" + *mask,
                                    "CUDA's order can't be told (" + all.error() + ")",
                                    "set CUDA_DEVICE_ORDER=PCI_BUS_ID"});
      order = *std::move(all);
    }
    const policies::MaskReading reading = read_within(*mask, order, machine);
    ended(reading, order.size());
    ceiling.gpus.clear();
    for (const std::size_t gpu : reading.gpus) {
      if (std::find(view->begin(), view->end(), gpu) == view->end()) break;
      ceiling.gpus.push_back(gpu);
    }
    ceiling.source = "CUDA_VISIBLE_DEVICES=" + *mask;
    return ceiling;
  }

  if (!mask || ignore_mask) return std::optional<Ceiling>{};
  tl::expected<Indices, std::string> order = in_pci_order(machine);
  if (policies::names_numbers(*mask)) order = enumeration(machine, order_of(environment), ask_order);
  if (!order)
    return tl::unexpected(Error{"CUDA_VISIBLE_DEVICES=" + *mask,
                                "which GPUs its numbers mean can't be told (" + order.error() + ")",
                                "set CUDA_DEVICE_ORDER=PCI_BUS_ID"});
  const policies::MaskReading reading = read_within(*mask, *order, machine);
  ended(reading, order->size());
  return Ceiling{.source = "CUDA_VISIBLE_DEVICES=" + *mask, .gpus = reading.gpus, .way_out = "--ignore-mask"};
}

tl::expected<Plan, Error> make_plan(const RunOptions& options, const Environment& environment,
                                    const tl::expected<Host, NoHost>& host, const AskOrder& ask_order) {
  return Planner(options, environment, host, ask_order).run();
}

}  // namespace gpufence::command
