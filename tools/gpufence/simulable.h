// What the simulated machine will not run of a program, told before the program starts, and what works
// instead (GF601). Two looks: at what the files are (a runtime of NVIDIA's own, machine code alone), and, by
// a program that lies beside the simulated libraries and is built of the same parts, at every kernel and
// every imported call.
#pragma once

#include <string>
#include <vector>

#include "tools/gpufence/environment.h"
#include "tools/gpufence/parts.h"

namespace gpufence::command {

// Something that will not run; the rest of the program does.
struct Obstacle {
  std::string what;  // "kernel", "code" or "call"
  std::string name;  // of the kernel, as it is written in C++, or of the call
  std::string part;  // Part::name of the file that has it; empty for calls
  std::string why;
  std::string remedy;
};

struct Simulability {
  bool possible = true;
  std::string why;     // why it is not possible at all; or empty
  std::string remedy;  // what to do then
  std::vector<Obstacle> obstacles;
};

// `simulation`: the directory of the simulated libraries. The machine is the one of GPUFENCE_SIM in
// `environment`, else one GPU of --sim 1.
[[nodiscard]] Simulability simulability(const Parts& parts, const std::string& simulation,
                                        const Environment& environment);

// "libfoo.so: kernel scale(float*, int): unsupported instruction …", without the remedy.
[[nodiscard]] std::string describe(const Obstacle& obstacle);

}  // namespace gpufence::command
