// Machine files: TOML to Machine. Alone with toml++ because that header takes seconds to compile.
// Every error names file, line and column; an unknown key is one, so that a typing error is never silent.
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <iterator>
#include <string_view>

#include "machine.h"

#define TOML_EXCEPTIONS 0
#include <toml++/toml.h>

namespace gpufence::sim {
namespace {

struct Reader {
  const std::string& path;
  std::string error;

  // Remembers the first error only; the rest are often its consequences.
  void fail(const toml::source_region& where, const std::string& why) {
    if (!error.empty()) return;
    error =
        path + ":" + std::to_string(where.begin.line) + ":" + std::to_string(where.begin.column) + ": " + why;
  }
  void fail(const toml::node& node, const std::string& why) { fail(node.source(), why); }

  template <class T>
  bool value(const toml::node& node, const char* key, const char* kind, T& out) {
    if (auto read = node.value_exact<T>()) {
      out = *read;
      return true;
    }
    fail(node, std::string(key) + " is not " + kind + "; write it as one");
    return false;
  }

  // Leaves `out` as it is where the number can't be had, so that nothing is done with a wrong one.
  template <class Number>
  void number(const toml::node& node, const char* key, int64_t least, int64_t most, Number& out) {
    int64_t read = 0;
    if (!value(node, key, "a whole number", read)) return;
    if (read < least || read > most)
      fail(node, std::string(key) + " is out of range; use " + std::to_string(least) + " to " +
                     std::to_string(most));
    else
      out = static_cast<Number>(read);
  }

  void size(const toml::node& node, const char* key, uint64_t& out) {
    std::string text;
    if (!value(node, key, "a size in quotes such as \"80GiB\"", text)) return;
    if (auto bytes = read_size(text))
      out = *bytes;
    else
      fail(node, bytes.error());
  }

  // For what only shows when the whole file is read.
  void fail(const Gpu& gpu, const std::string& why) {
    if (error.empty())
      error = path + ":" + std::to_string(gpu.line) + ":" + std::to_string(gpu.column) + ": " + why;
  }

