// Child processes of the tests: this test binary, started again to do one thing.

package persist

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"testing"
)

const sqliteChildEnv = "RATELIMIT_SQLITE_CHILD"

func sqliteChildEnviron(what string) []string {
	return append(os.Environ(), sqliteChildEnv+"="+what, "GORACE=atexit_sleep_ms=0")
}

// sqliteChild starts this test binary as another process that runs one of
// sqliteChildren.
func sqliteChild(t *testing.T, what string, args ...string) (*exec.Cmd, io.WriteCloser, *bufio.Scanner) {
	t.Helper()
	cmd := exec.Command(os.Args[0], append([]string{"-test.run=^TestSQLiteChild$", "-test.v=false", "--"}, args...)...)
	cmd.Env = sqliteChildEnviron(what)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	return cmd, in, bufio.NewScanner(out)
}

// sqliteChildren are what a child process can do. Files of tests add theirs.
var sqliteChildren = map[string]func(in io.Reader, args []string) error{}

// TestSQLiteChild is no test: it is what the child processes do.
func TestSQLiteChild(t *testing.T) {
	what := os.Getenv(sqliteChildEnv)
	if what == "" {
		t.Skip("only in child processes")
	}
	args := os.Args[slices.Index(os.Args, "--")+1:]
	if err := sqliteChildren[what](os.Stdin, args); err != nil {
		fmt.Println("error:", err)
	}
	os.Exit(0)
}
