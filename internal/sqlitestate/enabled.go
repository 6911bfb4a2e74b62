//go:build !nosqlite

package sqlitestate

// Enabled reports whether the program was built with SQLite.
const Enabled = true
