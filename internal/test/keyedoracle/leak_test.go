// Nothing grows with time, or with the number of keys that ever came.

package keyedoracle_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"dappco.re/go/core/go-ratelimit/keyed"
)

// usage is what a limiter needs while keys come and go.
type usage struct {
	heap       int64
	goroutines int
	counters   int
}

func measureUsage(lim *keyed.Limiter) usage {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return usage{int64(m.HeapAlloc), runtime.NumGoroutine(), lim.Len()}
}

// For 30 days keys come, ask a few times and never come again. After the second day memory and
// goroutines stay as they are, and after Close no goroutine is left: synctest.Test fails if one is.
func TestKeysComeAndGo(t *testing.T) {
	for _, c := range []struct {
		name    string
		options func(*region) keyed.Options
	}{
		{"alone", func(*region) keyed.Options { return keyed.Options{} }},
		{"with an origin", func(g *region) keyed.Options {
			return keyed.Options{Origin: forgetful{newLink(g, 0, weather{roundTrip: 20 * time.Millisecond}, 1)}}
		}},
		{"with an origin that is away", func(g *region) keyed.Options {
			return keyed.Options{Origin: flappy{forgetful{newLink(g, 0, weather{}, 1)}}}
		}},
		{"with regions", func(*region) keyed.Options {
			return keyed.Options{Exchange: quiet{}, Region: "here"}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newRegion(t)
				lim := newLimiter(t, c.options(g))
				comeAndGo(t, lim, 2*times(12, 24))
				early := measureUsage(lim)
				comeAndGo(t, lim, 2*times(12, 28*12))
				late := measureUsage(lim)
				t.Logf("at first %+v, at the end %+v", early, late)
				if grown := late.heap - early.heap; grown > 1<<20 {
					t.Errorf("the heap has grown by %d bytes", grown)
				}
				if late.goroutines > early.goroutines+4 {
					t.Errorf("%d goroutines, and then %d", early.goroutines, late.goroutines)
				}
				if most := 4 * keysAMinute * 3; late.counters > most {
					t.Errorf("%d counters, want at most %d", late.counters, most)
				}
				if err := lim.Close(context.Background()); err != nil {
					t.Errorf("close: %v", err)
				}
			})
		})
	}
}

const keysAMinute = 20

// comeAndGo has new keys come each minute, and each of them ask three times within the next.
func comeAndGo(t *testing.T, lim *keyed.Limiter, hours int) {
	for range hours * 60 {
		for i := range keysAMinute {
			r := keyed.Request{
				Namespace: "n", Key: fmt.Sprint(time.Now().Unix(), i), Limit: 2, Window: time.Minute, Cost: 1,
			}
			for range 3 {
				if _, err := lim.Take(context.Background(), r); err != nil {
					t.Fatal(err)
				}
			}
			if i%4 == 0 {
				h, _, err := lim.Hold(context.Background(), r)
				if err != nil {
					t.Fatal(err)
				}
				h.Commit(1)
			}
		}
		time.Sleep(time.Minute)
	}
}

// forgetful is an origin that forgets old cells and replays, as one with a time to live does, so
// that what grows is not the test.
type forgetful struct{ *link }

func (o forgetful) forget() {
	o.region.mu.Lock()
	if len(o.region.counts) > 1000 {
		clear(o.region.counts)
		clear(o.region.seen)
	}
	o.region.mu.Unlock()
	o.mu.Lock()
	if len(o.sent) > 1000 {
		clear(o.known)
		clear(o.sent)
		clear(o.acked)
		clear(o.replays)
	}
	o.mu.Unlock()
}

func (o forgetful) Read(ctx context.Context, cells []keyed.Cell) ([]int64, error) {
	o.forget()
	return o.link.Read(ctx, cells)
}

func (o forgetful) Add(ctx context.Context, r keyed.Replay) ([]int64, error) {
	o.forget()
	return o.link.Add(ctx, r)
}

// flappy is an origin that is away every other hour.
type flappy struct{ forgetful }

func (o flappy) Read(ctx context.Context, cells []keyed.Cell) ([]int64, error) {
	if time.Now().Hour()%2 == 1 {
		return nil, errNetwork
	}
	return o.forgetful.Read(ctx, cells)
}

func (o flappy) Add(ctx context.Context, r keyed.Replay) ([]int64, error) {
	if time.Now().Hour()%2 == 1 {
		return nil, errNetwork
	}
	return o.forgetful.Add(ctx, r)
}

// quiet is an exchange with a region in which other keys come and go.
type quiet struct{}

func (quiet) Push(context.Context, []keyed.Row) error { return nil }

func (quiet) Pull(_ context.Context, cursor string) ([]keyed.Row, string, error) {
	sequence := time.Now().Unix() / 60
	if cursor == fmt.Sprint(sequence) {
		return nil, cursor, nil
	}
	var rows []keyed.Row
	for i := range keysAMinute {
		rows = append(rows, keyed.Row{Cell: keyed.Cell{
			Namespace: "n", Key: fmt.Sprint("foreign", sequence, i), Window: time.Minute, Sequence: sequence,
		}, Region: "there", Count: 7})
	}
	return rows, fmt.Sprint(sequence), nil
}
