// Package terminal tells what stands between the program and a person.
package terminal

import "os"

// Is reports whether a file is the terminal of this program. A null device is none.
func Is(file *os.File) bool { return isTerminal(file) }
