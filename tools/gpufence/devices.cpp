// `gpufence devices`: the one table that puts side by side what nvidia-smi, CUDA's two orders and the PCI bus
// call the same card, with who is on it.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "policies/size.h"
#include "tools/gpufence/command.h"
#include "tools/gpufence/cuda_order.h"
#include "tools/gpufence/host.h"
#include "tools/gpufence/options.h"
#include "tools/gpufence/simulation.h"
#include "tools/gpufence/subcommands.h"

namespace gpufence::command {
namespace {

constexpr std::array kOptions{
    OptionSpec{0, "json", "", "as JSON, with stable keys"},
    OptionSpec{0, "sim", "SPEC", "simulated GPUs: 4 · 4x80GiB · 8xh100 · machine.toml"},
    OptionSpec{'h', "help", "", "this text"},
};

int usage(const Error& error) {
  say(error);
  return kUsage;
}

struct Process {
  Holder holder;
  std::string command;               // empty: not to be seen from here (another PID namespace, another user)
  std::optional<std::time_t> since;  // start of the process
};

std::string printable(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; },
      ' ');
  while (!text.empty() && text.back() == ' ') text.pop_back();
  return text;
}

std::optional<std::time_t> boot_time() {
  std::ifstream file("/proc/stat");
  std::string line;
  while (std::getline(file, line))
    if (line.compare(0, 6, "btime ") == 0) return static_cast<std::time_t>(std::atoll(line.c_str() + 6));
  return std::nullopt;
}

Process look_up(const Holder& holder) {
  Process process{holder, {}, std::nullopt};
  const std::string directory = "/proc/" + std::to_string(holder.pid);
  std::ifstream words(directory + "/cmdline", std::ios::binary);
  std::getline(words, process.command, '\n');
  process.command = printable(process.command).substr(0, 200);

  // Field 22, counted from behind the name, which may hold blanks and brackets.
  std::ifstream file(directory + "/stat");
  std::string stat;
  std::getline(file, stat, '\0');
  std::size_t at = stat.rfind(')');
  for (int field = 2; field < 22 && at != std::string::npos; ++field) at = stat.find(' ', at + 1);
  const long ticks = ::sysconf(_SC_CLK_TCK);
  const auto boot = boot_time();
  if (at != std::string::npos && ticks > 0 && boot)
    process.since = *boot + static_cast<std::time_t>(std::atoll(stat.c_str() + at) / ticks);
  return process;
}

std::string time_text(std::time_t time, const char* format) {
  std::tm local{};
  ::localtime_r(&time, &local);
  std::array<char, 40> text{};
  std::strftime(text.data(), text.size(), format, &local);
  return text.data();
}

// The CUDA ordinal of a UUID, if CUDA told one.
std::optional<int> ordinal(const tl::expected<std::vector<std::string>, std::string>& order,
                           const std::string& uuid) {
  if (!order || uuid.empty()) return std::nullopt;
  const auto found = std::find(order->begin(), order->end(), uuid);
  if (found == order->end()) return std::nullopt;
  return static_cast<int>(found - order->begin());
}

struct Row {
  const HostGpu* gpu = nullptr;
  std::optional<int> pci, fastest;
  std::vector<Process> holders;
};

template <typename T>
nlohmann::json or_null(const std::optional<T>& value) {
  return value ? nlohmann::json(*value) : nlohmann::json(nullptr);
}

std::string json_text(const Host& host, const std::vector<Row>& rows) {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  nlohmann::ordered_json out;
  out["schema"] = 1;
  out["host"] = name.data();
  out["driver"] = host.driver;
  out["gpus"] = nlohmann::ordered_json::array();
  for (const Row& row : rows) {
    const policies::Gpu& gpu = row.gpu->gpu;
    const bool readable = row.gpu->unreadable.empty();
    nlohmann::ordered_json one;
    one["host_index"] = gpu.host_index;
    one["ordinal_pci"] = or_null(row.pci);
    one["ordinal_fastest"] = or_null(row.fastest);
    const auto known = [&](nlohmann::json value) {
      return readable ? std::move(value) : nlohmann::json(nullptr);
    };
    one["uuid"] = known(gpu.uuid);
    one["pci"] = known(gpu.pci);
    one["name"] = known(gpu.name);
    one["compute_capability"] = known(std::to_string(gpu.cc_major) + '.' + std::to_string(gpu.cc_minor));
    one["memory"] = {
        {"total", known(gpu.memory)}, {"used", known(row.gpu->used)}, {"free", known(row.gpu->free)}};
    one["utilization"] = or_null(row.gpu->utilization);
    one["numa"] = gpu.numa < 0 ? nlohmann::json(nullptr) : nlohmann::json(gpu.numa);
    one["error"] = readable ? nlohmann::json(nullptr) : nlohmann::json(row.gpu->unreadable);
    one["holders"] = nlohmann::ordered_json::array();
    for (const Process& process : row.holders) {
      nlohmann::ordered_json holder;
      holder["pid"] = process.holder.pid;
      holder["command"] = process.command.empty() ? nlohmann::json(nullptr) : nlohmann::json(process.command);
      holder["since"] = process.since ? nlohmann::json(time_text(*process.since, "%Y-%m-%dT%H:%M:%S%z"))
                                      : nlohmann::json(nullptr);
      holder["bytes"] = or_null(process.holder.bytes);
      one["holders"].push_back(std::move(holder));
    }
    out["gpus"].push_back(std::move(one));
  }
  // A command line need not be UTF-8.
  return out.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + '\n';
}

