// The description itself is read in one place only, the simulated machine; here it is no more than a word, or
// the path of a file.
#include "tools/gpufence/simulation.h"

#include <stdlib.h>
#include <unistd.h>

#include <filesystem>

#include "tools/gpufence/place.h"

namespace gpufence::command {

tl::expected<std::optional<Simulation>, policies::Error> open_simulation(
    const std::optional<std::string>& option, const Environment& environment) {
  using policies::Error;
  Simulation simulation;
  if (option) {
    simulation = {*option, {}, "--sim " + *option};
  } else if (const auto inherited = environment.get_nonempty("GPUFENCE_SIM")) {
    simulation = {*inherited, {}, "GPUFENCE_SIM " + *inherited};
  } else {
    return std::optional<Simulation>{};
  }
  std::string& spec = simulation.spec;
  if (spec.empty())
    return tl::unexpected(
        Error{"--sim", "describes no machine", "write 4, 4x80GiB, 8xh100 or the path of a machine file"});

  const std::string extension = ".toml";
  const bool file = spec.find('/') != std::string::npos ||
                    (spec.size() > extension.size() &&
                     spec.compare(spec.size() - extension.size(), extension.size(), extension) == 0);
  if (file) {
    std::error_code unknown;
    if (::access(spec.c_str(), R_OK) != 0 || !std::filesystem::is_regular_file(spec, unknown))
      return tl::unexpected(Error{simulation.name, "there is no such file that can be read",
                                  "write the path of a machine file"});
    // The program may change its directory before it calls CUDA.
    std::error_code failed;
    const auto absolute = std::filesystem::absolute(spec, failed);
    if (!failed) spec = absolute.lexically_normal().string();
  }

  const auto directory = find_simulation(own_directory());
  if (!directory)
    return tl::unexpected(Error{simulation.name, "the simulated driver isn't installed beside gpufence",
                                "install gpufence again"});
  if (directory->find_first_of(":;") != std::string::npos)
    return tl::unexpected(Error{
        simulation.name, "the simulated driver is at " + *directory + ", which LD_LIBRARY_PATH can't hold",
        "install gpufence elsewhere"});
  simulation.directory = *directory;
  ::setenv("GPUFENCE_SIM", spec.c_str(), 1);
  return simulation;
}

std::string library_path(const Simulation& simulation, const Environment& environment) {
  std::string path = simulation.directory;
  std::string inherited = environment.get("LD_LIBRARY_PATH").value_or("");
  while (!inherited.empty()) {
    // ld.so splits at semicolons as well. An empty entry is the current directory and stays one.
    const std::size_t end = std::min(inherited.find_first_of(":;"), inherited.size());
    const std::string entry = inherited.substr(0, end);
    if (entry != simulation.directory) path += ':' + entry;
    if (end + 1 == inherited.size()) path += ':';
    inherited.erase(0, end + 1);
  }
  return path;
}

}  // namespace gpufence::command
