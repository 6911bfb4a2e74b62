// Package sqlitelog is a sharedlog.Log in a SQLite database that the processes of one
// machine share. It adds tables to the database of internal/sqlitestate. The limiter's
// package opens it.
//
// A step of all processes is a fair lock on a file beside the database, because SQLite itself
// lets those wait longest that have waited longest, and a transaction. A watermark in the
// lock file tells without SQLite whether there is anything new. Each process keeps a life
// file locked, by which the others see at once that it died.
//
// With the build tag nosqlite the package is a stub without SQLite: nothing can be opened.
package sqlitelog
