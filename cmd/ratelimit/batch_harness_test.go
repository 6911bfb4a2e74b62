package main_test

import (
	"os"
	"os/exec"
	"testing"
)

// startBatch starts `ratelimit batch` in a folder.
func startBatch(t testing.TB, dir string, arguments ...string) (*exec.Cmd, *output) {
	t.Helper()
	cmd, said := command(t, append([]string{"batch"}, arguments...)...), &output{}
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
