//go:build !(linux || darwin || windows)

package ratelimit

// checkLocalFileSystem checks nothing here.
func checkLocalFileSystem(string) error { return nil }
