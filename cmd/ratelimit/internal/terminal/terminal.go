// Package terminal tells what stands between the program and a person.
package terminal

import (
	"io"
	"os"
)

// Is reports whether a file is the terminal of this program. A null device is none.
func Is(file *os.File) bool { return isTerminal(file) }

// Shows reports whether what is written there is seen on a terminal.
func Shows(to io.Writer) bool {
	file, is := to.(*os.File)
	return is && Is(file)
}
