// What the command says about itself.
#include <cuda.h>

#include "tools/gpufence/place.h"
#include "tools/gpufence/run_options.h"
#include "tools/gpufence/subcommands.h"

namespace gpufence::command {

std::string version_text() {
  const auto gate = find_gate(own_directory());
  return "gpufence " GPUFENCE_VERSION "\nlibrary " + (gate ? *gate : gate.error().error.text()) +
         "\nCUDA 11.8 to " + std::to_string(CUDA_VERSION / 1000) + '.' +
         std::to_string(CUDA_VERSION % 1000 / 10) + '\n';
}

std::string all_help() {
  return run_help() + '\n' + status_help() + '\n' + last_help() + '\n' + explain_help() + '\n' +
         devices_help() + '\n' + inspect_help() + '\n' + hooks_help();
}

}  // namespace gpufence::command
