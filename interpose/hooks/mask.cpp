// See mask.h.
#include "hooks/mask.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "observe/process.h"
#include "policies/mask.h"

namespace gpufence::hooks {
namespace {

// Without copies: this is asked at calls of the program.
bool reads_as(const char* name, const std::optional<std::string>& before) noexcept {
  char** entry = find_entry(name);
  if (entry == nullptr) return !before;
  return before && *before == *entry + std::strlen(name) + 1;
}

std::string quoted(const std::optional<std::string>& value) {
  return value ? '"' + *value + '"' : std::string("unset");
}

void say_changed(const char* name, const std::optional<std::string>& before,
                 const observe::Call& call) noexcept {
  explain({.code = "GF102", .call = call, .once = std::string(name) + "=" + quoted(read_variable(name))},
          [&](const Visible& seen) {
            return std::string(name) + " changed (" + quoted(before) + " → " + quoted(read_variable(name)) +
                   ") at " + observe::age_text(observe::process_age_ns()) + ", after " +
                   started_text(seen.started) + ": the driver ignores it";
          });
}

std::vector<std::string> entries_of(const std::string& mask) {
  std::vector<std::string> entries;
  for (std::size_t from = 0; from <= mask.size();) {
    const std::size_t comma = std::min(mask.find(',', from), mask.size());
    std::string entry = mask.substr(from, comma - from);
    entry.erase(0, entry.find_first_not_of(' '));
    entry.erase(entry.find_last_not_of(' ') + 1);
    if (!entry.empty() && entry != "-1") entries.push_back(entry);
    from = comma + 1;
  }
  return entries;
}

// Its GPUs in order, so that a number and a UUID of one GPU compare equal; as written where the machine is
// not known.
std::vector<std::string> gpus_of(const std::string& mask, const Rules& to) {
  if (to.host_gpus.empty()) return entries_of(mask);
  std::vector<std::string> gpus;
  for (const std::size_t index : policies::read_mask(mask, to.host_gpus).gpus)
    gpus.push_back(to.host_gpus[index]);
  return gpus;
}

}  // namespace

char** find_entry(const char* name) noexcept {
  const std::size_t length = std::strlen(name);
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    if (std::strncmp(*entry, name, length) == 0 && (*entry)[length] == '=') return entry;
  }
  return nullptr;
}

std::optional<std::string> read_variable(const char* name) {
  char** entry = find_entry(name);
  if (entry == nullptr) return std::nullopt;
  return std::string(*entry + std::strlen(name) + 1);
}

void check_mask(const char* api, const void* caller) noexcept {
  const Visible* seen = visible();
  if (seen == nullptr || (rules().needs & dispatch::kFindings) == 0) return;
  for (const auto& [name, before] :
       {std::pair{kMask, &seen->started.mask}, std::pair{kOrder, &seen->started.order}}) {
    if (!reads_as(name, *before)) say_changed(name, *before, observe::current(api, caller));
  }
}

void check_mask_at_exit() noexcept {
  const Visible* seen = visible();
  rusage children{};
  if (seen == nullptr || getrusage(RUSAGE_CHILDREN, &children) != 0 || children.ru_maxrss != 0) return;
  if (rules().journal->counts().contains("GF102")) return;  // a call came upon it
  check_mask("", nullptr);
}

void compare_with_parent(const Visible& seen, const Rules& to) noexcept {
  try {
    const observe::InitialEnvironment& mine = observe::own_initial_environment();
    const std::optional<std::string> mask = mine.get(kMask);
    if (!mask) return;
    const observe::InitialEnvironment parent(std::to_string(getppid()));
    const std::optional<std::string> above = parent.get(kMask);
    if (!above || *mask == *above) return;
    // Of another run, or given by a launcher: a mask of its own right.
    if (mine.get("GPUFENCE_RUN") != parent.get("GPUFENCE_RUN") ||
        mine.get("GPUFENCE_MASK") != parent.get("GPUFENCE_MASK"))
      return;
    if (mine.get(kOrder) != parent.get(kOrder)) return;  // numbers of two orders: said as GF104, if at all
    const std::vector<std::string> inner = gpus_of(*mask, to), outer = gpus_of(*above, to);
    std::size_t last = 0;
    bool leaves = false, reorders = false;
    for (const std::string& gpu : inner) {
      const auto at = static_cast<std::size_t>(std::find(outer.begin(), outer.end(), gpu) - outer.begin());
      leaves = leaves || at == outer.size();
      reorders = reorders || at < last;
      last = at;
    }
    if (!leaves && !reorders) return;
    std::string message = std::string(kMask) + "=\"" + *mask + "\" " + (leaves ? "leaves" : "reorders") +
                          " that of the parent, \"" + *above + "\" (pid " + std::to_string(getppid()) + ")";
    if (leaves) message += ": its numbers are the machine's GPUs, not positions in the parent's list";
    message += "; here " + observe::list_text(seen.devices);
    say_of({.code = "GF106", .message = message}, seen.started.call);
  } catch (...) {
  }
}

}  // namespace gpufence::hooks
