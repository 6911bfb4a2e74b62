//go:build !linux && !darwin && !windows

package terminal

import "os"

func isTerminal(file *os.File) bool {
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && file.Name() != os.DevNull
}

// InForeground is false where nothing tells: signals are passed on then.
func InForeground() bool { return false }
