// User objects: what a program ties to the lifetime of graphs, by counted references ("CUDA User Objects",
// CUDA C++ programming guide).
#pragma once
#include "graph.h"

namespace gpufence::sim {

// Copies the references that a graph holds, for its clone or an executable graph. With the graphs' lock held.
void retain_all(const UserReferences& from, UserReferences& to);

}  // namespace gpufence::sim
