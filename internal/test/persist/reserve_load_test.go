// Reservations that are settled after Reset, Persist and Load: each finds its own charge or none.

package persist

import (
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	ratelimit "dappco.re/go/core/go-ratelimit"
	"dappco.re/go/core/go-ratelimit/internal/test/limitertest"
	"dappco.re/go/core/go-ratelimit/internal/test/racetest"
)

// charges is a model of a limiter's usage in which every charge has a name: what is in memory, and
// what Persist has put into the file. All is of one instant, so that only names tell charges apart.
type charges struct {
	t            *testing.T
	path         string
	rl           *ratelimit.RateLimiter
	open         map[string]*ratelimit.Reservation
	memory, file map[string]int // tokens
}

// alike is the estimate of every call.
const alike = 100

func newCharges(t *testing.T, backend, path string) *charges {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	c := &charges{
		t: t, path: path,
		rl: limitertest.With(t, ratelimit.Config{Backend: backend, FilePath: path, Quotas: map[string]ratelimit.ModelQuota{
			"m": {MaxRPM: 1000, MaxTPD: 1_000_000},
		}}),
		open:   make(map[string]*ratelimit.Reservation),
		memory: make(map[string]int), file: make(map[string]int),
	}
	c.play("persist", "") // without a file, Load changes nothing
	return c
}

// play does one thing, and holds the limiter against the model.
func (c *charges) play(op, name string) {
	c.t.Helper()
	switch op {
	case "reserve":
		c.open[name] = limitertest.Reserve(c.t, c.rl, "m", alike, 0)
		c.memory[name] = alike
	case "record":
		c.rl.RecordUsage("m", alike, 0)
		c.memory[name] = alike
	case "cancel":
		c.open[name].Cancel()
		delete(c.open, name)
		delete(c.memory, name)
	case "commit":
		c.open[name].Commit(30, 0)
		delete(c.open, name)
		if c.memory[name] > 0 {
			c.memory[name] = 30
		}
	case "persist":
		if err := c.rl.Persist(); err != nil {
			c.t.Fatal(err)
		}
		c.file = maps.Clone(c.memory)
	case "fail": // a Persist that cannot write
		folder := filepath.Dir(c.path)
		rename := func(from, to string) {
			if err := os.Rename(from, to); err != nil {
				c.t.Fatal(err)
			}
		}
		rename(folder, folder+"-away")
		if err := os.WriteFile(folder, nil, 0o600); err != nil {
			c.t.Fatal(err)
		}
		if err := c.rl.Persist(); err == nil {
			c.t.Fatal("no error")
		}
		if err := os.Remove(folder); err != nil {
			c.t.Fatal(err)
		}
		rename(folder+"-away", folder)
	case "load":
		if err := c.rl.Load(); err != nil {
			c.t.Fatal(err)
		}
		c.memory = maps.Clone(c.file)
	case "reset":
		c.rl.Reset(name)
		clear(c.memory)
	}
	s, used := c.rl.Stats("m"), 0
	for _, n := range c.memory {
		used += n
	}
	if n := len(c.memory); s.RPM != n || s.RPD != n || s.TPM != used || s.TPD != used || s.InFlight != len(c.open) {
		c.t.Fatalf("after %s %s: %d requests and %d tokens, %d and %d in the day, %d in flight; want %d, %d and %d",
			op, name, s.RPM, s.TPM, s.RPD, s.TPD, s.InFlight, n, used, len(c.open))
	}
}

// A reservation is settled with its own charge, and with no other that is alike and of the same
// instant: what Reset or Load forgot is forgotten, and what Load brings back is found again.
func TestReservationFindsItsOwnChargeAfterLoad(t *testing.T) {
	plays := []string{
		"reserve a, reset m, reserve b, persist, load, cancel a, commit b",
		"reserve a, reset m, reserve b, persist, load, commit a, cancel b",
		"reserve a, reset , record b, persist, load, cancel a",
		"reserve a, persist, reset m, reserve b, persist, load, cancel a, cancel b",
		"reserve a, persist, reset , record b, persist, load, commit a",
		"reserve a, reset m, reserve b, cancel a, commit b",
		"reserve a, persist, reserve b, load, cancel b, commit a",
		"reserve a, persist, record b, load, commit a",
		"reserve a, persist, load, persist, load, commit a",
		"reserve a, persist, load, load, cancel a",
		"reserve a, persist, load, reserve b, load, commit b, commit a",
		"reserve a, persist, reset m, load, commit a",
		"reserve a, persist, reset m, reserve b, load, cancel b, commit a",
		"reserve a, persist, reset m, persist, record b, load, cancel a",
		"reserve a, persist, load, reset m, reserve b, persist, load, commit a, cancel b",
		"record z, persist, reserve a, load, cancel a",
		"reserve a, persist, fail, load, commit a",
		"reserve a, persist, reserve b, fail, load, commit b, commit a",
		"reserve a, fail, reserve b, persist, load, cancel a, commit b",
		"reserve a, persist, load, fail, fail, load, commit a",
	}
	for _, backend := range backends {
		for _, play := range plays {
			t.Run(backend+"/"+play, func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "folder", "state")
				synctest.Test(t, func(t *testing.T) {
					c := newCharges(t, backend, path)
					defer c.rl.Close()
					for step := range strings.SplitSeq(play, ", ") {
						op, name, _ := strings.Cut(step, " ")
						c.play(op, name)
					}
				})
			})
		}
	}
}

