package cli

import (
	"strings"
	"testing"
)

func TestUnknownCommand(t *testing.T) {
	for argument, want := range map[string]string{
		"foo":      `no command is named "foo": ratelimit --help lists them`,
		"statsu":   `no command is named "statsu": did you mean status?`,
		"--nosuch": "unknown flag: --nosuch",
	} {
		if status, stdout, stderr := ran(t, argument); status != exitUsage || stdout != "" || stderr != "ratelimit: "+want+"\n" {
			t.Errorf("%s: status %d, stdout %q, stderr %q", argument, status, stdout, stderr)
		}
	}
}

func TestNoCommand(t *testing.T) {
	status, stdout, stderr := ran(t)
	if status != exitOK || stderr != "" || !strings.Contains(stdout, "\nAvailable Commands:\n") {
		t.Errorf("status %d, stdout %q, stderr %q", status, stdout, stderr)
	}
}
