// See the header. The order of the questions is that of the gate and the core: is it mapped, is it turned
// off, can it work. What is said of caps is what this version does, not what it will do.
#include "tools/gpufence/standing.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string_view>

#include <nlohmann/json.hpp>

#include "ledger/scope_path.h"
#include "policies/remap.h"
#include "policies/size.h"
#include "tools/gpufence/command.h"
#include "tools/gpufence/cuda_order.h"
#include "tools/gpufence/host.h"
#include "tools/gpufence/place.h"
#include "tools/gpufence/plan.h"
#include "tools/gpufence/simulation.h"

namespace gpufence::command {
namespace {

constexpr const char* kGate = "libgpufence.so";

// Whether a list as LD_PRELOAD and /etc/ld.so.preload have it names the gate, and by which path.
std::optional<std::string> gate_in(std::string_view list) {
  constexpr std::string_view kBetween = ": \t\n";
  while (!list.empty()) {
    const std::size_t end = std::min(list.find_first_of(kBetween), list.size());
    const std::string_view entry = list.substr(0, end);
    if (entry.substr(entry.rfind('/') + 1) == kGate) return std::string(entry);
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return std::nullopt;
}

bool system_preloads() {
  std::ifstream file("/etc/ld.so.preload");
  const std::string list{std::istreambuf_iterator<char>(file), {}};
  return gate_in(list).has_value();
}

std::string cap_text(const policies::CapSpec& caps, const std::vector<policies::Gpu>& positions) {
  std::string text;
  if (caps.every) text = policies::describe(*caps.every) + " on each GPU";
  for (const auto& [position, amount] : caps.by_position) {
    const auto at = static_cast<std::size_t>(position);
    text += (text.empty() ? "" : ", ") + policies::describe(amount) + " on " +
            (at < positions.size() ? policies::host_name(positions[at])
                                   : "the GPU at position " + std::to_string(position));
  }
  return text;
}

void read_caps(const Environment& environment, Standing& standing) {
  for (const auto& [variable, option] :
       {std::pair{"GPUFENCE_GPU_MEM", "--gpu-mem"},
        std::pair{"GPUFENCE_GPU_MEM_PER_PROCESS", "--gpu-mem-per-process"}}) {
    const auto rules = environment.get_nonempty(variable);
    if (!rules) continue;
    const auto caps = policies::parse_caps(*rules);
    if (!caps) {
      standing.notes.push_back({std::string(variable) + '=' + *rules, caps.error().why, caps.error().remedy});
    } else if (caps->caps_anything()) {
      standing.caps.push_back({option, *caps, *rules});
    }
  }
}

void read_remap(const Environment& environment, Standing& standing) {
  const auto text = environment.get_nonempty("GPUFENCE_REMAP");
  if (!text) return;
  if (const auto remap = policies::parse_remap(*text))
    standing.remap = policies::to_text(*remap);
  else
    standing.notes.push_back({"GPUFENCE_REMAP=" + *text, "'" + remap.error().what + "' " + remap.error().why,
                              remap.error().remedy});
}

std::vector<std::string> split(std::string_view text) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(','), text.size());
    if (end > 0) parts.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

// What CUDA will number, in the words of `run`. NVML is asked only if something limits the view.
void read_view(const Environment& environment, Standing& standing) {
  const auto view = environment.get("GPUFENCE_VIEW");
  standing.has_view = view.has_value();
  if (view) standing.uuids = split(*view);
  standing.mask = environment.get("CUDA_VISIBLE_DEVICES");
  standing.order = environment.get_nonempty("CUDA_DEVICE_ORDER");
  if (view) standing.numbering = environment.get_nonempty("GPUFENCE_NUMBERING").value_or("host");
  const auto positions = environment.get("GPUFENCE_POSITIONS");
  if (!view && !standing.mask && !positions) return;

  const auto simulation = open_simulation(std::nullopt, environment);
  if (!simulation) {
    standing.notes.push_back(simulation.error());
    return;
  }
  NvmlSource nvml;
  std::string driver = "libcuda.so.1";
  if (*simulation) {
    nvml = {(*simulation)->directory + "/libnvidia-ml.so.1", true};
    driver = (*simulation)->directory + "/libcuda.so.1";
  }
  // What is preloaded into this process must show it the host, not a view.
  ::setenv("GPUFENCE", "off", 1);
  const auto host = read_host(nvml, Detail::identities);
  if (!host) {
    standing.notes.push_back({"the GPUs", host.error().why, host.error().remedy});
    return;
  }
  const std::vector<policies::Gpu> machine = host->identities();
  if (view || positions)
    for (const std::string& uuid : split(view ? *view : *positions)) {
      const auto gpu = std::find_if(machine.begin(), machine.end(),
                                    [&](const policies::Gpu& one) { return one.uuid == uuid; });
      if (gpu == machine.end()) break;
      standing.positions.push_back(*gpu);
    }
  std::optional<policies::Error> ended;
  const auto ask = [&](Order order) { return ask_cuda_order(order, environment, driver); };
  const auto ceiling = read_ceiling(environment, machine, ask, false, ended);
  if (ended) standing.notes.push_back(*ended);
  if (!ceiling) {
    standing.notes.push_back(ceiling.error());
    return;
  }
  if (!*ceiling) return;
  standing.visible.emplace();
  for (const std::size_t gpu : (*ceiling)->gpus) standing.visible->push_back(machine[gpu]);
  const bool narrowed = standing.mask && standing.mask != environment.get("GPUFENCE_MASK");
  standing.visible_by = !view      ? "by " + (*ceiling)->source
                        : narrowed ? "the run's, as CUDA_VISIBLE_DEVICES=" + *standing.mask + " narrows it"
                                   : "as the run asked";
}

void read_fence(const Process& process, const Environment& environment, Standing& standing) {
  const auto preload = gate_in(environment.get("LD_PRELOAD").value_or(""));
  const auto no = [&](std::string why, std::string remedy) {
    standing.why = std::move(why);
    standing.remedy = std::move(remedy);
  };
  if (process.gates.empty()) {
    std::string set;
    for (const char* name :
         {"GPUFENCE_RUN", "GPUFENCE_VIEW", "GPUFENCE_GPU_MEM", "GPUFENCE_GPU_MEM_PER_PROCESS"})
      if (set.empty() && environment.get(name)) set = name;
    if (preload)
      return no("LD_PRELOAD names " + *preload + ", but it is not loaded",
                ::access(preload->c_str(), R_OK) == 0
                    ? "look whether the program is static, setuid or of another "
                      "C library: gpufence inspect tells"
                    : "install gpufence again: there is no such file");
    if (!set.empty())
      return no("it left the fence: " + set + " is set, but LD_PRELOAD doesn't name libgpufence.so",
                "keep LD_PRELOAD in the environment, or start it by gpufence run");
    return no("libgpufence.so is not loaded", "start it by gpufence run -- PROGRAM");
  }
  const MappedFile& gate = process.gates.front();
  standing.gate = gate.path;
  if (process.gates.size() > 1)
    standing.notes.push_back({process.gates[1].path, "is a second libgpufence.so in one process",
                              "keep one of them in LD_PRELOAD and /etc/ld.so.preload"});
  if (gate.replaced)
    standing.notes.push_back({gate.path, "was replaced since: the process goes on with the old one",
                              "start it again to get the new one"});
  const auto ours = find_gate(own_directory());
  if (!ours) {
    standing.notes.push_back(ours.error().error);
  } else if (!gate.replaced && *ours != gate.path) {
    standing.notes.push_back({gate.path, "is another installation's: this command's own is " + *ours,
                              "use the gpufence beside it"});
  }
  for (const char* name : {"GPUFENCE", "GPUFENCE_MODE"})
    if (environment.get(name) == "off")
      return no(std::string(name) + "=off turns it off", std::string("unset ") + name);
  const unsigned copies = process.copies_of_the_driver();
  if (copies > 0 && process.cores.empty()) {
    standing.fenced = Fenced::not_reached;
    return no("libcuda is mapped, and no CUDA call has come through the fence",
              "none was made yet, or libcuda was opened by dlmopen or RTLD_DEEPBIND, where the fence isn't");
  }
  if (copies > 1)
    standing.notes.push_back({process.drivers.back().path,
                              std::to_string(copies) + " copies of the driver are mapped, and one is fenced",
                              "don't open the driver by dlmopen, or from a second place"});
  standing.fenced = Fenced::yes;
  standing.why = !process.cores.empty() ? "its CUDA calls come through the fence"
                 : preload              ? "libgpufence.so is preloaded, by LD_PRELOAD"
                                        : "libgpufence.so is preloaded, by /etc/ld.so.preload";
}

// As the gate and the core decide (design: two objects).
void read_on_error(const Environment& environment, Standing& standing) {
  if (standing.required) {
    standing.denies_because = "/etc/gpufence/require exists";
  } else if (const auto asked = environment.get_nonempty("GPUFENCE_ON_ERROR")) {
    if (*asked == "deny") standing.denies_because = "GPUFENCE_ON_ERROR=deny";
  } else {
    for (const char* name :
         {"GPUFENCE_VIEW", "GPUFENCE_DEVICES", "GPUFENCE_GPU_MEM", "GPUFENCE_GPU_MEM_PER_PROCESS"})
      if (standing.denies_because.empty() && environment.get(name))
        standing.denies_because = std::string(name) + " is set";
  }
  standing.denies_on_error = !standing.denies_because.empty();
}

}  // namespace

Standing standing_of(const Process& process, const Environment& environment) {
  Standing standing;
  standing.system_preload = system_preloads();
  standing.required = ::access("/etc/gpufence/require", F_OK) == 0;
  standing.run = environment.get("GPUFENCE_RUN").value_or("");
  standing.ledger = ledger::ledger_directory(environment.get("GPUFENCE_LEDGER_DIR"));
  standing.name = environment.get("GPUFENCE_NAME").value_or("");
  standing.simulated = environment.get("GPUFENCE_SIM").value_or("");
  read_fence(process, environment, standing);
  read_caps(environment, standing);
  read_remap(environment, standing);
  read_on_error(environment, standing);
  read_view(environment, standing);
  return standing;
}

namespace {

// Of whom a cap of the run counts every process.
const char* reach_of(const Standing& standing) {
  const bool shared = std::any_of(standing.caps.begin(), standing.caps.end(), [](const StandingCap& cap) {
    return cap.option == std::string_view("--gpu-mem");
  });
  if (!shared || standing.run.empty()) return "process";
  return ledger::container() != 0 ? "container" : "host";
}

std::string reach_text(const Standing& standing) {
  const std::string_view reach = reach_of(standing);
  if (reach == "process") return "each process by itself";
  return (reach == "container" ? "this container only: the processes of the run in it that share "
                               : "every process of the run that shares ") +
         standing.ledger;
}

}  // namespace

std::string text_of(const Standing& standing) {
  std::string text;
  const auto row = [&](std::string_view key, const std::string& value) {
    text +=
        std::string(key) + std::string(key.size() < 15 ? 15 - key.size() : 1, ' ') + escaped(value) + '\n';
  };
  const bool holds = standing.fenced == Fenced::yes;
  row("fenced", (holds                                    ? "yes: "
                 : standing.fenced == Fenced::not_reached ? "not reached: "
                                                          : "no: ") +
                    standing.why + (standing.remedy.empty() ? std::string{} : "; " + standing.remedy));
  if (!standing.gate.empty()) row("library", standing.gate);
  if (!standing.run.empty())
    row("run", standing.run + (standing.name.empty() ? std::string{} : " (" + standing.name + ')'));
  if (standing.visible) {
    row("view", (standing.visible->empty() ? "no GPU, " : "") + standing.visible_by +
                    (standing.numbering.empty() ? std::string{} : ", numbering " + standing.numbering));
    for (std::size_t at = 0; at < standing.visible->size(); ++at)
      row("", policies::full_name(static_cast<int>(at), (*standing.visible)[at]));
  } else if (standing.has_view) {
    row("view", standing.uuids.empty() ? "no GPU" : "numbering " + standing.numbering);
    for (std::size_t at = 0; at < standing.uuids.size(); ++at)
      row("", "CUDA " + std::to_string(at) + " = " + standing.uuids[at]);
  } else if (!standing.mask) {
    row("view", "none: every GPU, as without gpufence");
  }
  if (standing.mask)
    row("mask", "CUDA_VISIBLE_DEVICES=" + *standing.mask +
                    (standing.order ? ", CUDA_DEVICE_ORDER=" + *standing.order : std::string{}));
  if (!standing.remap.empty())
    row("remap", standing.remap + " (--remap), in the shared runtime" +
                     (standing.fenced == Fenced::no ? ", not in force" : ""));
  for (const StandingCap& cap : standing.caps)
    row("cap", cap_text(cap.caps, standing.positions) + " (" + cap.option + ')' +
                   (standing.fenced == Fenced::no ? ", not in force" : ""));
  if (standing.caps.empty()) row("cap", "none");
  if (!standing.caps.empty() && holds) row("reach", reach_text(standing));
  if (standing.denies_on_error && standing.fenced != Fenced::no)
    row("on error", "CUDA is denied if the fence can't work: " + standing.denies_because);
  else if (standing.fenced != Fenced::no)
    row("on error", "the program runs unfenced if the fence can't work");
  if (!standing.simulated.empty()) row("simulated", standing.simulated);
  if (standing.system_preload) row("system", "/etc/ld.so.preload names libgpufence.so");
  if (standing.required) row("system", "/etc/gpufence/require exists");
  for (const Error& note : standing.notes) row("note", note.text());
  return text;
}

void add_to(nlohmann::ordered_json& out, const Standing& standing) {
  const auto or_null = [](const std::string& value) {
    return value.empty() ? nlohmann::json(nullptr) : nlohmann::json(value);
  };
  out["fenced"] = standing.fenced == Fenced::yes;
  out["state"] = standing.fenced == Fenced::yes           ? "fenced"
                 : standing.fenced == Fenced::not_reached ? "not_reached"
                                                          : "not_fenced";
  out["why"] = standing.why;
  out["remedy"] = or_null(standing.remedy);
  out["gate"] = or_null(standing.gate);
  out["run_id"] = or_null(standing.run);
  out["name"] = or_null(standing.name);
  out["numbering"] = or_null(standing.numbering);
  out["mask"] = standing.mask ? nlohmann::json(*standing.mask) : nlohmann::json(nullptr);
  out["order"] = standing.order ? nlohmann::json(*standing.order) : nlohmann::json(nullptr);
  out["view"] = nullptr;
  if (standing.visible || standing.has_view) out["view"] = nlohmann::ordered_json::array();
  const auto gpu = [&](std::size_t ordinal, const std::string& uuid, const policies::Gpu* known) {
    nlohmann::ordered_json one;
    one["ordinal"] = ordinal;
    one["host_index"] = known != nullptr ? nlohmann::json(known->host_index) : nlohmann::json(nullptr);
    one["uuid"] = uuid;
    one["pci"] = known != nullptr ? nlohmann::json(known->pci) : nlohmann::json(nullptr);
    one["name"] = known != nullptr ? nlohmann::json(known->name) : nlohmann::json(nullptr);
    out["view"].push_back(std::move(one));
  };
  if (standing.visible) {
    for (std::size_t at = 0; at < standing.visible->size(); ++at)
      gpu(at, (*standing.visible)[at].uuid, &(*standing.visible)[at]);
  } else {
    for (std::size_t at = 0; at < standing.uuids.size(); ++at) gpu(at, standing.uuids[at], nullptr);
  }
  out["remap"] = or_null(standing.remap);
  out["caps"] = nlohmann::ordered_json::array();
  for (const StandingCap& cap : standing.caps)
    out["caps"].push_back({{"option", cap.option}, {"rules", cap.rules}});
  out["reach"] = standing.caps.empty() ? nlohmann::json(nullptr) : nlohmann::json(reach_of(standing));
  out["ledger"] = standing.caps.empty() || reach_of(standing) == std::string_view("process")
                      ? nlohmann::json(nullptr)
                      : nlohmann::json(standing.ledger);
  out["on_error"] = standing.denies_on_error ? "deny" : "allow";
  out["simulated"] = or_null(standing.simulated);
  out["ld_so_preload"] = standing.system_preload;
  out["required"] = standing.required;
  out["notes"] = nlohmann::ordered_json::array();
  for (const Error& note : standing.notes) out["notes"].push_back(note.text());
}

}  // namespace gpufence::command
