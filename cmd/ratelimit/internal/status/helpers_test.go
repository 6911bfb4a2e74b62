package status_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/cmd/ratelimit/internal/status"
	"dappco.re/go/core/go-ratelimit/money"
)

// program is the built binary, and childEnv the file on which a child process opens a limiter.
var program string

const childEnv = "RATELIMIT_STATUS_CHILD"

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	if path := os.Getenv(childEnv); path != "" {
		child(path)
		return
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	folder, err := os.MkdirTemp("", "ratelimit-status-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(folder)
	program = filepath.Join(folder, "ratelimit.exe")
	build := exec.Command("go", "build", "-o", program, "dappco.re/go/core/go-ratelimit/cmd/ratelimit")
	build.Stderr = os.Stderr
	if err := build.Run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// child has two calls open until it is killed.
func child(path string) {
	rl, err := ratelimit.NewWithSQLiteConfig(path, config())
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	for range 2 {
		if r, d := rl.Reserve("gpt-4o", 100, 20); r == nil {
			fmt.Println(d)
			os.Exit(1)
		} else {
			defer r.Cancel()
		}
	}
	fmt.Println("ready")
	time.Sleep(time.Hour)
}

// startChild starts another process on a file, which has two calls open.
func startChild(t *testing.T, path string) *os.Process {
	t.Helper()
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), childEnv+"="+path)
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Process.Kill()
		c.Wait()
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatalf("the child says %q, error %v", line, err)
	}
	return c.Process
}

// config has a quota of each kind, and a lease that no test waits for.
func config() ratelimit.Config {
	return ratelimit.Config{
		Shared: true, Backend: "sqlite", LeaseTTL: time.Hour,
		Quotas: map[string]ratelimit.ModelQuota{
			"gpt-4o":   {MaxRPM: 30, MaxTPM: 40_000, MaxInFlight: 4},
			"o3":       {MaxRPM: 5, MaxSpendPerDay: 5 * money.Dollar},
			"claude-*": {MaxRPM: 50},
		},
		Prices: map[string]money.Price{"o3": {Input: 2 * money.Dollar, Output: 8 * money.Dollar}},
		Pools: map[string]ratelimit.Pool{
			"openai": {Models: []string{"gpt-*", "o3"}, Quota: ratelimit.ModelQuota{MaxRPM: 60}},
		},
	}
}

// open opens a limiter, which ends with the test.
func open(t *testing.T, cfg ratelimit.Config) *ratelimit.RateLimiter {
	t.Helper()
	rl, err := ratelimit.NewWithConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { rl.Close() })
	return rl
}

func reserve(t *testing.T, rl *ratelimit.RateLimiter, model string, prompt, output int) *ratelimit.Reservation {
	t.Helper()
	r, d := rl.Reserve(model, prompt, output)
	if r == nil {
		t.Fatalf("reserve %s: %v", model, d.Reason)
	}
	return r
}

// wait has a call wait in line, until the test ends.
func wait(t *testing.T, rl *ratelimit.RateLimiter, model string) {
	t.Helper()
	before := rl.Stats(model).Waiting
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if r, err := rl.Acquire(ctx, model, 10, 10); err == nil {
			r.Cancel()
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
	for end := time.Now().Add(20 * time.Second); rl.Stats(model).Waiting <= before; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it does not wait")
		}
	}
}

// result is what the program did.
type result struct {
	stdout, stderr string
	code           int
}

// runStatus runs the program with the home folder at a path and with more of the environment.
func runStatus(t testing.TB, home string, args ...string) (r result) {
	t.Helper()
	c := exec.CommandContext(t.Context(), program, append([]string{"status"}, args...)...)
	c.Env = append(os.Environ(), "CORE_HOME="+home)
	var stdout, stderr bytes.Buffer
	c.Stdout, c.Stderr = &stdout, &stderr
	err := c.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return result{stdout.String(), stderr.String(), c.ProcessState.ExitCode()}
}

// report runs the program with --json.
func report(t testing.TB, home string, args ...string) (is status.Report) {
	t.Helper()
	r := runStatus(t, home, append(args, "--json")...)
	if r.code != 0 || r.stderr != "" {
		t.Fatalf("status %v: exit %d, %s", args, r.code, r.stderr)
	}
	decode(t, []byte(r.stdout), &is)
	return is
}

func decode(t testing.TB, text []byte, into any) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
}

// content returns what is in a folder: the name, the times and the bytes of each file.
func content(t *testing.T, folder string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() && path != folder {
			return err
		}
		info, err := entry.Info()
		var text []byte
		if err == nil && !entry.IsDir() {
			text, err = os.ReadFile(path)
		}
		all[path] = fmt.Sprintf("%v %v %x", info.Mode(), info.ModTime(), text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// unchanged runs f, and makes sure that it has changed nothing in a folder.
func unchanged(t *testing.T, folder string, f func()) {
	t.Helper()
	before := content(t, folder)
	f()
	after := content(t, folder)
	for path, is := range after {
		if was, there := before[path]; !there {
			t.Errorf("%s was made", path)
		} else if was != is {
			t.Errorf("%s was changed", path)
		}
	}
	for path := range before {
		if _, is := after[path]; !is {
			t.Errorf("%s was removed", path)
		}
	}
}
