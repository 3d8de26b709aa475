// Writing into the host's descriptors without becoming the host's fault. A closed pipe would raise SIGPIPE, a
// full one that nobody drains would block for ever; both lose our text and leave the program alone.
#pragma once

#include <string_view>

namespace gpufence::journal {

// Writes all of it, in pieces that a pipe takes whole. False if any of it was lost (errno tells why).
bool write_quietly(int descriptor, std::string_view text) noexcept;

}  // namespace gpufence::journal
