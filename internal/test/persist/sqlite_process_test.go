//go:build !nosqlite

// SQLite: processes that open one file, and processes that are killed.

package persist

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/test/limitertest"
	"dappco.re/go/core/go-ratelimit/internal/test/racetest"
	"dappco.re/go/core/go-ratelimit/internal/test/statefile"
)

func init() {
	sqliteChildren["open"], sqliteChildren["save"] = sqliteChildOpens, sqliteChildSaves
}

// sqliteChildOpens opens the files that it is told to, charges and persists.
func sqliteChildOpens(in io.Reader, _ []string) error {
	for paths := bufio.NewScanner(in); paths.Scan(); {
		err := func() error {
			rl, err := ratelimit.NewWithSQLite(paths.Text())
			if err != nil {
				return err
			}
			rl.RecordUsage("m", 1, 0)
			return errors.Join(rl.Persist(), rl.Load(), rl.Close())
		}()
		fmt.Println("done", err)
	}
	return nil
}

func TestSQLiteTenProcessesOpenAFreshFile(t *testing.T) {
	t.Parallel()
	rounds := racetest.Times(5, 2, 200)
	dir := t.TempDir()
	sqliteOpenTogether(t, 10, rounds, func(round int) string {
		return filepath.Join(dir, fmt.Sprint("folder", round), "state.db")
	})
}

// sqliteOpenTogether lets processes open, charge and persist one file at once, and
// then another, and wants all charges in each.
func sqliteOpenTogether(t *testing.T, processes, rounds int, file func(round int) (path string)) {
	t.Helper()
	var ins []io.Writer
	var outs []*bufio.Scanner
	for range processes {
		_, in, out := sqliteChild(t, "open")
		ins, outs = append(ins, in), append(outs, out)
	}
	for round := range rounds {
		path := file(round)
		for _, in := range ins {
			fmt.Fprintln(in, path)
		}
		for i, out := range outs {
			if !out.Scan() || out.Text() != "done <nil>" {
				t.Errorf("round %d, process %d: %s %v", round, i, out.Text(), out.Err())
			}
		}
		reader := sqliteLimiter(t, path)
		limitertest.Load(t, reader)
		if s := reader.Stats("m"); s.RPM != processes || s.TPM != processes || s.RPD != processes {
			t.Errorf("round %d: %d processes stored %+v", round, processes, s)
		}
	}
}

// sqliteChildSaves charges as many tokens as a number that goes up, persists,
// and says so.
func sqliteChildSaves(_ io.Reader, args []string) error {
	var n int
	if _, err := fmt.Sscan(args[1], &n); err != nil {
		return err
	}
	rl, err := ratelimit.NewWithSQLite(args[0])
	if err != nil {
		return err
	}
	if err := rl.Load(); err != nil {
		return err
	}
	for ; ; n++ {
		rl.RecordUsage("m", n, 0)
		if err := rl.Persist(); err != nil {
			return err
		}
		fmt.Println("saved", n)
	}
}

// A process that is killed at any moment leaves a sound file, with all that it
// had said was saved.
func TestSQLiteSurvivesKill(t *testing.T) {
	t.Parallel()
	files := 1
	if racetest.Long() {
		files = 17
	}
	for range files {
		sqliteKill(t, racetest.Times(30, 8, 30))
	}
}

func sqliteKill(t *testing.T, rounds int) {
	path := statefile.Path(t)
	saved := make(map[int]bool)
	next := 1
	for round := range rounds {
		child, _, out := sqliteChild(t, "save", path, fmt.Sprint(next))
		for range 1 + rand.IntN(12) {
			if !out.Scan() {
				break
			}
			var n int
			if _, err := fmt.Sscanf(out.Text(), "saved %d", &n); err != nil {
				t.Fatalf("round %d: the child said %q", round, out.Text())
			}
			saved[n] = true
			next = n + 1
		}
		time.Sleep(time.Duration(rand.IntN(2000)) * time.Microsecond)
		if err := child.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		for out.Scan() { // what it said meanwhile
			var n int
			if _, err := fmt.Sscanf(out.Text(), "saved %d", &n); err == nil {
				saved[n] = true
				next = n + 1
			}
		}
		child.Wait()
		next++ // the child may have charged this one, and not said so
		sqliteWantSound(t, path)
		stored := make(map[int]bool)
		for _, row := range statefile.Query(t, path, `SELECT count FROM tokens`) {
			var n int
			if _, err := fmt.Sscan(row, &n); err != nil {
				t.Fatal(err)
			}
			stored[n] = true
		}
		for n := range saved {
			if !stored[n] {
				t.Fatalf("round %d: charge %d was saved and is not there", round, n)
			}
		}
		if len(stored) > len(saved)+round+1 {
			t.Fatalf("round %d: %d charges are there, %d were saved", round, len(stored), len(saved))
		}
		want := fmt.Sprintf("%d %d", len(stored), len(stored))
		if got := statefile.Query(t, path, `SELECT (SELECT count(*) FROM requests), day_count FROM daily`); !slices.Equal(got, []string{want}) {
			t.Fatalf("round %d: requests and day count are %q, want %q", round, got, want)
		}
	}
	t.Logf("%d charges saved, %d kills", len(saved), rounds)
}

// sqliteWantSound asks SQLite, and where it is installed the native one, for the
// integrity of a file.
func sqliteWantSound(t *testing.T, path string) {
	t.Helper()
	if native, err := exec.LookPath("sqlite3"); err == nil {
		if out, err := exec.Command(native, path, `PRAGMA integrity_check`).CombinedOutput(); strings.TrimSpace(string(out)) != "ok" {
			t.Fatalf("integrity_check of the native SQLite: %s %v", out, err)
		}
	}
	if got := statefile.Query(t, path, `PRAGMA integrity_check`); !slices.Equal(got, []string{"ok"}) {
		t.Fatalf("integrity_check: %q", got)
	}
}
