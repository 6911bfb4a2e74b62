// Package formertest builds programs on an earlier commit of this repository, so that tests can
// have them use a store beside this version. Only tests import it.
package formertest

import (
	"archive/tar"
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The last commits of each format of shared stores.
const (
	BeforeFound = "c9925d996b1991b8aebb540897cd81fa59fc0907" // of limits that are found
	BeforePools = "07cb31022b5ced6dfd1aaeceee55f406bf7198e0" // of pools, classes and money
	BeforeOrder = "f0b3dcc1b1a5fbcbf9ab1bdb92716ae13404bb9c" // of logs that order commands
)

// Build builds a program of one file in a folder of the tree of a commit, and returns its path. It
// skips the test where there is no git, or no history.
func Build(t testing.TB, commit, folder, source string) (program string) {
	t.Helper()
	if testing.Short() {
		t.Skip("builds a program")
	}
	tree := t.TempDir()
	if err := extract(tree, archive(t, commit)); err != nil {
		t.Fatal(err)
	}
	main := filepath.Join(tree, folder, "former", "main.go")
	if err := os.MkdirAll(filepath.Dir(main), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(main, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	program = filepath.Join(tree, "former.exe")
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-o", program, "./former")
	build.Dir = filepath.Join(tree, folder)
	build.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build of %s: %v\n%s", commit, err, out)
	}
	return program
}

// archive returns the tree of a commit.
func archive(t testing.TB, commit string) []byte {
	t.Helper()
	top, err := exec.CommandContext(t.Context(), "git", "rev-parse", "--show-toplevel").Output()
	if err != nil {
		t.Skipf("no git: %v", err)
	}
	dir := strings.TrimSpace(string(top))
	if err := exec.CommandContext(t.Context(), "git", "-C", dir, "cat-file", "-e", commit+"^{commit}").Run(); err != nil {
		t.Skipf("no history: %v", err)
	}
	tree, err := exec.CommandContext(t.Context(), "git", "-C", dir, "archive", "--format=tar", commit).Output()
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

func extract(dir string, archive []byte) error {
	for r := tar.NewReader(bytes.NewReader(archive)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if h.Typeflag != tar.TypeReg {
			continue
		}
		path := filepath.Join(dir, filepath.FromSlash(h.Name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
		text, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		if err := os.WriteFile(path, text, 0o600); err != nil {
			return err
		}
	}
}

// Reply is what a program says of one order.
type Reply struct {
	Allowed bool
	Error   string // of the store; "" for none
	Corrupt bool   // the error wraps ErrCorruptState
}

// Process is a program that was started. It belongs to one goroutine.
type Process struct {
	t   testing.TB
	in  io.WriteCloser
	out *bufio.Scanner
	cmd *exec.Cmd
}

// Start starts a program, and returns what it says first. The end of the test ends it.
func Start(t testing.TB, program string, args ...string) (*Process, Reply) {
	t.Helper()
	p := &Process{t: t, cmd: exec.CommandContext(t.Context(), program, args...)}
	p.cmd.Stderr = os.Stderr
	var err error
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.out = bufio.NewScanner(out)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.End)
	return p, p.reply()
}

// Do has the process do something, and returns what it says.
func (p *Process) Do(order string) Reply {
	p.t.Helper()
	if _, err := fmt.Fprintln(p.in, order); err != nil {
		p.t.Fatal(err)
	}
	return p.reply()
}

func (p *Process) reply() (r Reply) {
	p.t.Helper()
	safety := time.AfterFunc(time.Minute, func() { p.cmd.Process.Kill() })
	defer safety.Stop()
	if !p.out.Scan() {
		p.t.Fatalf("the program of before has ended: %v", p.out.Err())
	}
	if err := json.Unmarshal(p.out.Bytes(), &r); err != nil {
		p.t.Fatalf("%q: %v", p.out.Text(), err)
	}
	return r
}

// Kill ends the process in the midst of what it does.
func (p *Process) Kill() {
	p.cmd.Process.Kill()
	p.cmd.Wait()
}

// End ends the process. To end it again does nothing.
func (p *Process) End() {
	p.in.Close()
	p.cmd.Wait()
}
