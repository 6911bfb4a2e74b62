//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package ratelimit

import (
	"io/fs"
	"os"
	"time"
)

func lockTemp(*os.File) {}

// abandoned reports whether nobody writes the temporary file any more. Without
// locks only its age tells.
func abandoned(_ string, info fs.FileInfo) bool {
	return time.Since(info.ModTime()) > time.Hour
}
