// `gpufence hooks`: every entry point of driver, runtime and NVML, and what becomes of a call of it. The
// names are the build's own lists (make_entries.py); what is hooked is read from the core beside this
// command, so that the answer is about the library that `run` preloads.
#include <fcntl.h>
#include <fnmatch.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "tools/gpufence/command.h"
#include "tools/gpufence/elf.h"
#include "tools/gpufence/options.h"
#include "tools/gpufence/place.h"
#include "tools/gpufence/subcommands.h"

namespace gpufence::command {
namespace {

constexpr std::array kOptions{
    OptionSpec{0, "json", "", "as JSON, with stable keys"},
    OptionSpec{'h', "help", "", "this text"},
};

enum class Library { driver, runtime, nvml };
enum class State { hooked, left_alone, passed_through };

struct Entry {
  Library library;
  std::string name;
  State state = State::passed_through;
  std::string reason;              // of what is not hooked
  std::string chapter;             // of hooks: the file under interpose/hooks
  std::string when;                // of hooks: "always", "cap,report"
  std::vector<std::string> nodes;  // of hooks of the runtime: "12", "13"
};

std::vector<Entry> known_entries() {
  struct Known {
    Library library;
    const char* name;
    State state;
    const char* reason;
  };
  static constexpr Known kKnown[] = {
#define GPUFENCE_ENTRY(library, name, state, reason) {Library::library, #name, State::state, reason},
#include "entries.inc"
  };
  std::vector<Entry> entries;
  for (const Known& known : kKnown)
    entries.push_back({known.library, known.name, known.state, known.reason, {}, {}, {}});
  return entries;
}

std::vector<std::string> split(std::string_view text, char at) {
  std::vector<std::string> parts;
  while (true) {
    const std::size_t end = text.find(at);
    parts.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

Library library_of(const std::string& name) {
  if (name.compare(0, 4, "nvml") == 0) return Library::nvml;
  // "__cudaLaunchKernel" is what nvcc makes of kernel<<<>>>.
  return name.compare(0, 4, "cuda") == 0 || name.compare(0, 6, "__cuda") == 0 ? Library::runtime
                                                                              : Library::driver;
}

// The records as the core's section has them: "name:node:chapter:when", each ended by zeros.
tl::expected<std::vector<Entry>, Error> add_hooks(std::vector<Entry> entries, const std::string& core) {
  const auto damaged = [&](std::string why) {
    return tl::unexpected(Error{core, std::move(why), "install gpufence again"});
  };
  const int file = ::open(core.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY);
  if (file < 0) return damaged("can't be read");
  std::optional<std::string> records;
  if (const auto sections = read_sections(file))
    for (const ElfSection& section : *sections)
      if (section.name == "gpufence_names") records = read_bytes(file, section.offset, section.size);
  ::close(file);
  if (!records) return damaged("holds no hook records");

  std::map<std::pair<Library, std::string>, std::size_t> index;
  for (std::size_t i = 0; i < entries.size(); ++i) index[{entries[i].library, entries[i].name}] = i;
  for (const std::string& record : split(*records, '\0')) {
    if (record.empty()) continue;
    const std::vector<std::string> fields = split(record, ':');
    if (fields.size() != 4) return damaged("holds hook records of another version");
    const Library library = library_of(fields[0]);
    // Names that only another major version of the runtime has are in no list.
    const auto [place, added] = index.try_emplace({library, fields[0]}, entries.size());
    if (added) entries.push_back({library, fields[0], {}, {}, {}, {}, {}});
    Entry& entry = entries[place->second];
    entry.state = State::hooked;
    entry.reason.clear();
    entry.chapter = fields[2];
    entry.when = fields[3];
    if (library == Library::runtime) entry.nodes.push_back(fields[1] == "11" ? "11.0" : fields[1]);
  }
  for (Entry& entry : entries) {
    std::sort(entry.nodes.begin(), entry.nodes.end());
    if (entry.state != State::passed_through || !entry.reason.empty()) continue;
    if (entry.library == Library::runtime) entry.reason = "what it asks of the driver is met there";
  }
  std::stable_sort(entries.begin(), entries.end(), [](const Entry& one, const Entry& other) {
    return one.library != other.library ? one.library < other.library : one.name < other.name;
  });
  return entries;
}

std::string when_text(const std::string& when) {
  if (when == "always") return "always";
  const std::map<std::string_view, const char*> words{
      {"cap", "under a cap"},        {"report", "with a report"},
      {"findings", "for findings"},  {"pointers", "for findings at level all"},
      {"view", "in numbering view"}, {"remap", "with --remap"}};
  std::string text;
  const std::vector<std::string> parts = split(when, ',');
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto found = words.find(parts[i]);
    text += (i == 0 ? "" : i + 1 < parts.size() ? ", " : " or ");
    text += found != words.end() ? std::string(found->second) : "for " + parts[i];
  }
  return text;
}

std::string title_of(Library library) {
  constexpr int version = GPUFENCE_ENTRIES_CUDA_VERSION;
  if (library == Library::driver)
    return "libcuda.so.1 of CUDA " + std::to_string(version / 1000) + '.' +
           std::to_string(version % 1000 / 10);
  return library == Library::runtime ? "libcudart.so.11.0, .12 and .13" : "libnvidia-ml.so.1";
}

const char* word_of(State state) {
  return state == State::hooked ? "hooked" : state == State::left_alone ? "left alone" : "passed through";
}

std::string table_text(const std::vector<Entry>& entries) {
  std::string text;
  std::size_t widest = 0;
  for (const Entry& entry : entries) widest = std::max(widest, entry.name.size());
  for (const Library library : {Library::driver, Library::runtime, Library::nvml}) {
    std::array<std::size_t, 3> counts{};
    std::string lines;
    for (const Entry& entry : entries) {
      if (entry.library != library) continue;
      ++counts[static_cast<std::size_t>(entry.state)];
      lines += entry.name + std::string(widest - entry.name.size() + 2, ' ') + word_of(entry.state);
      if (entry.state == State::hooked) {
        lines += ' ' + when_text(entry.when) + " (" + entry.chapter + ')';
        if (entry.nodes.size() == 1) lines += ", of CUDA " + entry.nodes.front() + " alone";
        if (entry.nodes.size() == 2)
          lines += ", of CUDA " + entry.nodes.front() + " and " + entry.nodes.back();
      } else {
        lines += ": " + entry.reason;
      }
      lines += '\n';
    }
    if (lines.empty()) continue;
    text += (text.empty() ? "" : "\n") + title_of(library) + ": " + std::to_string(counts[0]) + " hooked, " +
            std::to_string(counts[1]) + " left alone, " + std::to_string(counts[2]) + " passed through\n" +
            lines;
  }
  return text;
}

std::string json_text(const std::vector<Entry>& entries, const std::string& core) {
  nlohmann::ordered_json out;
  out["schema"] = 1;
  out["core"] = core;
  out["cuda_version"] = GPUFENCE_ENTRIES_CUDA_VERSION;
  out["entries"] = nlohmann::ordered_json::array();
  const auto or_null = [](const std::string& value) {
    return value.empty() ? nlohmann::json(nullptr) : nlohmann::json(value);
  };
  for (const Entry& entry : entries) {
    nlohmann::ordered_json one;
    one["library"] = entry.library == Library::driver    ? "driver"
                     : entry.library == Library::runtime ? "runtime"
                                                         : "nvml";
    one["name"] = entry.name;
    one["state"] = entry.state == State::hooked       ? "hooked"
                   : entry.state == State::left_alone ? "left_alone"
                                                      : "passed_through";
    one["when"] = nlohmann::ordered_json::array();
    if (!entry.when.empty())
      for (const std::string& when : split(entry.when, ',')) one["when"].push_back(when);
    one["chapter"] = or_null(entry.chapter);
    one["runtimes"] = entry.nodes;
    one["reason"] = or_null(entry.reason);
    out["entries"].push_back(std::move(one));
  }
  return out.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + '\n';
}

}  // namespace

std::string hooks_help() {
  return "gpufence hooks [--json] [NAME…]   names may hold * and ?: 'cuMem*'\n" + help_of(kOptions);
}

int hooks(std::span<const std::string> words, const Environment&) {
  const auto usage = [](const Error& error) {
    say(error);
    return kUsage;
  };
  const auto read = read_options(kOptions, words, "gpufence hooks -h");
  if (!read) return usage(read.error());
  bool json = false;
  for (const GivenOption& given : read->given) {
    if (given.spec->name == "json") json = true;
    if (given.spec->name == "help") return print(hooks_help());
  }
  const std::vector<std::string> wanted(words.begin() + static_cast<std::ptrdiff_t>(read->end), words.end());

  const auto gate = find_gate(own_directory());
  if (!gate) {
    say(gate.error().error);
    return kNothing;
  }
  const std::string core = gate->substr(0, gate->rfind('/')) + "/libgpufence-core.so";
  auto entries = add_hooks(known_entries(), core);
  if (!entries) {
    say(entries.error());
    return kNothing;
  }
  std::vector<bool> shown(entries->size(), wanted.empty());
  for (const std::string& pattern : wanted) {
    bool found = false;
    for (std::size_t i = 0; i < entries->size(); ++i)
      if (::fnmatch(pattern.c_str(), (*entries)[i].name.c_str(), 0) == 0) shown[i] = found = true;
    if (found) continue;
    say({pattern, "no entry point of CUDA or NVML has such a name", "write an exported name, or 'cuMem*'"});
    return kNothing;
  }
  std::vector<Entry> chosen;
  for (std::size_t i = 0; i < entries->size(); ++i)
    if (shown[i]) chosen.push_back(std::move((*entries)[i]));
  return print(json ? json_text(chosen, core) : table_text(chosen));
}

}  // namespace gpufence::command
