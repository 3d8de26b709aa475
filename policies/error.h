// What went wrong, as a value. Everything here that can fail answers with one of these; who prints it decides
// where. A person reads it as one line, `what: why; remedy`, so none of the three holds a line break.
#pragma once

#include <string>

namespace gpufence::policies {

struct Error {
  std::string what;    // the option, variable or value at fault, as the user wrote it
  std::string why;     // what is wrong with it, and what there is instead
  std::string remedy;  // what to do

  [[nodiscard]] std::string text() const {
    return what + ": " + why + (remedy.empty() ? std::string{} : "; " + remedy);
  }
};

}  // namespace gpufence::policies
