// AutoPersist at its edges: the zone of a day, how often OnError is told, files that vanish.

package persist

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/test/limitertest"
)

// SetQuota with a DayZone moves the usage of the current day to the current day of that zone, in
// the file, too. The quota "*" does so for models that had no call since.
func TestAutoPersistFollowsTheZoneOfTheDay(t *testing.T) {
	for _, backend := range backends {
		for _, quota := range []string{"m", "*"} {
			t.Run(backend+quota, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { // begins at 2000-01-01 00:00 UTC
					path := filepath.Join(t.TempDir(), "state")
					rl := autosaved(t, backend, path, ratelimit.AutoPersist{Delay: time.Second},
						map[string]ratelimit.ModelQuota{quota: {MaxRPD: 5}})
					time.Sleep(20 * time.Hour)
					for range 5 {
						rl.RecordUsage("m", 1, 1)
					}
					time.Sleep(8 * time.Hour)                                           // 04:00 of the next day
					rl.SetQuota(quota, ratelimit.ModelQuota{MaxRPD: 5, DayZone: "UTC"}) // whose day ends in 20 h
					time.Sleep(time.Minute)                                             // which is saved
					if rl.CanSend("m", 1) {
						t.Error("memory: a sixth request may be sent")
					}
					time.Sleep(time.Hour)
					limitertest.Close(t, rl)
					if found := inFile(t, backend, path); found.CanSend("m", 1) {
						t.Errorf("the file: a sixth request may be sent; %+v", found.Stats("m"))
					}
				})
			})
		}
	}
}

// An error of a kind is reported once a second at most, also when there are two kinds in
// turn and OnError takes long for one of them.
func TestOnErrorIsToldOnceASecondOfAKind(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		path := filepath.Join(dir, "sub", "state.yaml")
		type call struct {
			kind string
			at   time.Time
		}
		var calls []call
		rl := reporting(t, "yaml", path, 10*time.Millisecond, func(err error) {
			kind := "not regular"
			if errors.Is(err, syscall.ENOTDIR) {
				kind = "not a folder"
			}
			calls = append(calls, call{kind, time.Now()})
			if kind == "not a folder" {
				time.Sleep(3 * time.Second) // an e-mail, say
			}
		})
		sub := filepath.Join(dir, "sub")
		asFolder := func() {
			os.RemoveAll(sub)
			os.MkdirAll(path, 0o700)
		}
		asFile := func() {
			os.RemoveAll(sub)
			os.WriteFile(sub, nil, 0o600)
		}
		end := time.Now().Add(5 * time.Minute)
		// A failing disk with two kinds of errors in turn. Persist by hand after a repair
		// is only there to begin the back-off anew.
		for i := 0; time.Now().Before(end); i++ {
			if i%8 == 0 || i%8 == 4 {
				asFolder()
			} else {
				asFile()
			}
			rl.RecordUsage("m", 1, 1)
			time.Sleep(150 * time.Millisecond)
			if i%8 == 7 {
				os.RemoveAll(sub)
				if err := rl.Persist(); err != nil {
					t.Fatal(err)
				}
			}
		}
		os.RemoveAll(sub)
		rl.Close()
		time.Sleep(time.Minute)
		synctest.Wait()
		last := map[string]time.Time{}
		for _, c := range calls {
			if was, ok := last[c.kind]; ok && c.at.Sub(was) < time.Second {
				t.Errorf("%q reported %v after it was", c.kind, c.at.Sub(was))
			}
			last[c.kind] = c.at
		}
		if len(calls) < 20 || len(last) != 2 {
			t.Errorf("%d calls for %d kinds of errors in 5 minutes", len(calls), len(last))
		}
	})
}

// Of several that close at once, none is told that all is well when what was left is
// lost.
func TestCloseTellsAllWhoCloseWhatIsLost(t *testing.T) {
	limitertest.NeedSQLite(t)
	t.Parallel()
	nils := 0
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "state.db")
			rl := reporting(t, "sqlite", path, time.Second, nil)
			refuseInserts(t, path)
			rl.RecordUsage("m", 1, 1)
			errs := make(chan error, 2)
			for range 2 {
				go func() { errs <- rl.Close() }()
			}
			for range 2 {
				if <-errs == nil {
					nils++
				}
			}
		})
	}
	if nils > 0 {
		t.Errorf("%d of 40 calls of Close returned nil, and nothing was saved", nils)
	}
}

// SQLite alone would go on writing into a deleted file.
func TestSQLiteNoticesThatItsFileIsGone(t *testing.T) {
	limitertest.NeedSQLite(t)
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "state.db")
		reports := 0
		rl := reporting(t, "sqlite", path, time.Second, func(error) { reports++ })
		rl.RecordUsage("m", 1, 1)
		time.Sleep(2 * time.Second)

		if err := os.Rename(path, path+".away"); err != nil {
			t.Fatal(err)
		}
		rl.RecordUsage("m", 1, 1)
		if err := rl.Persist(); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("Persist returned %v", err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := rl.Persist(); err == nil {
			t.Error("Persist wrote into a file that is not the one in its place")
		}
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if reports == 0 {
			t.Error("OnError was not told")
		}

		if err := os.Rename(path+".away", path); err != nil {
			t.Fatal(err)
		}
		limitertest.Close(t, rl)
		if got := inFile(t, "sqlite", path).Stats("m").RPD; got != 2 {
			t.Errorf("the file holds %d requests, want 2", got)
		}
	})
}
