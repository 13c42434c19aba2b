// ir/users.h: the order in which an instruction has its users.
#ifndef HILO_IR_USERS_H
#define HILO_IR_USERS_H

#include "hilo/ir.h"

// `users` are all that use an instruction, each once: its uses stand in their order afterwards, those of one user by operand.
// Nothing else of the graph changes.
void ir_order_users(HlInst *of, int n, HlInst *const *users);

#endif