std::string table_text(const std::vector<Row>& rows) {
  using Line = std::vector<std::string>;
  const auto number = [](const std::optional<int>& value) {
    return value ? std::to_string(*value) : std::string("–");
  };
  std::vector<Line> lines{
      {"host", "CUDA by PCI", "CUDA by speed", "name", "cc", "memory used", "busy", "PCI id", "UUID"}};
  for (const Row& row : rows) {
    const policies::Gpu& gpu = row.gpu->gpu;
    if (!row.gpu->unreadable.empty()) {
      lines.push_back({std::to_string(gpu.host_index), "–", "–",
                       "doesn't answer (" + row.gpu->unreadable + ")", "–", "–", "–", "–", "–"});
      continue;
    }
    lines.push_back({std::to_string(gpu.host_index), number(row.pci), number(row.fastest), gpu.name,
                     std::to_string(gpu.cc_major) + '.' + std::to_string(gpu.cc_minor),
                     policies::format_size(row.gpu->used) + " of " + policies::format_size(gpu.memory),
                     row.gpu->utilization ? std::to_string(*row.gpu->utilization) + " %" : "–", gpu.pci,
                     gpu.uuid});
  }
  // Columns are as wide as people see them: a dash of three bytes is one character.
  const auto width = [](const std::string& text) {
    return static_cast<std::size_t>(std::count_if(
        text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
  };
  std::vector<std::size_t> widths(lines.front().size());
  for (const Line& line : lines)
    for (std::size_t i = 0; i < line.size(); ++i) widths[i] = std::max(widths[i], width(line[i]));
  std::string text;
  for (std::size_t at = 0; at < lines.size(); ++at) {
    for (std::size_t i = 0; i < lines[at].size(); ++i) {
      text += lines[at][i];
      if (i + 1 < lines[at].size()) text += std::string(widths[i] - width(lines[at][i]) + 2, ' ');
    }
    text += '\n';
    if (at == 0) continue;
    for (const Process& process : rows[at - 1].holders) {
      std::string line = "      pid " + std::to_string(process.holder.pid);
      if (!process.command.empty()) line += " \"" + process.command.substr(0, 60) + '"';
      if (process.holder.bytes) line += " holds " + policies::format_size(*process.holder.bytes);
      if (process.since) line += " since " + time_text(*process.since, "%Y-%m-%d %H:%M");
      text += line + '\n';
    }
  }
  std::string all, idle;
  for (const Row& row : rows) {
    if (!row.gpu->unreadable.empty()) continue;
    const std::string index = std::to_string(row.gpu->gpu.host_index);
    all += (all.empty() ? "" : ",") + index;
    if (row.holders.empty()) idle += (idle.empty() ? "" : ",") + index;
  }
  if (!all.empty())
    text += "to paste: --devices " + all + (idle.empty() ? "" : "   (nobody is on " + idle + ")") + '\n';
  return text;
}

}  // namespace

std::string devices_help() {
  return "gpufence devices [--json] [--sim SPEC]\n" + help_of(kOptions);
}

int devices(std::span<const std::string> words, const Environment& environment) {
  const auto read = read_options(kOptions, words, "gpufence devices -h");
  if (!read) return usage(read.error());
  if (read->end != words.size())
    return usage({words[read->end], "devices takes no such word", "see gpufence devices -h"});
  bool json = false;
  std::optional<std::string> sim;
  for (const GivenOption& given : read->given) {
    if (given.spec->name == "json") json = true;
    if (given.spec->name == "sim") sim = given.value;
    if (given.spec->name == "help") return print(devices_help());
  }

  const auto simulation = open_simulation(sim, environment);
  if (!simulation) return usage(simulation.error());
  NvmlSource nvml;
  std::string driver = "libcuda.so.1";
  Environment asking = environment;
  if (*simulation) {
    nvml = {(*simulation)->directory + "/libnvidia-ml.so.1", true};
    driver = (*simulation)->directory + "/libcuda.so.1";
    asking.set("GPUFENCE_SIM", (*simulation)->spec);
  }
  ::setenv("GPUFENCE", "off", 1);
  const auto host = read_host(nvml, Detail::occupancy);
  if (!host) {
    const Error error{*simulation ? (*simulation)->name : "devices", host.error().why, host.error().remedy};
    if (*simulation) return usage(error);
    say(error);
    return kNothing;
  }

  const auto by_pci = ask_cuda_order(Order::pci, asking, driver);
  const auto by_speed = ask_cuda_order(Order::fastest, asking, driver);
  std::vector<Row> rows;
  for (const HostGpu& gpu : host->gpus) {
    Row row{&gpu, ordinal(by_pci, gpu.gpu.uuid), ordinal(by_speed, gpu.gpu.uuid), {}};
    for (const Holder& holder : gpu.holders) row.holders.push_back(look_up(holder));
    rows.push_back(std::move(row));
  }
  if (json) return print(json_text(*host, rows));
  if (rows.empty()) {
    say({"devices", "the driver tells of no GPU", "look at nvidia-smi -L"});
    return kNothing;
  }
  return print(table_text(rows));
}

}  // namespace gpufence::command
