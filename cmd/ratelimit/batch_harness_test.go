package main_test

import (
	"os"
	"os/exec"
	"testing"
)

// startBatch starts `ratelimit batch` in a folder.
func startBatch(t testing.TB, dir string, arguments ...string) (*exec.Cmd, *output) {
	t.Helper()
	return startCommand(t, dir, command(t, append([]string{"batch"}, arguments...)...))
}

// startCommand starts a command that is a batch, with a key, in a folder.
func startCommand(t testing.TB, dir string, cmd *exec.Cmd) (*exec.Cmd, *output) {
	t.Helper()
	said := &output{}
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, said, said
	cmd.Env = append(cmd.Env, "OPENAI_API_KEY="+batchKey, "REDIS_URL="+os.Getenv("REDIS_URL"))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if cmd.ProcessState == nil {
			cmd.Process.Kill() //nolint:errcheck // it may have ended
			cmd.Wait()         //nolint:errcheck // it was killed
		}
	})
	return cmd, said
}
