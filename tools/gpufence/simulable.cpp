#include "tools/gpufence/simulable.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <set>

#include <nlohmann/json.hpp>

#include "tools/gpufence/child.h"

namespace gpufence::command {
namespace {

// Reading through all kernels of a large program takes seconds; nobody waits longer for a start.
constexpr auto kPatience = std::chrono::seconds(10);
// Of one file, in which the interpreter is let loose: above that are libraries of kernels by the thousand.
constexpr std::uint64_t kMostCode = std::uint64_t{64} << 20;

std::string base_name(const std::string& path) {
  return path.substr(path.rfind('/') + 1);
}

// Other than what was asked about.
bool is_another(const std::string& part) {
  return !part.empty() && part != "the program" && part != "the library";
}

bool has_code(const Part& part, GpuCode::Kind kind) {
  return std::any_of(part.code.entries.begin(), part.code.entries.end(),
                     [&](const GpuCode& code) { return code.kind == kind; });
}

// What the files alone tell.
std::optional<Simulability> impossible(const Parts& parts, const std::string& simulation) {
  const auto no = [](std::string why, std::string remedy) {
    return Simulability{false, std::move(why), std::move(remedy), {}};
  };
  for (const Part& part : parts.parts) {
    if (part.signs.static_runtime && !part.signs.our_runtime && !needs_real_gpu(base_name(part.path)))
      return no((is_another(part.name) ? part.name : std::string("it")) +
                    " has NVIDIA's own runtime inside, which refuses a simulated driver",
                "link it with nvcc -cudart shared, or with -L" + simulation);
    if (auto why = why_unsimulable(part.elf, part.path, simulation))
      return no(is_another(part.name) ? part.name + ": " + why->why : why->why, why->remedy);
    if (needs_real_gpu(base_name(part.path)))
      return no(is_another(part.name) ? "it needs " + part.name + ", whose code is for real GPUs"
                                      : "its code is for real GPUs",
                "run it on a GPU");
    if (has_code(part, GpuCode::Kind::cubin) && !has_code(part, GpuCode::Kind::ptx)) {
      const std::string sm = std::to_string(part.code.entries.front().sm);
      return no(
          (is_another(part.name) ? part.name : std::string("it")) + " has machine code alone and no PTX",
          "compile it with -gencode arch=compute_" + sm + ",code=compute_" + sm);
    }
  }
  for (const Library& library : parts.fixed)
    if (library.path != simulation + '/' + library.name)
      return no("a DT_RPATH leads to " + library.path + ", before the simulated one",
                "link it with -Wl,--enable-new-dtags, or remove the path with chrpath -d");
  return std::nullopt;
}

// What the checker is asked, as its own words say (tests/sim/check).
std::vector<std::string> questions(const Parts& parts) {
  std::vector<std::string> words;
  std::set<std::string> calls;
  for (const Part& part : parts.parts) {
    for (const ElfSection& section : part.code_sections) {
      if (section.size > kMostCode) continue;
      words.insert(words.end(), {section.name == kRelocatableCode ? "parts" : "code", part.path,
                                 std::to_string(section.offset), std::to_string(section.size)});
    }
    calls.insert(part.calls.begin(), part.calls.end());
  }
  for (const std::string& name : calls) words.insert(words.end(), {"call", name});
  return words;
}

std::vector<Obstacle> look_through(const Parts& parts, const std::string& simulation,
                                   const Environment& environment) {
  std::vector<std::string> words = questions(parts);
  if (words.empty()) return {};
  const std::string checker = simulation + "/gpufence-sim-check";
  words.insert(words.begin(), checker);
  Environment its = environment;
  its.unset("LD_PRELOAD");
  its.set("GPUFENCE", "off");
  // No answer is no obstacle: the simulated libraries say the same again when it comes to it.
  const auto answer = answer_of(checker, std::move(words), std::move(its), kPatience);
  const auto list = nlohmann::json::parse(answer.value_or(""), nullptr, false);
  std::vector<Obstacle> obstacles;
  if (!list.is_array()) return obstacles;
  for (const auto& one : list) {
    Obstacle obstacle{one.value("what", ""), one.value("name", ""), "", one.value("why", ""),
                      one.value("remedy", "")};
    for (const Part& part : parts.parts)
      if (part.path == one.value("file", "")) obstacle.part = part.name;
    obstacles.push_back(std::move(obstacle));
  }
  return obstacles;
}

}  // namespace

Simulability simulability(const Parts& parts, const std::string& simulation, const Environment& environment) {
  if (simulation.empty())
    return {false, "the simulated driver isn't installed beside gpufence", "install gpufence again", {}};
  if (auto why = impossible(parts, simulation)) return *std::move(why);
  return {true, {}, {}, look_through(parts, simulation, environment)};
}

std::string describe(const Obstacle& obstacle) {
  const std::string whose = is_another(obstacle.part) ? obstacle.part + ": " : std::string{};
  return whose + (obstacle.what == "kernel" ? "kernel " + obstacle.name + ": " + obstacle.why : obstacle.why);
}

}  // namespace gpufence::command
