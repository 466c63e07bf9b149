/*
 * schema.h - the ledger's file: how it comes to be, what is refused, how an older one is brought up.
 */
#ifndef LEDGER_SCHEMA_H
#define LEDGER_SCHEMA_H

#include <sqlite3.h>

#define SCHEMA_APPLICATION_ID 0x52534c47 /* "RSLG", at offset 68 of the file */

/* What is wrong, for people. */
struct schema_error {
	char *message;
	unsigned size;
};

/* Makes path, whole and durable, where there is none, and looks at the first bytes of what is there. It writes to
 * nothing that exists. -EUCLEAN: not a ledger; -errno. */
int schema_prepare(const char *path, const struct schema_error *e);

/* Checks what a connection shows, then turns WAL on and migrates. Nothing is written before every check has passed. */
int schema_bring_up(sqlite3 *db, const char *path, const struct schema_error *e);

/* What every connection needs: not stored in the file. */
int schema_configure(sqlite3 *db);

#endif
