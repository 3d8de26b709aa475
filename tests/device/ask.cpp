#include "ask.h"

#include <map>

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "", argument = argc > 2 ? argv[2] : "";
  const std::map<std::string, void (*)()> questions = {{"addresses", ask::addresses},
                                                       {"array_sizes", ask::array_sizes},
                                                       {"capture_reads", ask::capture_reads},
                                                       {"managed", ask::managed},
                                                       {"graph_memory", ask::graph_memory},
                                                       {"mask_time", ask::mask_time},
                                                       {"pools", ask::pools},
                                                       {"residue", ask::residue}};
  if (what == "mask_shows") {
    ask::mask_shows(argument);
  } else if (const auto found = questions.find(what); found != questions.end()) {
    found->second();
  } else {
    fprintf(stderr, "usage: ask QUESTION [ARGUMENT]\n");
    return 2;
  }
  // The driver's exit handlers are no part of a question.
  fflush(nullptr);
  _Exit(0);
}
