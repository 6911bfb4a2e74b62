//go:build unix

// YAML files and writers that are killed.

package persist

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/internal/test/limitertest"
	"dappco.re/go/core/go-ratelimit/internal/test/racetest"
	"dappco.re/go/core/go-ratelimit/internal/test/statefile"
)

// yamlChildEnv makes of this test program a child that persists to the file it
// names, and yamlChildRounds how often.
const (
	yamlChildEnv    = "RATELIMIT_TEST_YAML_CHILD"
	yamlChildRounds = "RATELIMIT_TEST_YAML_ROUNDS"
)

// yamlChildEntries are what every file of the child holds, beside what it has
// recorded: enough for a kill to come in the middle of a write.
const yamlChildEntries = 2_000

// TestYAMLChild is the child. It says after each Persist which day count the
// file holds from now on.
func TestYAMLChild(t *testing.T) {
	path := os.Getenv(yamlChildEnv)
	if path == "" {
		t.Skip("only for the tests that start it")
	}
	rounds, err := strconv.Atoi(os.Getenv(yamlChildRounds))
	if err != nil {
		t.Fatal(err)
	}
	rl := limitertest.YAML(t, path)
	limitertest.Load(t, rl)
	if rl.State["m"] == nil {
		for range yamlChildEntries {
			rl.RecordUsage("m", 1, 0)
		}
	}
	for range rounds {
		limitertest.Save(t, rl)
		fmt.Printf("persisted %d\n", rl.State["m"].DayCount)
		rl.RecordUsage("m", 1, 0)
	}
}

func yamlChild(path string, rounds int) *exec.Cmd {
	cmd := exec.Command(os.Args[0], "-test.run=^TestYAMLChild$")
	cmd.Env = append(os.Environ(), yamlChildEnv+"="+path, yamlChildRounds+"="+strconv.Itoa(rounds))
	return cmd
}

// Whenever a process is killed, the file holds what its last Persist wrote, or
// what the Persist at work was writing, and the next process cleans up.
func TestYAMLSurvivesKilledWriters(t *testing.T) {
	t.Parallel()
	kills := racetest.Times(60, 20, 500)
	path := filepath.Join(t.TempDir(), "state.yaml")
	litter, older, newer := 0, 0, 0
	for range kills {
		said := killYAMLChild(t, path, time.Duration(rand.Int64N(int64(12*time.Millisecond))))
		litter += len(statefile.Litter(t, path))

		rl := limitertest.YAML(t, path)
		if left := statefile.Litter(t, path); left != nil {
			t.Fatalf("the constructor left %q", left)
		}
		limitertest.Load(t, rl)
		got := rl.State["m"]
		switch got.DayCount {
		case said:
			older++
		case said + 1:
			newer++
		default:
			t.Fatalf("the file counts %d requests after Persist of %d", got.DayCount, said)
		}
		if len(got.Requests) != got.DayCount || len(got.Tokens) != got.DayCount {
			t.Fatalf("the file holds %d requests and %d token entries of %d", len(got.Requests), len(got.Tokens), got.DayCount)
		}
		if got.DayCount > 2*yamlChildEntries { // files that grow would make the test slow
			os.Remove(path)
		}
	}
	t.Logf("%d kills: %d temporary files left and swept, %d old states, %d new ones", kills, litter, older, newer)
}

// killYAMLChild starts a child, kills it some time after its first Persist, and
// returns the last count that it said.
func killYAMLChild(t *testing.T, path string, after time.Duration) (said int) {
	t.Helper()
	cmd := yamlChild(path, 1_000_000)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	var other []string
	for lines.Scan() {
		count, ok := strings.CutPrefix(lines.Text(), "persisted ")
		if !ok {
			other = append(other, lines.Text())
			continue
		}
		if said == 0 {
			time.AfterFunc(after, func() { cmd.Process.Kill() })
		}
		if n, err := strconv.Atoi(count); err == nil && n > said { // the last line may be cut
			said = n
		}
	}
	cmd.Wait()
	if said == 0 || other != nil {
		t.Fatalf("the child said %q", other)
	}
	return said
}

// A Persist is on the disk when it returns: the kernel is asked to write the
// temporary file before it gets its name, and the folder afterwards.
func TestYAMLPersistSyncsInOrder(t *testing.T) {
	strace, err := exec.LookPath("strace")
	if err != nil || runtime.GOOS != "linux" {
		t.Skip("needs strace")
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "state.yaml")
	log := filepath.Join(t.TempDir(), "strace")
	child := yamlChild(path, 3)
	cmd := exec.Command(strace, append([]string{"-f", "-qq", "-y", "-s", "8", "-o", log, "-e", "trace=write,fsync,rename,renameat,renameat2", "--"}, child.Args...)...)
	cmd.Env = child.Env
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Skipf("strace: %v: %s", err, out)
	}
	f, err := os.Open(log)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	temp := regexp.QuoteMeta(filepath.Join(dir, ".state.yaml.tmp-")) + `\d+`
	steps := []struct {
		name string
		line *regexp.Regexp
	}{
		{"write", regexp.MustCompile(` write\(\d+<` + temp + `>`)},
		{"fsync", regexp.MustCompile(` fsync\(\d+<` + temp + `>`)},
		{"rename", regexp.MustCompile(` rename(at|at2)?\(.*"` + temp + `".*"` + regexp.QuoteMeta(path) + `"`)},
		{"fsync of the folder", regexp.MustCompile(` fsync\(\d+<` + regexp.QuoteMeta(dir) + `>`)},
		{"return", regexp.MustCompile(` write\(1<`)},
	}
	var got []string
	for lines := bufio.NewReader(f); ; {
		line, err := lines.ReadString('\n')
		if err == io.EOF {
			break
		}
		for _, step := range steps {
			if step.line.MatchString(line) && (len(got) == 0 || got[len(got)-1] != step.name) {
				got = append(got, step.name)
			}
		}
	}
	one := "write, fsync, rename, fsync of the folder, return"
	if text := strings.Join(got, ", "); !strings.HasPrefix(text, strings.Join([]string{one, one, one}, ", ")) {
		t.Errorf("three times Persist did: %s", text)
	}
}
