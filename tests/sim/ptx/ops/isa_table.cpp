// The handlers of one instruction set, as isa.cpp picks them up.
#include "isa.h"

#ifndef GPUFENCE_PTX_ISA
#error "compiled with the name of an instruction set"
#endif

namespace gpufence::sim::ptx::GPUFENCE_PTX_ISA {

Handler integer_handler(const Key& key);
Handler floating_handler(const Key& key);
Handler half_handler(const Key& key);
Handler compare_handler(const Key& key);
Handler convert_handler(const Key& key);
Handler memory_handler(const Key& key);

extern const Isa table;
const Isa table = {integer_handler, floating_handler, half_handler,
                   compare_handler, convert_handler,  memory_handler};

}  // namespace gpufence::sim::ptx::GPUFENCE_PTX_ISA
