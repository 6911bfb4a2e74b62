package main_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

const module = "dappco.re/go/core/go-ratelimit/cmd/ratelimit"

// A release is what a stranger can install: the modules that .ci/release writes, which replace
// nothing, from a proxy that is a folder.
func TestReleaseInstalls(t *testing.T) {
	needsRepository(t)
	released := t.TempDir()
	if output, err := ciRelease("-dirty", "v0.1.0", released); err != nil {
		t.Fatalf("%v:\n%s", err, output)
	}
	installed := t.TempDir()
	// The module cache of the machine serves what others wrote, and shall not get what this wrote.
	// With -trimpath the build cache serves although the module cache lies elsewhere.
	flags := "-trimpath -modcacherw"
	if os.Getenv("RATELIMIT_LONG") == "" {
		flags += " -tags=nosqlite" // which takes twenty seconds to unpack
	}
	command := exec.Command("go", "install", module+"@v0.1.0")
	command.Dir = installed
	command.Env = append(os.Environ(), "GOBIN="+installed, "GOMODCACHE="+t.TempDir(), "GOFLAGS="+flags,
		"GOSUMDB=off", "GOWORK=off", "GOPROXY=file://"+released+",file://"+goEnv(t, "GOMODCACHE")+"/cache/download,"+goEnv(t, "GOPROXY"))
	if output, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v:\n%s", err, output)
	}
	output, err := exec.Command(filepath.Join(installed, "ratelimit"), "version").CombinedOutput()
	if want := "ratelimit v0.1.0 " + runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH + "\n"; err != nil || string(output) != want {
		t.Fatalf("version: %v: %q, want %q", err, output, want)
	}
}

// The tags of a release are on a commit whose modules require each other by version.
func TestReleaseTags(t *testing.T) {
	needsRepository(t)
	clone := t.TempDir()
	git := func(arguments ...string) string {
		t.Helper()
		output, err := exec.Command("git", append([]string{"-C", clone, "-c", "user.name=t", "-c", "user.email=t@t.test"}, arguments...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("git %q: %v\n%s", arguments, err, output)
		}
		return string(output)
	}
	git("clone", "-q", "--no-tags", repository(t), ".")
	head := git("rev-parse", "HEAD")
	script, err := os.ReadFile("../../.ci/release")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(clone, ".ci", "release"), script, 0o700); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("bash", filepath.Join(clone, ".ci", "release"), "-dirty", "-tag", "v0.3.0", t.TempDir())
	cmd.Env = append(os.Environ(), "GIT_AUTHOR_NAME=t", "GIT_AUTHOR_EMAIL=t@t.test", "GIT_COMMITTER_NAME=t", "GIT_COMMITTER_EMAIL=t@t.test")
	if output, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v:\n%s", err, output)
	}
	if got, want := strings.Fields(git("tag")), "cmd/ratelimit/v0.3.0 otelratelimit/v0.3.0 promratelimit/v0.3.0 redislimit/v0.3.0 redisstore/v0.3.0 v0.3.0"; strings.Join(got, " ") != want {
		t.Errorf("the tags are %q, want %q", got, want)
	}
	if got := git("rev-parse", "HEAD"); got != head {
		t.Error("the branch has moved")
	}
	if mod := git("show", "cmd/ratelimit/v0.3.0:cmd/ratelimit/go.mod"); strings.Contains(mod, "replace") || !strings.Contains(mod, "go-ratelimit/redisstore v0.3.0") {
		t.Errorf("the tag has\n%s", mod)
	}
	if sum := git("show", "v0.3.0:redisstore/go.sum"); !strings.Contains(sum, "dappco.re/go/core/go-ratelimit v0.3.0 h1:") {
		t.Errorf("the tag has\n%s", sum)
	}
	git("fsck", "--connectivity-only")
}

func TestReleaseRefusesWhatIsNoVersion(t *testing.T) {
	needsRepository(t)
	for _, arguments := range []string{"", "0.1.0", "v0.1", "v2.0.0", "v0.1.0 x y"} {
		output, err := ciRelease(strings.Fields(arguments)...)
		if err == nil || !strings.Contains(output, "usage: bash .ci/release") {
			t.Errorf("release %s: %v: %s", arguments, err, output)
		}
	}
}

// needsRepository skips a test where there is no clone of the repository, or nothing to read it.
func needsRepository(t *testing.T) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("the scripts of .ci are for Unix")
	}
	for _, tool := range []string{"bash", "git"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip(err)
		}
	}
	if output, err := exec.Command("git", "rev-parse", "--git-dir").CombinedOutput(); err != nil {
		t.Skipf("no clone: %s", output)
	}
}

// repository returns the root of the clone.
func repository(t *testing.T) string {
	t.Helper()
	output, err := exec.Command("git", "rev-parse", "--show-toplevel").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(output))
}

func ciRelease(arguments ...string) (output string, err error) {
	command := exec.Command("bash", append([]string{"../../.ci/release"}, arguments...)...)
	both, err := command.CombinedOutput()
	return string(both), err
}

func goEnv(t *testing.T, name string) string {
	t.Helper()
	output, err := exec.Command("go", "env", name).Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(bytes.TrimSpace(output))
}
