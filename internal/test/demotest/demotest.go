// Package demotest runs the programs under examples/ as a stranger does: built, on a machine that
// has none of their folders, and ended in each way that a shell has. Only their tests import it.
package demotest

import (
	"context"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// patience bounds how long a program takes to start, or to end, on a busy machine.
const patience = 2 * time.Minute

// Fresh builds the program in the current folder, starts it with args on a fresh machine once for
// each way to end it, and fails the test unless it starts and leaves no temporary file behind.
// keeps is the flag that names where the program keeps its state: it must start there, too, in a
// folder that does not exist. Without the flag the state is in the user's cache folder. An empty
// keeps is for a program that keeps nothing, anywhere.
func Fresh(t *testing.T, keeps string, args ...string) {
	t.Helper()
	switch {
	case testing.Short():
		t.Skip("builds a program")
	case runtime.GOOS == "windows":
		t.Skip("no signals")
	}
	program := filepath.Join(t.TempDir(), "program")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	for _, end := range []struct {
		name    string
		signals []os.Signal // none: nobody reads the output any more, as after | head
	}{
		{"Ctrl-C", []os.Signal{os.Interrupt}},
		{"SIGTERM", []os.Signal{syscall.SIGTERM}},
		{"the terminal closes", []os.Signal{syscall.SIGHUP}},
		{"timeout", []os.Signal{syscall.SIGTERM, syscall.SIGTERM}}, // to the program, and to its group
		{"head", nil},
	} {
		t.Run(end.name, func(t *testing.T) {
			if slices.ContainsFunc(end.signals, signal.Ignored) {
				t.Skip("the signal is ignored here, and so by what is started, as under nohup")
			}
			t.Parallel()
			run(t, program, args, end.signals, keeps != "")
		})
	}
	if keeps != "" {
		t.Run(keeps, func(t *testing.T) {
			t.Parallel()
			state := filepath.Join(t.TempDir(), "new", "folder", "state")
			run(t, program, slices.Concat(args, []string{keeps, state}), []os.Signal{syscall.SIGTERM}, false)
		})
	}
}

// run starts the program, ends it once it shows something, and looks for what it has left.
func run(t *testing.T, program string, args []string, signals []os.Signal, caches bool) {
	home, temp := t.TempDir(), t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	command := exec.CommandContext(ctx, program, args...)
	command.Env = append(slices.DeleteFunc(os.Environ(), func(variable string) bool {
		return strings.HasPrefix(variable, "XDG_")
	}), "HOME="+home, "TMPDIR="+temp)
	var said strings.Builder
	command.Stderr = &said
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatalf("no output: %v, %v\n%s", err, command.Wait(), &said)
	}
	for _, s := range signals {
		command.Process.Signal(s) // an error: it has ended by itself
	}
	if signals == nil {
		out.Close()
	} else {
		io.Copy(io.Discard, out)
	}
	if command.Wait(); command.ProcessState.ExitCode() < 0 {
		t.Errorf("%v, in place of an end of its own\n%s", command.ProcessState, &said)
	}
	folders := []string{temp}
	if !caches {
		folders = append(folders, home)
	}
	for _, folder := range folders {
		left, err := os.ReadDir(folder)
		if err != nil || len(left) > 0 {
			t.Errorf("left behind: %v, %v\n%s", left, err, &said)
		}
	}
}
