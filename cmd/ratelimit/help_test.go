package main_test

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// Each command's help has two examples or more, and each of them does as it is written, in an empty
// home.
func TestExamplesOfHelp(t *testing.T) {
	// In one home, so that commands that look at the shared file find that of the proxy.
	home := t.TempDir()
	seen := 0
	for _, name := range append([]string{""}, commandsOf(t)...) {
		t.Run(strings.TrimSpace("ratelimit "+name), func(t *testing.T) {
			examples := examplesOf(t, name)
			if len(examples) < 2 {
				t.Errorf("its help has %d examples: %q", len(examples), examples)
			}
			for _, example := range examples {
				seen++
				runExample(t, home, example)
			}
		})
	}
	if seen < 10 {
		t.Errorf("%d examples in all", seen)
	}
}

// commandsOf returns the names of the commands, but for cobra's help.
func commandsOf(t *testing.T) []string {
	t.Helper()
	_, stdout, _ := run(t, "--help")
	_, list, _ := strings.Cut(stdout, "Available Commands:\n")
	list, _, _ = strings.Cut(list, "\n\n")
	var names []string
	for line := range strings.Lines(list) {
		if name := strings.Fields(line)[0]; name != "help" {
			names = append(names, name)
		}
	}
	if len(names) < 4 {
		t.Fatalf("the help lists only %q:\n%s", names, stdout)
	}
	return names
}

// examplesOf returns the examples of a command's help, each as a line for a shell.
func examplesOf(t *testing.T, name string) []string {
	t.Helper()
	_, stdout, _ := run(t, append(strings.Fields(name), "--help")...)
	_, text, _ := strings.Cut(stdout, "\nExamples:\n")
	text = regexp.MustCompile(`(?m)^\S`).Split(text, 2)[0] // up to the next heading
	text = strings.ReplaceAll(text, "\\\n", " ")
	var examples []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			examples = append(examples, line)
		}
	}
	return examples
}

// runExample runs one line in a shell. What serves, or watches, is ended once it does.
func runExample(t *testing.T, home, example string) {
	t.Helper()
	if strings.Contains(example, "--redis") {
		t.Logf("left out: %s: needs a Redis", example)
		return
	}
	serves := strings.HasPrefix(example, "ratelimit proxy ")
	if serves && !free(t, "127.0.0.1:8787", "127.0.0.1:8788") {
		t.Logf("left out: %s: its ports are taken", example)
		return
	}
	cmd := exec.Command("sh", "-c", "exec "+example)
	cmd.Dir = home
	cmd.Env = append(os.Environ(), "HOME="+home, "CORE_HOME=", "REDIS_URL=",
		"PATH="+filepath.Dir(binary)+string(filepath.ListSeparator)+os.Getenv("PATH"))
	said := &output{}
	cmd.Stdout, cmd.Stderr = said, said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill() //nolint:errcheck // it may have ended
	switch {
	case serves:
		admin := said.waitFor(t, `(?m)^ratelimit: .*; admin (http://\S+)$`)[1]
		if status, body := get(t, admin+"/healthz"); status != 200 {
			t.Errorf("%s: /healthz: %d, %s", example, status, body)
		}
	case strings.Contains(example, "--watch"):
		said.waitFor(t, `\S`)
	default:
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s: %v:\n%s", example, err, said)
		}
		return
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("%s: ends with %v:\n%s", example, err, said)
	}
}

// free reports whether all of the addresses can be listened to.
func free(t *testing.T, addresses ...string) bool {
	t.Helper()
	for _, address := range addresses {
		listener, err := net.Listen("tcp", address)
		if err != nil {
			return false
		}
		listener.Close()
	}
	return runtime.GOOS != "windows"
}
