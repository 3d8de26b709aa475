// The short forms of GPUFENCE_SIM, the models, and the identities made from a description. UUIDs are a hash
// of the whole description: two different machines never share one, so ledgers and leases of different
// simulated machines cannot meet, and two runs on the same description do.
#include "machine.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <numeric>

#include <unistd.h>

namespace gpufence::sim {
namespace {

constexpr uint64_t kGiB = uint64_t{1} << 30;
constexpr uint64_t kMiB = uint64_t{1} << 20;

struct Model {
  const char* key;
  const char* name;
  uint64_t memory_bytes;
  int cc_major, cc_minor, multiprocessors;
  bool nvlink;
};

constexpr Model kModels[] = {
    {"sim", "Simulated GPU", 16 * kGiB, 9, 0, 132, false},
    {"b200", "NVIDIA B200", 180 * kGiB, 10, 0, 148, true},
    {"h200", "NVIDIA H200", 141 * kGiB, 9, 0, 132, true},
    {"h100", "NVIDIA H100 80GB HBM3", 80 * kGiB, 9, 0, 132, true},
    {"l40s", "NVIDIA L40S", 48 * kGiB, 8, 9, 142, false},
    {"rtx3090", "NVIDIA GeForce RTX 3090", 24 * kGiB, 8, 6, 82, false},
    {"rtx4090", "NVIDIA GeForce RTX 4090", 24 * kGiB, 8, 9, 128, false},
    {"a100", "NVIDIA A100-SXM4-80GB", 80 * kGiB, 8, 0, 108, true},
    {"a100-40", "NVIDIA A100-SXM4-40GB", 40 * kGiB, 8, 0, 108, true},
    {"t4", "Tesla T4", 16 * kGiB, 7, 5, 40, false},
};

// Where GPUs sit on an eight-GPU board of this kind; the ninth starts over in the next domain.
constexpr unsigned kBuses[] = {0x01, 0x25, 0x41, 0x81, 0xa1, 0xc1, 0xe1, 0xf1};

constexpr uint64_t kDefaultContextBytes = 256 * kMiB;

char lower(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

std::string lowered(std::string_view text) {
  std::string out;
  std::transform(text.begin(), text.end(), std::back_inserter(out), lower);
  return out;
}

uint64_t mix(uint64_t x) {  // splitmix64
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

uint64_t hash(std::string_view text) {  // FNV-1a, then mixed
  uint64_t h = 0xcbf29ce484222325u;
  for (unsigned char c : text) h = (h ^ c) * 0x100000001b3u;
  return mix(h);
}

// Everything that makes two machines different, explicit UUIDs included.
std::string canonical(const Machine& machine) {
  std::string text = "machine 1 driver " + std::to_string(machine.driver_version);
  for (const Gpu& gpu : machine.gpus) {
    text += "\n" + gpu.name + "|" + std::to_string(gpu.memory_bytes) + "|" + std::to_string(gpu.cc_major) +
            "." + std::to_string(gpu.cc_minor) + "|" + std::to_string(gpu.multiprocessors) + "|" +
            pci_text(gpu) + "|" + std::to_string(gpu.numa_node) + "|" + std::to_string(gpu.context_bytes) +
            "|" + std::to_string(gpu.fastest_rank) + "|" + std::to_string(gpu.fail_alloc_at) + "|" +
            uuid_text(gpu.uuid);
    // Only where there is any, so that machines without keep their UUIDs.
    if (gpu.lost_at != 0) text += "|lost " + std::to_string(gpu.lost_at);
    if (gpu.mig) text += "|mig";
    for (const Gpu& instance : gpu.instances)
      text += "|" + instance.profile + " " + std::to_string(instance.memory_bytes) + " " +
              std::to_string(instance.multiprocessors) + " " + uuid_text(instance);
  }
  for (const Slow& slow : machine.slow) text += "\nslow " + slow.call + " " + std::to_string(slow.ns);
  // Where nothing was said the models say it, and they stand above.
  if (machine.peers.rule != Peers::Rule::by_model)
    for (const Gpu& gpu : machine.gpus) text += "\npeers " + std::to_string(gpu.peers);
  return text;
}

void set_peers(Machine& machine) {
  auto& gpus = machine.gpus;
  const auto reach = [&](size_t i, size_t j) {
    // "GPU-to-GPU P2P (either PCIe or NVLink) is not supported" with MIG (NVIDIA's MIG user guide).
    if (i != j && !gpus[i].mig && !gpus[j].mig) gpus[i].peers |= uint64_t{1} << j;
  };
  for (size_t i = 0; i < gpus.size(); ++i) {
    gpus[i].peers = 0;
    for (size_t j = 0; j < gpus.size(); ++j) {
      const bool all = machine.peers.rule == Peers::Rule::all;
      const bool linked = machine.peers.rule == Peers::Rule::by_model && gpus[i].nvlink && gpus[j].nvlink;
      // cuCtxEnablePeerAccess asks for "same major compute capability".
      if ((all || linked) && gpus[i].cc_major == gpus[j].cc_major) reach(i, j);
    }
  }
  for (const std::vector<int>& group : machine.peers.groups)
    for (int i : group)
      for (int j : group) reach(static_cast<size_t>(i), static_cast<size_t>(j));
}

bool is_zero(const Uuid& uuid);

// "S0", then the GPU's place: a person recognises a simulated UUID, and GPU-5130 … GPU-5133 are short unique
// prefixes for the command line. `place`: any number that no other GPU or instance of the machine has.
void make_uuid(Uuid& uuid, uint64_t seed, size_t place, unsigned char shown) {
  if (!is_zero(uuid)) return;
  const uint64_t high = mix(seed + 2 * place), low = mix(seed + 2 * place + 1);
  for (int byte = 0; byte < 8; ++byte) {
    uuid[static_cast<size_t>(byte)] = static_cast<unsigned char>(high >> (8 * byte));
    uuid[static_cast<size_t>(byte + 8)] = static_cast<unsigned char>(low >> (8 * byte));
  }
  uuid[0] = 0x51;
  uuid[1] = shown;
}

// What an instance has of its GPU, and the ids that drivers give: those of one size count up from where its
// size begins, "7g" at 0, "4g" and "3g" at 1, "2g" at 3, "1g" at 7 (as the listings of NVIDIA's MIG user
// guide have them).
void list_instances(Machine& machine, uint64_t seed) {
  machine.instances.clear();
  for (size_t i = 0; i < machine.gpus.size(); ++i) {
    const Gpu& gpu = machine.gpus[i];
    unsigned large = 1, middle = 3, small = 7;
    for (const Gpu& described : gpu.instances) {
      Gpu instance = described;
      instance.name = gpu.name + " MIG " + instance.profile;
      instance.parent = i;
      instance.cc_major = gpu.cc_major;
      instance.cc_minor = gpu.cc_minor;
      instance.pci_domain = gpu.pci_domain;
      instance.pci_bus = gpu.pci_bus;
      instance.pci_device = gpu.pci_device;
      instance.numa_node = gpu.numa_node;
      instance.context_bytes = gpu.context_bytes;
      instance.fail_alloc_at = gpu.fail_alloc_at;
      instance.lost_at = gpu.lost_at;
      instance.gpu_instance = instance.slices == 7   ? 0
                              : instance.slices >= 3 ? large++
                              : instance.slices == 2 ? middle++
                                                     : small++;
      // Behind the numbers of all GPUs.
      make_uuid(instance.uuid, seed, kMaxGpus + machine.instances.size(),
                static_cast<unsigned char>(0x30 + machine.instances.size()));
      machine.instances.push_back(std::move(instance));
    }
  }
}

bool is_zero(const Uuid& uuid) {
  return std::all_of(uuid.begin(), uuid.end(), [](unsigned char c) { return c == 0; });
}

void say_once(const std::string& line) {
  const std::string text = "gpufence: GPUFENCE_SIM: " + line + "\n";
  [[maybe_unused]] ssize_t n = write(STDERR_FILENO, text.data(), text.size());
}

}  // namespace

tl::expected<uint64_t, std::string> read_size(std::string_view text) {
  double number = 0;
  auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  std::string unit = lowered(std::string_view(rest, static_cast<size_t>(text.data() + text.size() - rest)));
  const std::string quoted = "\"" + std::string(text) + "\"";
  if (error != std::errc{} || !(number > 0))
    return tl::unexpected(quoted + " is no size; write for example 16GiB");
  if (unit.empty()) return tl::unexpected(quoted + " has no unit; write " + std::string(text) + "GiB");
  double scale = 0;
  if (unit == "b") {
    scale = 1;
  } else {
    constexpr std::string_view kLetters = "kmgt";
    const size_t power = kLetters.find(unit[0]);
    const std::string_view tail = std::string_view(unit).substr(1);
    if (power != std::string_view::npos && (tail.empty() || tail == "b" || tail == "i" || tail == "ib"))
      scale = std::ldexp(1.0, 10 * (static_cast<int>(power) + 1));
  }
  if (scale == 0) return tl::unexpected(quoted + " has an unknown unit; use KiB, MiB, GiB or TiB");
  const double bytes = std::floor(number * scale);
  if (bytes < 1 || bytes > std::ldexp(1.0, 44))
    return tl::unexpected(quoted + " is out of range; use 1MiB to 16TiB");
  return static_cast<uint64_t>(bytes);
}

bool apply_model(Gpu& gpu, std::string_view model) {
  const std::string key = lowered(model);
  for (const Model& m : kModels) {
    if (key != m.key) continue;
    gpu.name = m.name;
    gpu.memory_bytes = m.memory_bytes;
    gpu.cc_major = m.cc_major;
    gpu.cc_minor = m.cc_minor;
    gpu.multiprocessors = m.multiprocessors;
    gpu.context_bytes = kDefaultContextBytes;
    gpu.nvlink = m.nvlink;
    return true;
  }
  return false;
}

std::string model_names() {
  std::string names;
  for (const Model& m : kModels) names += (names.empty() ? "" : ", ") + std::string(m.key);
  return names;
}

namespace {

// As nvidia-smi lists it of A100 and H100; of other GPUs an eighth a slice, in whole pairs.
int multiprocessors_of(const Gpu& gpu, unsigned slices, bool wide) {
  if (gpu.multiprocessors == 132) {
    constexpr int kHopper[] = {0, 16, 32, 60, 64, 0, 0, 132};
    return wide ? 26 : kHopper[slices];
  }
  if (gpu.multiprocessors == 108) return 14 * static_cast<int>(slices);
  if (slices == 7) return gpu.multiprocessors;
  return std::max(1, gpu.multiprocessors / 8 / 2 * 2 * static_cast<int>(slices));
}

}  // namespace

tl::expected<Gpu, std::string> split_off(const Gpu& gpu, std::string_view profile) {
  const std::string quoted = "\"" + std::string(profile) + "\"";
  const std::string text(profile);
  unsigned slices = 0, gigabytes = 0;
  int end = 0;
  if (sscanf(text.c_str(), "%1ug.%4ugb%n", &slices, &gigabytes, &end) != 2 ||
      static_cast<size_t>(end) != text.size() || gigabytes == 0)
    return tl::unexpected(quoted + " is no profile; write for example \"3g.40gb\"");
  if (slices != 1 && slices != 2 && slices != 3 && slices != 4 && slices != 7)
    return tl::unexpected(quoted + " is no profile; a GPU is split into parts of 1g, 2g, 3g, 4g or 7g");
  if (gpu.cc_major < 8 || gpu.cc_minor != 0)
    return tl::unexpected("a GPU of compute capability " + std::to_string(gpu.cc_major) + "." +
                          std::to_string(gpu.cc_minor) +
                          " has no MIG; take a100, a100-40, h100, h200 or b200");
  // Profiles are named after about their share, in eighths of the memory.
  const double eighth = static_cast<double>(gpu.memory_bytes) / static_cast<double>(kGiB) / 8;
  const double share = gigabytes / eighth;
  const auto memory_slices = static_cast<unsigned>(std::lround(share));
  const unsigned least = slices == 3 ? 4 : slices == 7 ? 8 : slices;
  const bool wide = slices == 1 && memory_slices == 2;
  if (std::abs(share - memory_slices) > 0.15 || (memory_slices != least && !wide)) {
    const auto named = [&](unsigned of_eight) {
      return std::to_string(static_cast<int>(std::lround(eighth * of_eight)));
    };
    return tl::unexpected(quoted + " is no profile of this GPU; it has 1g." + named(1) + "gb, 1g." +
                          named(2) + "gb, 2g." + named(2) + "gb, 3g." + named(4) + "gb, 4g." + named(4) +
                          "gb and 7g." + named(8) + "gb");
  }
  Gpu instance;
  instance.profile = text;
  instance.slices = slices;
  instance.memory_slices = memory_slices;
  instance.memory_bytes = gpu.memory_bytes / 8 * memory_slices;
  instance.multiprocessors = multiprocessors_of(gpu, slices, wide);
  return instance;
}

void complete(Machine& machine) {
  const size_t count = machine.gpus.size();
  for (size_t i = 0; i < count; ++i) {
    Gpu& gpu = machine.gpus[i];
    if (gpu.pci_bus == 0 && gpu.pci_device == 0) {
      gpu.pci_domain = static_cast<unsigned>(i / std::size(kBuses));
      gpu.pci_bus = kBuses[i % std::size(kBuses)];
    }
    if (gpu.numa_node < 0) gpu.numa_node = count > 1 && i >= (count + 1) / 2 ? 1 : 0;
  }
  std::stable_sort(machine.gpus.begin(), machine.gpus.end(), [](const Gpu& a, const Gpu& b) {
    return std::tie(a.pci_domain, a.pci_bus, a.pci_device) < std::tie(b.pci_domain, b.pci_bus, b.pci_device);
  });
  set_peers(machine);
  const uint64_t seed = hash(canonical(machine));
  for (size_t i = 0; i < count; ++i)
    make_uuid(machine.gpus[i].uuid, seed, i, static_cast<unsigned char>(0x30 + i));
  list_instances(machine, seed);
  char key[17];
  snprintf(key, sizeof key, "%016llx", static_cast<unsigned long long>(hash(canonical(machine))));
  machine.key = key;
}

tl::expected<Machine, std::string> read_machine(std::string_view spec) {
  auto ends_with = [&](std::string_view tail) {
    return spec.size() >= tail.size() && spec.substr(spec.size() - tail.size()) == tail;
  };
  if (spec.find('/') != std::string_view::npos || ends_with(".toml"))
    return read_machine_file(std::string(spec));

  const std::string quoted = "\"" + std::string(spec) + "\"";
  const std::string forms = "use 4, 4x80GiB, 8xh100, h100 or the path of a machine file (.toml)";
  size_t count = 1;
  std::string_view model = spec;
  if (!spec.empty() && spec[0] >= '0' && spec[0] <= '9') {
    auto [rest, error] = std::from_chars(spec.data(), spec.data() + spec.size(), count);
    model = spec.substr(static_cast<size_t>(rest - spec.data()));
    if (error != std::errc{} || count == 0 || count > kMaxGpus)
      return tl::unexpected(quoted + " asks for too few or too many GPUs; use 1 to " +
                            std::to_string(kMaxGpus));
    if (model.empty()) {
      model = "sim";
    } else if (model[0] == 'x' || model[0] == 'X') {
      model.remove_prefix(1);
    } else if (model.substr(0, 2) == "\xc3\x97") {  // the multiplication sign, as design and manual print it
      model.remove_prefix(2);
    } else {
      return tl::unexpected(quoted + " is no machine; " + forms);
    }
  }
  Gpu gpu;
  gpu.numa_node = -1;
  if (!apply_model(gpu, model)) {
    if (model.empty() || model[0] < '0' || model[0] > '9')
      return tl::unexpected(quoted + " names no known model; " + forms + "; models: " + model_names());
    auto bytes = read_size(model);
    if (!bytes) return tl::unexpected(bytes.error());
    apply_model(gpu, "sim");
    gpu.memory_bytes = *bytes;
    gpu.context_bytes = std::min(gpu.context_bytes, gpu.memory_bytes / 16);
  }
  Machine machine;
  machine.gpus.assign(count, gpu);
  complete(machine);
  return machine;
}

const Machine& this_machine() {
  // Leaked: the runtime calls the driver from exit handlers, after static destructors.
  static const Machine* const machine = [] {
    const char* spec = getenv("GPUFENCE_SIM");
    auto* result = new Machine;
    if (spec == nullptr || *spec == '\0') return result;
    auto read = read_machine(spec);
    if (read)
      *result = std::move(*read);
    else
      say_once(read.error());
    return result;
  }();
  return *machine;
}

std::vector<int> fastest_first(const Machine& machine) {
  std::vector<int> order(machine.gpus.size());
  std::iota(order.begin(), order.end(), 0);
  // NVIDIA documents "fastest first" without saying what fast means; a machine file settles it with
  // fastest_rank.
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    const Gpu &x = machine.gpus[static_cast<size_t>(a)], &y = machine.gpus[static_cast<size_t>(b)];
    if ((x.fastest_rank < 0) != (y.fastest_rank < 0)) return y.fastest_rank < 0;
    if (x.fastest_rank != y.fastest_rank) return x.fastest_rank < y.fastest_rank;
    return std::tie(x.cc_major, x.cc_minor, x.multiprocessors) >
           std::tie(y.cc_major, y.cc_minor, y.multiprocessors);
  });
  return order;
}

std::string uuid_text(const Uuid& u) {
  char text[48];
  snprintf(text, sizeof text, "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
           u[0], u[1], u[2], u[3], u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12], u[13], u[14],
           u[15]);
  return text;
}

std::string uuid_text(const Gpu& gpu) {
  const std::string text = uuid_text(gpu.uuid);
  return gpu.is_instance() ? std::string("MIG") + text.substr(3) : text;
}

std::string pci_text(const Gpu& gpu) {
  char text[32];
  snprintf(text, sizeof text, "%04x:%02x:%02x.0", gpu.pci_domain, gpu.pci_bus, gpu.pci_device);
  return text;
}

}  // namespace gpufence::sim
