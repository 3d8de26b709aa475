// The options of `gpufence run`, as values. What they mean is plan.h's business.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include <tl/expected.hpp>

#include "policies/error.h"

namespace gpufence::command {

struct RunOptions {
  std::optional<std::string> devices;
  std::optional<std::string> numbering;  // "host" or "view"
  std::string order = "keep";            // "keep", "pci" or "fastest"
  bool ignore_mask = false;
  std::optional<std::string> remap;  // "1=0,…" or "wrap"
  std::optional<std::string> gpu_mem;
  std::optional<std::string> gpu_mem_per_process;
  bool report = false;
  std::optional<std::string> report_file;
  std::optional<std::string> log;
  std::optional<std::string> log_format;  // "text" or "json"
  std::optional<std::string> ignore;      // GFxxx,…
  std::optional<std::string> diagnose;    // "off", "default" or "all"
  std::optional<std::string> backtrace;   // frames, "1" to "64"
  std::optional<std::string> color;       // "auto", "always" or "never"
  std::optional<std::string> loudness;    // what GPUFENCE_STDERR becomes: "error" or "info"
  std::optional<std::string> fail_on;     // "info", "warning", "error" or a code
  bool dry_run = false;
  std::optional<std::string> sim;
  std::optional<std::string> name;
  std::vector<std::string> env;  // K=V
  bool help = false;
  bool help_all = false;
  bool version = false;
  std::vector<std::string> program;  // empty only with one of the three before it
};

[[nodiscard]] tl::expected<RunOptions, policies::Error> read_run_options(std::span<const std::string> words);

[[nodiscard]] std::string run_help();

}  // namespace gpufence::command
