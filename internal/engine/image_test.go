package engine_test

import (
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"dappco.re/go/core/go-ratelimit/internal/account"
	"dappco.re/go/core/go-ratelimit/internal/engine"
	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/test/racetest"
)

// busy returns an engine with so many charges of a minute, every other one open.
func busy(charges int) *engine.Engine {
	e := engine.New(1, nil)
	now := account.Now{Instant: 1e15, Wall: 1_711_900_000e9}
	e.Apply(now, 1, 1, engine.SetQuota{Counted: "m", Quota: state.Quota{MaxRPM: 1 << 30, MaxTPM: math.MaxInt}})
	c := engine.Record{
		Name: engine.Name{Asked: "m", Counted: "m"}, Span: account.Minute, Used: state.Count{Input: 1200, Output: 300},
	}
	for i := range charges {
		now.Instant += 55 * second / int64(charges)
		e.Apply(now, 1, int64(i+2), c)
	}
	return e
}

func TestImageHasFewBytesPerCharge(t *testing.T) {
	const charges = 20_000
	few, many := len(busy(0).AppendImage(nil)), len(busy(charges).AppendImage(nil))
	if got := float64(many-few) / charges; got > 9 {
		t.Errorf("a charge takes %.1f bytes, want at most 9", got)
	}
}

// An image that was damaged is refused, or it is one of another state, which has an image again and
// goes on.
func TestDamagedImages(t *testing.T) {
	most := 400 / min(racetest.Factor, 8)
	if os.Getenv("RATELIMIT_LONG") != "" {
		most = 10_000
	}
	r := rand.New(rand.NewPCG(7, 7))
	for seed := range uint64(4) {
		e, l := lived(seed, 500)
		image := e.AppendImage(nil)
		refused := 0
		for range most {
			damaged := slices.Clone(image)
			for range 1 + r.IntN(2) {
				damaged[r.IntN(len(damaged))] = byte(r.IntN(256) >> r.IntN(8))
			}
			e, err := engine.Read(damaged, nil)
			if err != nil {
				refused++
				continue
			}
			checkImage(t, e)
			goOn(e, l, 20)
			checkImage(t, e)
		}
		if refused < most/4 {
			t.Errorf("%d of %d damaged images are refused", refused, most)
		}
	}
}

// goOn applies more commands of a life to another engine.
func goOn(e *engine.Engine, l *life, entries int) {
	on := *l
	on.e, on.now = e, e.Last()
	for range entries {
		for _, is := range on.entries() {
			e.Apply(is.now, is.process, is.n, is.command)
		}
	}
}

func TestReadRefuses(t *testing.T) {
	image := busy(10).AppendImage(nil)
	for cut := range image {
		if _, err := engine.Read(image[:cut], nil); err == nil {
			t.Fatalf("the first %d of %d bytes are accepted", cut, len(image))
		}
	}
	if _, err := engine.Read(append(image, 0), nil); err == nil {
		t.Error("a byte more is accepted")
	}
	image[0]++
	if _, err := engine.Read(image, nil); err == nil || err.Error() != "read image: version 2, want 1" {
		t.Errorf("an image of another version: %v", err)
	}
}

func BenchmarkAppendImage(b *testing.B) {
	e := busy(1_000_000)
	var image []byte
	for b.Loop() {
		image = e.AppendImage(image[:0])
	}
	b.ReportMetric(float64(len(image))/1e6, "B/charge")
}

func BenchmarkRead(b *testing.B) {
	image := busy(1_000_000).AppendImage(nil)
	for b.Loop() {
		if _, err := engine.Read(image, nil); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkApply(b *testing.B) {
	e := busy(0)
	now := e.Last()
	want := []engine.Want{{Name: engine.Name{Asked: "m", Counted: "m"}, Tokens: state.Count{Input: 1200, Output: 300}}}
	admit := engine.Admit{By: engine.By{Span: account.Minute, HoldTTL: 600 * second}, Wants: want}.Append(nil)
	n := int64(10)
	for b.Loop() {
		n++
		now.Instant, now.Wall = now.Instant+second/1000, now.Wall+second/1000
		c, _ := engine.Decode(admit)
		e.Apply(now, 1, n, c)
		c, _ = engine.Decode(engine.Settle{ID: account.ID{Process: 1, N: n}, Used: state.Count{Input: 1100, Output: 250}}.Append(nil))
		e.Apply(now, 1, n+1e9, c)
	}
}
