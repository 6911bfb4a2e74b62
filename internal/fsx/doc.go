// Package fsx holds what the limiter's stores ask of a file system beyond package os:
// a fair lock between processes, a lock that shows that its owner lives, the atomic
// replacement of a file, its temporary files, and whether a folder is on a local disk.
//
// The YAML backend replaces its file through it. The SQLite backends resolve their paths with it.
// Its locks order the writers of the shared database, and show which of the processes live.
package fsx
