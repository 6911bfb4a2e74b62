// Package sqlitelog is a store.Store in a SQLite database that the processes of one machine share.
//
// All that writes holds a fair lock on a file beside the database, because SQLite itself lets those
// wait longest that have waited longest. A mark in the lock file tells without SQLite whether there
// is anything new. Each process keeps a life file locked, by which the others see at once that it
// died.
//
// A batch is one row, and each entry's sum covers all entries before it: what was changed in the
// file, or got lost there, is noticed. A file that is damaged or gone is set aside or made anew, as
// an empty store that had a log: the limiters that know its content begin another one.
//
// With the build tag nosqlite the package is a stub: nothing can be opened.
package sqlitelog
