package cli

import (
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
)

func TestVersionText(t *testing.T) {
	platform := runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH
	of := func(version string, settings ...debug.BuildSetting) *debug.BuildInfo {
		return &debug.BuildInfo{Main: debug.Module{Version: version}, Settings: settings}
	}
	revision, changed := debug.BuildSetting{Key: "vcs.revision", Value: "8c85411"}, debug.BuildSetting{Key: "vcs.modified", Value: "true"}
	for _, test := range []struct {
		info  *debug.BuildInfo
		known bool
		want  string
	}{
		{of("v0.1.0"), true, "v0.1.0 " + platform},
		{of(""), true, "(devel) " + platform},
		{nil, false, "(devel) " + platform},
		{of("v0.1.1-0.20261127061934-8c85411", revision), true, "v0.1.1-0.20261127061934-8c85411 commit 8c85411 " + platform},
		{of("(devel)", revision, changed), true, "(devel) commit 8c85411 with changes " + platform},
	} {
		if got := versionText(test.info, test.known); got != test.want {
			t.Errorf("got %q, want %q", got, test.want)
		}
	}
}

func TestVersionAndItsFlagSayTheSame(t *testing.T) {
	_, byCommand, _ := ran(t, "version")
	status, byFlag, _ := ran(t, "--version")
	if status != exitOK || byCommand != byFlag || !strings.HasPrefix(byCommand, "ratelimit ") || !strings.HasSuffix(byCommand, runtime.GOARCH+"\n") {
		t.Errorf("status %d: %q and %q", status, byCommand, byFlag)
	}
	if status, _, stderr := ran(t, "version", "x"); status != exitUsage || !strings.Contains(stderr, `"x"`) {
		t.Errorf("an argument: status %d: %s", status, stderr)
	}
}

func TestCompletion(t *testing.T) {
	for shell, want := range map[string]string{
		"bash": "complete -o default -F __start_ratelimit ratelimit", "zsh": "#compdef ratelimit",
		"fish": "complete -c ratelimit", "powershell": "Register-ArgumentCompleter",
	} {
		if status, stdout, stderr := ran(t, "completion", shell); status != exitOK || !strings.Contains(stdout, want) || stderr != "" {
			t.Errorf("completion %s: status %d, stderr %q, no %q in the script", shell, status, stderr, want)
		}
	}
	for _, arguments := range [][]string{{"completion"}, {"completion", "tcsh"}, {"completion", "bash", "zsh"}} {
		if status, stdout, _ := ran(t, arguments...); status != exitUsage || stdout != "" {
			t.Errorf("%q: status %d, %q", arguments, status, stdout)
		}
	}
}