// A call that arrives later has its charge moved: the file has it where it was.
func TestReservationThatMovedSincePersist(t *testing.T) {
	for _, backend := range backends {
		path := filepath.Join(t.TempDir(), backend, "state")
		synctest.Test(t, func(t *testing.T) {
			c := newCharges(t, backend, path)
			defer c.rl.Close()
			c.play("reserve", "a")
			time.Sleep(time.Second)
			c.play("record", "b")
			c.play("persist", "")
			c.open["a"].Arrived(time.Now()) // so that it is as b is
			c.play("load", "")
			c.open["a"].Cancel()
			delete(c.open, "a")
			c.play("record", "c")
		})
	}
}

// Random plays of the same.
func TestReservationsFindTheirOwnChargesRandomly(t *testing.T) {
	t.Parallel()
	for _, backend := range backends {
		t.Run(backend, func(t *testing.T) {
			for seed := range uint64(racetest.Times(30, 6, 600)) {
				path := filepath.Join(t.TempDir(), "folder", "state")
				synctest.Test(t, func(t *testing.T) {
					random := rand.New(rand.NewPCG(seed, 11))
					c := newCharges(t, backend, path)
					defer c.rl.Close()
					var played []string
					defer func() {
						if t.Failed() {
							t.Logf("seed %d: %s", seed, strings.Join(played, ", "))
						}
					}()
					for i := range 60 {
						op := []string{
							"reserve", "reserve", "reserve", "record", "cancel", "cancel", "commit", "commit", "persist", "load", "load", "reset", "fail",
						}[random.IntN(13)]
						name := string(rune('A'+i%26)) + string(rune('a'+i/26))
						switch op {
						case "cancel", "commit":
							names := slices.Sorted(maps.Keys(c.open))
							if len(names) == 0 {
								continue
							}
							name = names[random.IntN(len(names))]
						case "reset":
							name = []string{"m", ""}[random.IntN(2)]
						}
						played = append(played, op+" "+name)
						c.play(op, name)
					}
				})
			}
		})
	}
}

// A reservation that Reset forgot has no charge any more, whatever is persisted and loaded.
func TestResetForgetsAReservationForGood(t *testing.T) {
	settle := map[string]func(*ratelimit.Reservation){
		"Cancel":  func(r *ratelimit.Reservation) { r.Cancel() },
		"Commit":  func(r *ratelimit.Reservation) { r.Commit(1, 0) },
		"Arrived": func(r *ratelimit.Reservation) { r.Arrived(time.Now()) },
	}
	for _, backend := range backends {
		for name, settle := range settle {
			t.Run(backend+", "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					rl, err := ratelimit.NewWithConfig(ratelimit.Config{
						Backend: backend, FilePath: filepath.Join(t.TempDir(), "state"),
						Quotas: map[string]ratelimit.ModelQuota{"m": {MaxRPM: 10, MaxTPM: 1000, MaxRPD: 10, MaxTPD: 1000}},
					})
					if err != nil {
						t.Fatal(err)
					}
					defer rl.Close()
					forgotten, _ := rl.Reserve("m", 100, 0)
					rl.Reset("m")
					other, _ := rl.Reserve("m", 100, 0)
					if err := rl.Persist(); err != nil {
						t.Fatal(err)
					}
					if err := rl.Load(); err != nil {
						t.Fatal(err)
					}
					time.Sleep(time.Second)
					settle(forgotten)
					if s := rl.Stats("m"); s.RPM != 1 || s.TPM != 100 || s.RPD != 1 || s.TPD != 100 {
						t.Errorf("after the settlement of a forgotten one: %+v", s)
					}
					other.Commit(30, 0)
					if s := rl.Stats("m"); s.RPM != 1 || s.TPM != 30 || s.RPD != 1 || s.TPD != 30 {
						t.Errorf("after the other's: %+v", s)
					}
				})
			})
		}
	}
}
