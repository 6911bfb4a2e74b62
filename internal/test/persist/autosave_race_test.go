// AutoPersist while everything else happens at once.

package persist

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/test/racetest"
)

// Everything at once, with a file that cannot be written now and then: what was
// recorded before Close is in the file, and nothing is written after it.
func TestAutoPersistWithEverythingAtOnce(t *testing.T) {
	t.Parallel()
	for _, backend := range backends {
		for i := range 4 { // one for each Delay
			t.Run(fmt.Sprint(backend, i), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { everythingAtOnce(t, backend, i) })
			})
		}
	}
}

func everythingAtOnce(t *testing.T, backend string, i int) {
	path := filepath.Join(t.TempDir(), "state")
	var rl *ratelimit.RateLimiter
	var closed atomic.Bool
	rl, err := ratelimit.NewWithConfig(ratelimit.Config{
		Backend: backend, FilePath: path, Providers: []ratelimit.Provider{ratelimit.ProviderLocal},
		Quotas:      map[string]ratelimit.ModelQuota{"r": {MaxInFlight: 2}},
		HoldTTL:     5 * time.Millisecond,
		AutoPersist: ratelimit.AutoPersist{Delay: []time.Duration{1, time.Microsecond, 300 * time.Microsecond, 2 * time.Millisecond}[i%4]},
		OnError: func(error) {
			rl.RecordUsage("e", 1, 1)
			rl.Persist()
			rl.Stats("m")
			if closed.Load() {
				rl.Close()
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	var n atomic.Int64
	held := make([][]*ratelimit.Reservation, 4) // to the end: a bubble is not told that garbage frees slots
	defer func() { runtime.KeepAlive(held) }()
	ctx, cancel := context.WithCancel(context.Background())
	var wg, flips sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(i), uint64(g)))
			for range racetest.Times(150, 40, 600) {
				switch rnd.IntN(8) {
				case 0, 1, 2:
					rl.RecordUsage(fmt.Sprint("m", rnd.IntN(3)), 1, 1)
					n.Add(1)
				case 3:
					r, err := rl.Acquire(ctx, "r", 1, 1)
					held[g] = append(held[g], r)
					if err == nil && rnd.IntN(2) == 0 {
						r.Commit(2, 2)
					}
				case 4:
					rl.SetQuota(fmt.Sprint("q", rnd.IntN(9)), ratelimit.ModelQuota{MaxRPM: rnd.IntN(9)})
				case 5:
					rl.Cooldown("c", time.Now().Add(time.Hour))
				case 6:
					rl.Persist()
				case 7:
					rl.Reset("r")
					time.Sleep(time.Duration(rnd.IntN(300)) * time.Microsecond)
				}
			}
		})
	}
	stop := make(chan struct{})
	flips.Go(func() {
		for backend == "yaml" {
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
			}
			os.Rename(path, path+".away")
			os.MkdirAll(filepath.Join(path, "x"), 0o700)
			time.Sleep(time.Millisecond)
			os.RemoveAll(path)
		}
	})
	wg.Wait()
	close(stop)
	flips.Wait()
	// The last flip may have moved a file away that held all. Close need not write it again.
	rl.RecordUsage("m0", 1, 1)
	n.Add(1)
	closed.Store(true)
	var closers sync.WaitGroup
	for range 3 {
		closers.Go(func() {
			if err := rl.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	closers.Wait()
	cancel()
	info, _ := os.Stat(path)
	total := 0
	found := inFile(t, backend, path)
	for m, s := range found.AllStats() {
		if m[0] == 'm' {
			total += s.RPD
		}
	}
	if int64(total) != n.Load() {
		t.Errorf("the file holds %d requests, %d were recorded", total, n.Load())
	}
	if got, want := len(found.Quotas), len(rl.Quotas); got != want {
		t.Errorf("the file holds %d quotas, memory %d", got, want)
	}
	rl.RecordUsage("m0", 1, 1)
	time.Sleep(5 * time.Millisecond)
	if later, _ := os.Stat(path); backend == "yaml" && (info == nil || !os.SameFile(info, later)) {
		t.Error("written after Close")
	}
}
