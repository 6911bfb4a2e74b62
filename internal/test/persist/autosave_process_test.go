// AutoPersist and a killed process: how much is lost.

package persist

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/test/racetest"
)

// autosaveChildEnv makes of this test program a child that records as fast as it
// can, and saves to the file that it names; autosaveBackendEnv is how.
const (
	autosaveChildEnv   = "RATELIMIT_TEST_AUTOSAVE_CHILD"
	autosaveBackendEnv = "RATELIMIT_TEST_AUTOSAVE_BACKEND"
)

var autosaveKilled = ratelimit.AutoPersist{Delay: 50 * time.Millisecond, MaxWait: 200 * time.Millisecond}

// TestAutosaveChild is the child. It is never quiet for Delay, so that only MaxWait
// has it save.
func TestAutosaveChild(t *testing.T) {
	path := os.Getenv(autosaveChildEnv)
	if path == "" {
		t.Skip("only for the test that starts it")
	}
	rl := autosaved(t, os.Getenv(autosaveBackendEnv), path, autosaveKilled, nil)
	fmt.Println("recording")
	for {
		rl.RecordUsage("m", 1, 0)
		time.Sleep(200 * time.Microsecond)
	}
}

// A process that is killed loses what it recorded in the last MaxWait, and in the
// time that it takes to write.
func TestKilledProcessLosesNoMoreThanMaxWait(t *testing.T) {
	// A save may take long on a machine that does much else. The child runs for
	// longer than that: one that did not save while it is busy would lose all.
	const runs, write = 4 * time.Second, 3 * time.Second
	for i := range racetest.Times(1, 1, 5) {
		for _, backend := range backends {
			t.Run(fmt.Sprint(backend, i), func(t *testing.T) {
				t.Parallel()
				path := filepath.Join(t.TempDir(), "state")
				cmd := exec.Command(os.Args[0], "-test.run=^TestAutosaveChild$")
				cmd.Env = append(os.Environ(), autosaveChildEnv+"="+path, autosaveBackendEnv+"="+backend)
				out, err := cmd.StdoutPipe()
				if err != nil {
					t.Fatal(err)
				}
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				defer cmd.Wait()
				if line, err := bufio.NewReader(out).ReadString('\n'); line != "recording\n" {
					cmd.Process.Kill()
					t.Fatalf("the child said %q, %v", line, err)
				}
				// Not a wait for something: this is how long the process lives, to any instant
				// within the period of saves.
				time.Sleep(runs + rand.N(autosaveKilled.MaxWait))
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
				killed := time.Now()

				found := inFile(t, backend, path)
				entries := found.State["m"].Requests
				if len(entries) == 0 || found.Stats("m").RPD != len(entries) {
					t.Fatalf("the file holds %d requests of a day of %d", len(entries), found.Stats("m").RPD)
				}
				lost := killed.Sub(entries[len(entries)-1])
				t.Logf("lost the last %v of %v", lost, runs)
				if lost > autosaveKilled.MaxWait+write {
					t.Errorf("lost the last %v", lost)
				}
			})
		}
	}
}
