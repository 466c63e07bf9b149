/* lease.h - the check that stands inside every write. */
#ifndef LEDGER_LEASE_H
#define LEDGER_LEASE_H

#include <sqlite3.h>
#include <stdint.h>

/* 0: epoch is the lease's; -ESTALE: it is not. Sees what the transaction that it is called in sees. */
int lease_check(sqlite3 *db, uint64_t epoch);

#endif
