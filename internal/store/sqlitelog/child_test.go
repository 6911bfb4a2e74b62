//go:build !nosqlite

package sqlitelog

const childEnv = "SQLITELOG_CHILD"

func child() {}
