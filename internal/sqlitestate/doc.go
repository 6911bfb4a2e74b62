// Package sqlitestate is the SQLite database of a limiter: quotas, charges, days and cooldowns. A
// DB is one limiter's connection to it, which writes only new entries and keeps those of other
// processes. An Unsaved knows which entries are new.
//
// The limiter's package uses it. internal/store/sqlitelog keeps a log that many processes share in
// a database of its own, and uses the parts: the schema, the statements, and the errors.
//
// With the build tag nosqlite the package is a stub without SQLite: nothing can be opened.
package sqlitestate
