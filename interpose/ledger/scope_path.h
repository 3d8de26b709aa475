// Where the books of a scope lie, so that all its processes come to one file, and nobody else's to it.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace gpufence::ledger {

// `asked` (GPUFENCE_LEDGER_DIR) if it is an absolute path; else /run/gpufence if that can be written to, else
// /dev/shm.
[[nodiscard]] std::string ledger_directory(const std::optional<std::string>& asked);

// This process's user as the host knows it: a user namespace renames users, and a scope reaches across it.
// The user of the namespace where the map can't be read.
[[nodiscard]] uid_t host_user();
// `map`: the text of /proc/PID/uid_map.
[[nodiscard]] uid_t host_user(std::string_view map, uid_t inside);

// This process's PID namespace, as Holder::pid_namespace; 0: not to be told.
[[nodiscard]] std::uint64_t pid_namespace();

// The PID namespace if it is not the host's: what a container is known by. 0: the host's, or not to be told.
[[nodiscard]] std::uint64_t container();

// "DIRECTORY/gpufence-USER-KIND-NAME"; whatever can't stand in a file's name, and what is too long, as a
// number made of it. A group's file has no user: "DIRECTORY/gpufence-group-NAME".
[[nodiscard]] std::string scope_path(const std::string& directory, std::string_view kind, uid_t user,
                                     std::string_view name);
inline constexpr std::string_view kRunKind = "run";
inline constexpr std::string_view kGroupKind = "group";

// Removes files of this user's runs in which nobody lives any more; looks at `most` of them.
void sweep_runs(const std::string& directory, uid_t user, std::size_t most) noexcept;

}  // namespace gpufence::ledger
