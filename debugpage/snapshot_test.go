package debugpage

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit"
)

func manyModels(t testing.TB, n int) *ratelimit.RateLimiter {
	t.Helper()
	quotas := make(map[string]ratelimit.ModelQuota, n)
	for i := range n {
		quotas[fmt.Sprintf("provider/model-%04d", i)] = ratelimit.ModelQuota{MaxRPM: 500_000, MaxTPM: 1 << 30, MaxRPD: 1 << 30, MaxInFlight: 100}
	}
	rl, err := ratelimit.NewWithConfig(ratelimit.Config{FilePath: filepath.Join(t.TempDir(), "state.yaml"), Quotas: quotas})
	if err != nil {
		t.Fatal(err)
	}
	return rl
}

// All who look within an interval see one snapshot, however many they are.
func TestOneSnapshotForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBoard(manyModels(t, 10))
		var last *snapshot
		for range 3 {
			var mu sync.Mutex
			seen := make(map[*snapshot]bool)
			var wg sync.WaitGroup
			for range 50 {
				wg.Go(func() {
					s, err := b.look(t.Context())
					if err != nil {
						t.Error(err)
					}
					mu.Lock()
					defer mu.Unlock()
					seen[s] = true
				})
			}
			wg.Wait()
			if len(seen) != 1 || seen[last] {
				t.Fatalf("%d snapshots, or the last again", len(seen))
			}
			for last = range seen {
			}
			time.Sleep(interval - time.Nanosecond)
			if s, _ := b.look(t.Context()); s != last {
				t.Error("another snapshot before the interval is over")
			}
			time.Sleep(time.Nanosecond)
		}
	})
}

// An expensive snapshot holds for longer.
func TestExpensiveSnapshotHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBoard(manyModels(t, 1))
		for _, test := range []struct{ cost, holds time.Duration }{
			{0, time.Second}, {10 * time.Millisecond, time.Second}, {50 * time.Millisecond, 5 * time.Second}, {time.Hour, 15 * time.Second},
		} {
			s, err := b.look(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			s.cost.Store(int64(test.cost))
			if got := s.due().Sub(s.at); got != test.holds {
				t.Errorf("a snapshot of %v holds for %v, want %v", test.cost, got, test.holds)
			}
			time.Sleep(test.holds)
		}
	})
}

// A request that ends does not wait for another that takes a snapshot, and leaves none behind.
func TestLookEnds(t *testing.T) {
	b := newBoard(manyModels(t, 1))
	gone := errors.New("gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(gone)
	if _, err := b.look(ctx); !errors.Is(err, gone) || b.last.Load() != nil {
		t.Errorf("error %v", err)
	}
	b.turn <- struct{}{}
	if _, err := b.look(ctx); !errors.Is(err, gone) {
		t.Errorf("error %v", err)
	}
	<-b.turn
	if _, err := b.look(t.Context()); err != nil {
		t.Error(err)
	}
}

// A snapshot in which nothing has changed has the content of the one before.
func TestSameContent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rl := manyModels(t, 3)
		b := newBoard(rl)
		one, _ := b.look(t.Context())
		time.Sleep(time.Hour)
		two, _ := b.look(t.Context())
		if one == two || one.content != two.content || one.version != 1 {
			t.Errorf("versions %d and %d", one.version, two.version)
		}
		rl.RecordUsage("provider/model-0001", 1, 1)
		time.Sleep(time.Second)
		three, _ := b.look(t.Context())
		if three.version != 2 || three.previous != 1 || three.rows[0] != one.rows[0] || three.rows[1] == one.rows[1] || three.rows[1].id != one.rows[1].id {
			t.Errorf("version %d after %d", three.version, three.previous)
		}
	})
}

func TestServersAreFew(t *testing.T) {
	var s shutdowns
	for range 3 * maxServers {
		server := new(http.Server)
		if ctx := s.of(server); ctx != s.of(server) {
			t.Error("another context for the same server")
		}
	}
	if len(s.servers) > maxServers {
		t.Errorf("%d servers are kept", len(s.servers))
	}
}

func TestWords(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0 s", 999 * time.Millisecond: "0 s", 59 * time.Second: "59 s", time.Minute: "1 min 00 s",
		61 * time.Minute: "1 h 01 min", 47 * time.Hour: "47 h 00 min", 48 * time.Hour: "2 days", 40_000 * time.Hour: "1,666 days",
	} {
		if got := length(d); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", -1000: "-1,000", -100: "-100", 1234567: "1,234,567"} {
		if got := number(n); got != want {
			t.Errorf("%d is %q, want %q", n, got, want)
		}
	}
}

func TestBarParts(t *testing.T) {
	for _, test := range []struct {
		maximum int
		amounts []int
		want    string
	}{
		{100, []int{0, 0, 0}, ""},
		{1_000_000, []int{1, 0, 1}, "a 0.0%+0.1% c 0.1%+0.1% "},
		{100, []int{50, 25, 25}, "a 0.0%+50.0% b 50.0%+25.0% c 75.0%+25.0% "},
		{100, []int{80, 30, 50}, "a 0.0%+80.0% b 80.0%+20.0% "},
		{0, []int{1, 0, 0}, "a 0.0%+100.0% "},
		{-1, []int{0, 2, 0}, "b 0.0%+100.0% "},
		{math.MaxInt, []int{math.MaxInt/2 + 1, math.MaxInt/2 + 1, math.MaxInt}, "a 0.0%+50.0% b 50.0%+50.0% "},
	} {
		got := ""
		for _, p := range bar(test.maximum, []string{"a", "b", "c"}, test.amounts) {
			got += p.Class + " " + p.X + "+" + p.Width + " "
		}
		if got != test.want {
			t.Errorf("%v of %d: %q, want %q", test.amounts, test.maximum, got, test.want)
		}
	}
}

// discard is the response of a viewer in a benchmark.
type discard struct{ header http.Header }

func (d discard) Header() http.Header         { return d.header }
func (d discard) WriteHeader(int)             {}
func (d discard) Flush()                      {}
func (d discard) Write(p []byte) (int, error) { return io.Discard.Write(p) }

// BenchmarkTick is a second of ten viewers with 1,000 models, of which some change.
func BenchmarkTick(b *testing.B) {
	for _, changing := range []int{0, 20, 1000} {
		b.Run(fmt.Sprintf("%d_of_1000_change", changing), func(b *testing.B) {
			rl := manyModels(b, 1000)
			h := Handler(rl).(*handler)
			viewers := make([]viewer, 10)
			for i := range viewers {
				w := discard{make(http.Header)}
				viewers[i] = viewer{handler: h, out: http.NewResponseController(w), w: w}
			}
			tick := func(last *snapshot) *snapshot {
				s, err := h.board.take(b.Context(), last)
				if err != nil {
					b.Fatal(err)
				}
				for i := range viewers {
					if s.version != viewers[i].seen {
						viewers[i].send(s)
					}
				}
				return s
			}
			s := tick(nil)
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				for i := range changing {
					rl.RecordUsage(s.rows[i].explained.Model, 10, 10)
				}
				b.StartTimer()
				s = tick(s)
			}
			b.ReportMetric(100*b.Elapsed().Seconds()/float64(b.N)/interval.Seconds(), "%core")
		})
	}
}

// BenchmarkPage is a page without JavaScript, of 1,000 idle models.
func BenchmarkPage(b *testing.B) {
	h := Handler(manyModels(b, 1000))
	r, _ := http.NewRequest(http.MethodGet, "/", nil)
	b.ReportAllocs()
	for b.Loop() {
		h.ServeHTTP(discard{make(http.Header)}, r)
	}
}