  void unknown(const toml::key& key, const char* known) {
    fail(key.source(), "unknown key " + std::string(key.str()) + "; known are " + known);
  }
};

constexpr const char* kTopKeys = "version, driver_version, peers, slow, gpu";
constexpr const char* kGpuKeys =
    "model, count, name, memory, compute_capability, multiprocessors, uuid, pci, numa, context, "
    "fastest_rank, "
    "fail_alloc_at, lost_at, mig";
constexpr const char* kInstanceKeys = "profile, count, uuid, multiprocessors";
constexpr const char* kSlowKeys = "call, ms";

bool parse_uuid(std::string_view text, std::string_view kind, Uuid& out) {
  if (text.substr(0, 4) != kind || text.size() != 40) return false;
  size_t nibble = 0;
  for (size_t i = 4; i < text.size(); ++i) {
    if (i == 12 || i == 17 || i == 22 || i == 27) {
      if (text[i] != '-') return false;
      continue;
    }
    unsigned digit = 0;
    auto [rest, error] = std::from_chars(&text[i], &text[i] + 1, digit, 16);
    if (error != std::errc{} || rest != &text[i] + 1) return false;
    auto& byte = out[nibble / 2];
    byte = static_cast<unsigned char>(nibble % 2 == 0 ? digit << 4 : byte | digit);
    ++nibble;
  }
  return nibble == 32 && std::any_of(out.begin(), out.end(), [](unsigned char c) { return c != 0; });
}

void read_uuid(Reader& reader, const toml::node& node, const std::string& kind, Uuid& out) {
  std::string text;
  if (reader.value(node, "uuid", "text", text) && !parse_uuid(text, kind, out))
    reader.fail(node,
                "\"" + text + "\" is no UUID; write " + kind + "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx in hex");
}

void place(Gpu& gpu, const toml::node& node) {
  gpu.line = node.source().begin.line;
  gpu.column = node.source().begin.column;
}

// The list, of which each entry is a table.
template <class Each>
void read_tables(Reader& reader, const toml::node& node, const std::string& key, const std::string& write,
                 Each each) {
  const toml::array* tables = node.as_array();
  if (tables == nullptr || (!tables->empty() && !tables->is_homogeneous(toml::node_type::table))) {
    reader.fail(node, key + " is not a list of tables; write " + write);
    return;
  }
  for (const toml::node& table : *tables) each(*table.as_table());
}

void read_instance(Reader& reader, const toml::table& table, Gpu& gpu) {
  size_t count = 1;
  int multiprocessors = 0;
  Gpu instance;
  const toml::node* profile = table.get("profile");
  std::string text;
  if (profile == nullptr) {
    reader.fail(table, "an instance has no profile; write profile = \"3g.40gb\"");
  } else if (reader.value(*profile, "profile", "text", text)) {
    if (auto made = split_off(gpu, text))
      instance = *made;
    else
      reader.fail(*profile, made.error());
  }
  place(instance, table);
  for (const auto& [key, node] : table) {
    const std::string_view k = key.str();
    if (k == "profile") continue;
    if (k == "count")
      reader.number(node, "count", 1, 7, count);
    else if (k == "uuid")
      read_uuid(reader, node, "MIG-", instance.uuid);
    else if (k == "multiprocessors")
      reader.number(node, "multiprocessors", 1, gpu.multiprocessors, multiprocessors);
    else
      reader.unknown(key, kInstanceKeys);
  }
  if (multiprocessors != 0) instance.multiprocessors = multiprocessors;
  if (count > 1 && table.contains("uuid"))
    reader.fail(table,
                "count with uuid would make several instances the same one; write a [[gpu.mig]] for each");
  gpu.instances.insert(gpu.instances.end(), count, instance);
}

// After the GPU's other keys, which the sizes of its profiles follow from.
void read_instances(Reader& reader, const toml::node& node, Gpu& gpu) {
  gpu.mig = true;
  read_tables(reader, node, "mig", "[[gpu.mig]] below its [[gpu]]",
              [&](const toml::table& table) { read_instance(reader, table, gpu); });
  unsigned slices = 0, memory = 0;
  for (const Gpu& instance : gpu.instances) {
    slices += instance.slices;
    memory += instance.memory_slices;
    if (slices > 7 || memory > 8)
      reader.fail(instance, "the instances of this GPU take " + std::to_string(slices) + " of 7 slices and " +
                                std::to_string(memory) + " of 8 parts of its memory; leave this one out");
  }
}

bool is_call(std::string_view name) {
  constexpr std::string_view kCalls[] = {
#define GPUFENCE_DRIVER_EXPORT(exported, unversioned, version, per_thread) #exported,
#include "driver_exports.inc"
  };
  return std::find(std::begin(kCalls), std::end(kCalls), name) != std::end(kCalls);
}

void read_slow(Reader& reader, const toml::table& table, Machine& machine) {
  Slow slow;
  uint64_t ms = 0;
  for (const auto& [key, node] : table) {
    if (key.str() == "call") {
      if (reader.value(node, "call", "text", slow.call) && !is_call(slow.call))
        reader.fail(node,
                    "\"" + slow.call + "\" is no call of the driver; write for example \"cuMemAlloc_v2\"");
    } else if (key.str() == "ms") {
      reader.number(node, "ms", 1, 600'000, ms);
    } else {
      reader.unknown(key, kSlowKeys);
    }
  }
  if (slow.call.empty() || ms == 0)
    reader.fail(table, "a slow call needs both; write call = \"cuMemAlloc_v2\" and ms = 200");
  slow.ns = ms * 1'000'000;
  machine.slow.push_back(std::move(slow));
}

void read_gpu(Reader& reader, const toml::table& table, Machine& machine) {
  Gpu gpu;
  gpu.numa_node = -1;
  apply_model(gpu, "sim");
  size_t count = 1;
  bool context_given = false, memory_given = false;
  if (const toml::node* node = table.get("model")) {
    std::string model;
    if (reader.value(*node, "model", "text", model) && !apply_model(gpu, model))
      reader.fail(*node, "no model \"" + model + "\"; known are " + model_names());
  }
  for (const auto& [key, node] : table) {
    const std::string_view k = key.str();
    std::string text;
    if (k == "model") {
      continue;  // read above, as the other values come from it
    } else if (k == "count") {
      reader.number(node, "count", 1, kMaxGpus, count);
    } else if (k == "name") {
      reader.value(node, "name", "text", gpu.name);
    } else if (k == "memory") {
      reader.size(node, "memory", gpu.memory_bytes);
      memory_given = true;
    } else if (k == "context") {
      reader.size(node, "context", gpu.context_bytes);
      context_given = true;
    } else if (k == "compute_capability") {
      int end = 0;
      if (reader.value(node, "compute_capability", "text such as \"9.0\"", text) &&
          (sscanf(text.c_str(), "%2d.%1d%n", &gpu.cc_major, &gpu.cc_minor, &end) != 2 ||
           static_cast<size_t>(end) != text.size() || gpu.cc_major < 1))
        reader.fail(node, "\"" + text + "\" is no compute capability; write for example \"9.0\"");
    } else if (k == "multiprocessors") {
      reader.number(node, "multiprocessors", 1, 1024, gpu.multiprocessors);
    } else if (k == "uuid") {
      read_uuid(reader, node, "GPU-", gpu.uuid);
    } else if (k == "pci") {
      int end = 0;
      if (reader.value(node, "pci", "text", text) &&
          (sscanf(text.c_str(), "%4x:%2x:%2x.0%n", &gpu.pci_domain, &gpu.pci_bus, &gpu.pci_device, &end) !=
               3 ||
           static_cast<size_t>(end) != text.size() ||
           // "-1" is a number to sscanf.
           gpu.pci_domain > 0xffff || gpu.pci_bus > 0xff || gpu.pci_device > 31 ||
           (gpu.pci_bus | gpu.pci_device) == 0))
        reader.fail(node, "\"" + text + "\" is no PCI id; write for example \"0000:81:00.0\"");
    } else if (k == "numa") {
      reader.number(node, "numa", 0, 1023, gpu.numa_node);
    } else if (k == "fastest_rank") {
      reader.number(node, "fastest_rank", 0, kMaxGpus, gpu.fastest_rank);
    } else if (k == "fail_alloc_at") {
      reader.number(node, "fail_alloc_at", 1, INT64_MAX, gpu.fail_alloc_at);
    } else if (k == "lost_at") {
      reader.number(node, "lost_at", 1, INT64_MAX, gpu.lost_at);
    } else if (k == "mig") {
      continue;
    } else {
      reader.unknown(key, kGpuKeys);
    }
  }
  if (memory_given && !context_given) gpu.context_bytes = std::min(gpu.context_bytes, gpu.memory_bytes / 16);
  if (gpu.context_bytes > gpu.memory_bytes)
    reader.fail(*table.get("context"),
                "a context costs more than the GPU's whole memory; write a smaller one");
  place(gpu, table);
  if (const toml::node* node = table.get("mig")) read_instances(reader, *node, gpu);
  if (count > 1 && std::any_of(gpu.instances.begin(), gpu.instances.end(),
                               [](const Gpu& instance) { return instance.uuid != Uuid{}; }))
    reader.fail(
        table,
        "count with the uuid of an instance would make several the same one; write a [[gpu]] for each");
  if (count > 1 && (table.contains("uuid") || table.contains("pci")))
    reader.fail(table,
                "count with uuid or pci would make several GPUs the same one; write a [[gpu]] for each");
  machine.gpus.insert(machine.gpus.end(), count, gpu);
}

// "all", "none", or groups of host indices. Indices can be checked only when all GPUs are known.
void read_peers(Reader& reader, const toml::node& node, Peers& peers) {
  if (const auto word = node.value_exact<std::string>(); word && (*word == "all" || *word == "none")) {
    peers.rule = *word == "all" ? Peers::Rule::all : Peers::Rule::none;
    return;
  }
  peers.rule = Peers::Rule::groups;
  const toml::array* groups = node.as_array();
  bool good = groups != nullptr;
  for (size_t i = 0; good && i < groups->size(); ++i) {
    const toml::array* group = groups->get(i)->as_array();
    good = group != nullptr;
    std::vector<int> indices;
    for (size_t j = 0; good && j < group->size(); ++j) {
      const auto index = group->get(j)->value_exact<int64_t>();
      good = index && *index >= 0 && *index < static_cast<int64_t>(kMaxGpus);
      if (good) indices.push_back(static_cast<int>(*index));
    }
    peers.groups.push_back(indices);
  }
  if (!good)
    reader.fail(node,
                "peers is no list of groups; write \"all\", \"none\" or host indices as [[0, 1], [2, 3]]");
}

}  // namespace

tl::expected<Machine, std::string> read_machine_file(const std::string& path) {
  toml::parse_result parsed = toml::parse_file(path);
  if (!parsed) {
    const auto& where = parsed.error().source().begin;
    if (where.line == 0)
      return tl::unexpected(path + ": can't be read; name a machine file that exists, or use 4 or 4x80GiB");
    return tl::unexpected(path + ":" + std::to_string(where.line) + ":" + std::to_string(where.column) +
                          ": " + std::string(parsed.error().description()) + "; correct the file");
  }
  Reader reader{path, {}};
  Machine machine;
  for (const auto& [key, node] : parsed.table()) {
    if (key.str() == "version") {
      int64_t version = 1;
      reader.number(node, "version", 1, 1, version);
    } else if (key.str() == "driver_version") {
      reader.number(node, "driver_version", 10000, 99990, machine.driver_version);
    } else if (key.str() == "peers") {
      read_peers(reader, node, machine.peers);
    } else if (key.str() == "slow") {
      read_tables(reader, node, "slow", "[[slow]]",
                  [&](const toml::table& slow) { read_slow(reader, slow, machine); });
    } else if (key.str() == "gpu") {
      read_tables(reader, node, "gpu", "[[gpu]]",
                  [&](const toml::table& gpu) { read_gpu(reader, gpu, machine); });
    } else {
      reader.unknown(key, kTopKeys);
    }
  }
  if (!reader.error.empty()) return tl::unexpected(reader.error);
  if (machine.gpus.empty() || machine.gpus.size() > kMaxGpus)
    return tl::unexpected(path + ":1:1: " + std::to_string(machine.gpus.size()) + " GPUs; describe 1 to " +
                          std::to_string(kMaxGpus) + " with [[gpu]]");
  // In the order of PCI ids, which only the complete machine has; the text stands where peers does.
  for (const std::vector<int>& group : machine.peers.groups)
    for (int index : group)
      if (index >= static_cast<int>(machine.gpus.size()))
        reader.fail(*parsed.table().get("peers"), "peers names GPU " + std::to_string(index) +
                                                      "; the last one is " +
                                                      std::to_string(machine.gpus.size() - 1));
  if (!reader.error.empty()) return tl::unexpected(reader.error);
  complete(machine);
  for (const std::vector<int>& group : machine.peers.groups)
    for (int index : group)
      if (machine.gpus[static_cast<size_t>(index)].mig)
        reader.fail(*parsed.table().get("peers"), "peers names GPU " + std::to_string(index) +
                                                      ", which is split (mig) and has none; leave it out");
  if (machine.units() > kMaxUnits)
    reader.fail(machine.instances.back(), std::to_string(machine.units()) + " GPUs and instances; at most " +
                                              std::to_string(kMaxUnits) + " are simulated");
  for (size_t i = 0; i < machine.units(); ++i) {
    const Gpu& unit = machine.unit(i);
    for (size_t j = 0; j < i; ++j) {
      const Gpu& before = machine.unit(j);
      const Gpu& later = before.line > unit.line ? before : unit;
      if (!unit.is_instance() && pci_text(unit) == pci_text(before))
        reader.fail(later, "two GPUs at PCI id " + pci_text(unit) + "; give every GPU its own");
      if (unit.uuid == before.uuid)
        reader.fail(later, "two GPUs with UUID " + uuid_text(unit) + "; give every GPU its own");
    }
  }
  if (!reader.error.empty()) return tl::unexpected(reader.error);
  return machine;
}

}  // namespace gpufence::sim
