//go:build !nosqlite && unix

// Shared: processes on one file, of which some are killed.

package ratelimit_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
)

// sharedChildEnv is the file on which a child process of a test opens a limiter.
const sharedChildEnv = "RATELIMIT_TEST_SHARED"

var sharedQuota = ratelimit.ModelQuota{MaxRPM: 300, MaxInFlight: 4}

// sharedConfig has a lease that no test waits for: what is free sooner was seen to be.
func sharedConfig() ratelimit.Config {
	return ratelimit.Config{Shared: true, LeaseTTL: time.Hour, Quotas: map[string]ratelimit.ModelQuota{"m": sharedQuota}}
}

// openFile opens a limiter on a file, which the test closes.
func openFile(t *testing.T, path string, cfg ratelimit.Config) *ratelimit.RateLimiter {
	t.Helper()
	cfg.Shared = true
	rl, err := ratelimit.NewWithSQLiteConfig(path, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := rl.Close(); err != nil {
			t.Error(err)
		}
	})
	return rl
}

// TestSharedChild is the other process: it obeys a line at a time.
func TestSharedChild(t *testing.T) {
	path := os.Getenv(sharedChildEnv)
	if path == "" {
		t.Skip("for other tests")
	}
	rl, err := ratelimit.NewWithSQLiteConfig(path, sharedConfig())
	if err != nil {
		t.Fatal(err)
	}
	var held []*ratelimit.Reservation // which the garbage collector must not find
	defer func() { runtime.KeepAlive(held) }()
	fmt.Println("> ready")
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		switch in.Text() {
		case "reserve":
			r, d := rl.Reserve("m", 1, 0)
			held = append(held, r)
			fmt.Println(">", d.Code)
		case "wait":
			go rl.Acquire(context.Background(), "m", 1, 0)
			for rl.Stats("m").Waiting == 0 {
				time.Sleep(time.Millisecond)
			}
			fmt.Println("> waits")
		case "hammer": // until it is killed
			for {
				if r, d := rl.Reserve("hammered", 1, 0); d.Allowed {
					fmt.Println("> admitted")
					r.Commit(1, 0)
				}
			}
		case "close":
			fmt.Println(">", rl.Close())
		}
	}
}

type sharedChild struct {
	*testing.T
	cmd *exec.Cmd
	in  *os.File
	out *bufio.Scanner
}

func startChild(t *testing.T, path string) *sharedChild {
	t.Helper()
	c := &sharedChild{T: t, cmd: exec.Command(os.Args[0], "-test.run=^TestSharedChild$", "-test.count=1")}
	c.cmd.Env = append(os.Environ(), sharedChildEnv+"="+path)
	c.cmd.Stderr = os.Stderr
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	c.cmd.Stdin, c.in = in, out
	said, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.out = bufio.NewScanner(said)
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	in.Close()
	t.Cleanup(c.kill)
	c.expect("ready")
	return c
}

func (c *sharedChild) kill() {
	c.cmd.Process.Kill()
	c.cmd.Wait()
	c.in.Close()
}

// expect reads the next answer.
func (c *sharedChild) expect(want string) {
	c.Helper()
	for c.out.Scan() {
		if line, is := strings.CutPrefix(c.out.Text(), "> "); is {
			if line != want {
				c.Fatalf("a process said %q, want %q", line, want)
			}
			return
		}
	}
	c.Fatalf("a process ended, and should have said %q", want)
}

func (c *sharedChild) ask(line, want string) {
	c.Helper()
	if _, err := fmt.Fprintln(c.in, line); err != nil {
		c.Fatal(err)
	}
	c.expect(want)
}

// The slots and the places in line of a process that is killed are free without its lease; its
// charges stay. How soon that is, internal/replica tests.
func TestSharedKilledProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "quota.db")
	rl := openFile(t, path, sharedConfig())
	for round := range 3 {
		holds := startChild(t, path)
		for range sharedQuota.MaxInFlight {
			holds.ask("reserve", "ok")
		}
		holds.ask("reserve", "in_flight_exceeded")
		waits := startChild(t, path)
		waits.ask("wait", "waits")
		served := make(chan error)
		go func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			r, err := rl.Acquire(ctx, "m", 1, 0)
			r.Commit(1, 0)
			served <- err
		}()
		for rl.Stats("m").Waiting < 2 {
			time.Sleep(time.Millisecond)
		}
		waits.kill()
		holds.kill()
		if err := <-served; err != nil {
			t.Fatalf("round %d: a waiter is not served after the death: %v", round, err)
		}
		until := time.Now().Add(time.Minute)
		for rl.Stats("m").InFlight+rl.Stats("m").Waiting > 0 && time.Now().Before(until) {
			time.Sleep(time.Millisecond)
		}
		if s := rl.Stats("m"); s.InFlight != 0 || s.Waiting != 0 || s.RPM < (round+1)*(sharedQuota.MaxInFlight+1) {
			t.Errorf("round %d: %+v", round, s)
		}
	}
}

// Whatever a process was told is admitted is in the file when it is killed, at any instant.
func TestSharedKeepsWhatWasAdmitted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "quota.db")
	rl := openFile(t, path, sharedConfig())
	admitted, processes := 0, 0
	for i := range times(4, 2, 40) {
		c := startChild(t, path)
		processes++
		if _, err := fmt.Fprintln(c.in, "hammer"); err != nil {
			t.Fatal(err)
		}
		for range 20 + 7*i {
			c.expect("admitted")
			admitted++
		}
		c.cmd.Process.Kill()
		for c.out.Scan() {
			admitted += strings.Count(c.out.Text(), "> admitted")
		}
		c.cmd.Wait()
	}
	if err := rl.Persist(); err != nil {
		t.Error(err)
	}
	if n := rl.Stats("hammered").RPD; n < admitted || n > admitted+processes {
		t.Errorf("the file has %d calls, %d were admitted to %d processes", n, admitted, processes)
	}
}

// A process that is stopped keeps its slots, and keeps nobody in line waiting; when it goes on, it
// knows what the others have done.
func TestSharedStoppedProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "quota.db")
	rl := openFile(t, path, sharedConfig())
	c := startChild(t, path)
	for range sharedQuota.MaxInFlight - 1 {
		c.ask("reserve", "ok")
	}
	c.cmd.Process.Signal(syscall.SIGSTOP)
	held := reserve(t, rl, "m", 1, 0)
	time.Sleep(time.Second)
	if _, d := rl.Reserve("m", 1, 0); d.Code != ratelimit.DecisionInFlightLimit {
		t.Errorf("%+v", d)
	}
	c.cmd.Process.Signal(syscall.SIGCONT)
	c.ask("reserve", "in_flight_exceeded")
	held.Commit(1, 0)
	c.ask("reserve", "ok")
	c.ask("close", "<nil>")
	if s := rl.Stats("m"); s.InFlight != 0 {
		t.Errorf("closed, it holds %d slots", s.InFlight)
	}
}

// A damaged file is put aside, and the minute counts as used up: nobody knows what was used. With
// FreshStart it begins unused.
func TestSharedDamagedFile(t *testing.T) {
	for _, fresh := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "quota.db")
			if err := os.WriteFile(path, []byte(strings.Repeat("no database ", 1000)), 0o600); err != nil {
				t.Fatal(err)
			}
			cfg := sharedConfig()
			cfg.FreshStart, cfg.LeaseTTL = fresh, 10*time.Second
			rl := openFile(t, path, cfg)
			d := rl.Decide("m", 1)
			if d.Allowed != fresh || !fresh && (!strings.Contains(d.Reason, "kept for processes") || d.RetryAfter < 50*time.Second || d.RetryAfter > 75*time.Second) {
				t.Errorf("fresh start %t: %+v", fresh, d)
			}
			if _, d := rl.Reserve("m", 1, 0); d.Allowed != fresh {
				t.Errorf("fresh start %t: %+v", fresh, d)
			}
			if aside, _ := filepath.Glob(path + ".corrupt-*"); len(aside) != 1 {
				t.Errorf("fresh start %t: put aside: %v", fresh, aside)
			}
		})
	}
}

// Who closes a limiter again waits for nothing.
func TestSharedClosedAgain(t *testing.T) {
	needSQLite(t)
	synctest.Test(t, func(t *testing.T) {
		rl := openFile(t, filepath.Join(t.TempDir(), "quota.db"), sharedConfig())
		for range 2 {
			began := time.Now()
			if err := rl.Close(); err != nil || time.Since(began) > sharedHandOver {
				t.Errorf("closed in %v: %v", time.Since(began), err)
			}
		}
	})
}

// What cannot be opened says why, and names the file.
func TestSharedCannotOpen(t *testing.T) {
	dir := t.TempDir()
	cfg := sharedConfig()
	for name, path := range map[string]string{
		"a folder":           dir,
		"a file as a folder": filepath.Join(write(t, filepath.Join(dir, "file"), "x"), "quota.db"),
	} {
		if _, err := ratelimit.NewWithSQLiteConfig(path, cfg); err == nil || !strings.Contains(err.Error(), path) || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: %v", name, err)
		}
	}
	cfg.Backend, cfg.FilePath = "yaml", filepath.Join(dir, "state.yaml")
	if _, err := ratelimit.NewWithConfig(cfg); err == nil || !strings.Contains(err.Error(), "Shared") {
		t.Errorf("YAML: %v", err)
	}
}

func write(t *testing.T, path, text string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// All is there again after the last process has ended.
func TestSharedComesBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "quota.db")
	c := startChild(t, path)
	for range 3 {
		c.ask("reserve", "ok")
	}
	c.kill()
	rl := openFile(t, path, ratelimit.Config{})
	if s := rl.Stats("m"); s.RPM != 3 || s.RPD != 3 || s.MaxRPM != 300 {
		t.Errorf("%+v", s)
	}
	until := time.Now().Add(10 * time.Second)
	for rl.Stats("m").InFlight > 0 && time.Now().Before(until) {
		time.Sleep(10 * time.Millisecond)
	}
	for range sharedQuota.MaxInFlight {
		reserve(t, rl, "m", 1, 0)
	}
}
