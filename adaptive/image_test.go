package adaptive_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"dappco.re/go/core/go-ratelimit/adaptive"
	"dappco.re/go/core/go-ratelimit/internal/wire"
	"dappco.re/go/core/go-ratelimit/limit"
)

func rateBytes(s *adaptive.RateSearch) []byte { data, _ := s.AppendBinary(nil); return data }
func slotBytes(s *adaptive.SlotSearch) []byte { data, _ := s.AppendBinary(nil); return data }

// seedOf makes searches of one config that differ in their jitter, until one is read from another.
func seedOf(seed uint64) func(*adaptive.RateConfig) {
	return func(c *adaptive.RateConfig) { c.Seed = seed }
}

// provider refuses what is beyond a limit of one of several kinds.
type provider struct {
	kind   int
	level  int64 // units in 10^9 seconds
	recent []int64
}

func (p *provider) refuses(random *rand.Rand, at int64) bool {
	for len(p.recent) > 0 && p.recent[0] < at-60*sec {
		p.recent = p.recent[1:]
	}
	switch p.kind {
	case 0: // a bucket
		if n := len(p.recent); n > 0 && p.recent[n-1] > at-1e18/p.level {
			return true
		}
	case 1: // a minute
		if len(p.recent) > 200 {
			return true
		}
	case 2: // a bucket of one call that others empty
		if random.IntN(3) == 0 {
			return true
		}
	case 3: // a bucket that others empty for a while
		if n := len(p.recent); at/(100*sec)%2 != 0 && random.IntN(3) == 0 || n > 0 && p.recent[n-1] > at-1e18/p.level {
			return true
		}
	default: // an outage now and then
		if at/(20*sec)%4 == 3 {
			return true
		}
	}
	p.recent = append(p.recent, at)
	return false
}

// moved does the same in searches: units pass as the first one spaces them.
func moved(searches []*adaptive.RateSearch, random *rand.Rand, p *provider, at int64) (next int64) {
	took := random.Int64N(sec)
	refused := p.refuses(random, at)
	until := at + random.Int64N(50*sec)>>(6*random.IntN(3))
	what := random.IntN(400)
	for _, s := range searches {
		if s.Ready(at) {
			s.Raise(at)
		}
		s.Count(at, 1)
		switch {
		case refused && what < 20:
			s.RefusedUntil(at, took, until)
		case refused:
			s.Refused(at, took)
		case what == 20:
			s.Failed(at)
		case what == 21:
			s.Uncount(2)
		case what == 22:
			s.Resume(s.State(at), at, time.Duration(took))
		}
	}
	return at + int64(searches[0].Gap())
}

// A rate that was read goes on as the one that was written.
func TestRateSearchBytesGoOn(t *testing.T) {
	for seed := range uint64(120) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 30))
			p := &provider{kind: int(seed % 5), level: 1e9 + random.Int64N(500e9)}
			searches := []*adaptive.RateSearch{newRateSearch(t, nil), nil}
			at := random.Int64N(math.MaxInt64/2) - math.MaxInt64/4
			for range 150 {
				searches[1] = newRateSearch(t, seedOf(seed+1))
				if err := searches[1].UnmarshalBinary(rateBytes(searches[0])); err != nil {
					t.Fatal(err)
				}
				for range random.IntN(60) {
					at = moved(searches, random, p, at)
					if *searches[0] != *searches[1] {
						t.Fatalf("at %d:\n%+v, want\n%+v", at, *searches[1], *searches[0])
					}
				}
			}
		})
	}
}

// Slots that were read go on as those that were written.
func TestSlotSearchBytesGoOn(t *testing.T) {
	for seed := range uint64(40) {
		random := rand.New(rand.NewPCG(seed, 31))
		searches := []*adaptive.SlotSearch{newSlotSearch(t, nil), nil}
		at := int64(0)
		for range 20 {
			searches[1] = newSlotSearch(t, func(c *adaptive.ConcurrencyConfig) { c.Seed = seed + 1 })
			if err := searches[1].UnmarshalBinary(slotBytes(searches[0])); err != nil {
				t.Fatal(err)
			}
			for range random.IntN(80) {
				at += random.Int64N(sec / 4)
				what, took := random.IntN(60), random.Int64N(sec)
				for _, s := range searches {
					switch {
					case what < 30:
						s.Full()
					case what == 30:
						s.Overloaded(at, took)
					case what == 31:
						s.Resume(s.State(at), at, time.Duration(took))
					}
					if s.Ended(at); s.Ready(at) {
						s.Raise(at)
					}
				}
				if *searches[0] != *searches[1] {
					t.Fatalf("seed %d, at %d:\n%+v, want\n%+v", seed, at, *searches[1], *searches[0])
				}
			}
		}
	}
}

// What is no search of the config is refused, and changes nothing.
func TestUnmarshalBinaryRefuses(t *testing.T) {
	fast := newRateSearch(t, func(c *adaptive.RateConfig) { c.Start = limit.PerSecond(1000) })
	many := newSlotSearch(t, func(c *adaptive.ConcurrencyConfig) { c.Start = c.Ceiling })
	for name, data := range map[string][]byte{
		"nothing":            nil,
		"a part":             rateBytes(fast)[:20],
		"more":               append(rateBytes(fast), 0),
		"a level beyond it":  rateBytes(fast),
		"slots beyond it":    slotBytes(many),
		"a negative level":   wire.AppendInt(nil, -1),
		"something entirely": bytes.Repeat([]byte{2}, 60),
	} {
		rate := newRateSearch(t, func(c *adaptive.RateConfig) { c.Ceiling = limit.PerSecond(999) })
		slots := newSlotSearch(t, func(c *adaptive.ConcurrencyConfig) { c.Ceiling-- })
		wasRate, wasSlots := *rate, *slots
		if err := rate.UnmarshalBinary(data); !errors.Is(err, wire.ErrInvalid) || *rate != wasRate {
			t.Errorf("%s: a rate: %v, changed %v", name, err, *rate != wasRate)
		}
		if err := slots.UnmarshalBinary(data); !errors.Is(err, wire.ErrInvalid) || *slots != wasSlots {
			t.Errorf("%s: slots: %v, changed %v", name, err, *slots != wasSlots)
		}
	}
	if err := new(adaptive.RateSearch).UnmarshalBinary(rateBytes(new(adaptive.RateSearch))); err == nil {
		t.Error("a search of no config is read")
	}
}

// No bytes panic, nor the searches that are read from them. What is accepted is what is written for
// it.
func FuzzUnmarshalBinary(f *testing.F) {
	random := rand.New(rand.NewPCG(5, 30))
	for kind := range 5 {
		p, s, at := &provider{kind: kind, level: 20e9}, newRateSearch(f, nil), int64(0)
		for i := range 2000 {
			if at = moved([]*adaptive.RateSearch{s}, random, p, at); i%200 == 99 {
				f.Add(rateBytes(s), slotBytes(newSlotSearch(f, nil)), random.Uint64(), at)
			}
		}
	}
	f.Fuzz(func(t *testing.T, rate, slots []byte, seed uint64, at int64) {
		random := rand.New(rand.NewPCG(seed, 0))
		if r := newRateSearch(t, nil); r.UnmarshalBinary(rate) == nil {
			if !bytes.Equal(rateBytes(r), rate) {
				t.Fatalf("%x is written as %x", rate, rateBytes(r))
			}
			p := &provider{kind: int(seed % 5), level: 20e9}
			for range 300 {
				if at = moved([]*adaptive.RateSearch{r}, random, p, at); r.Gap() < time.Millisecond || r.Gap() > time.Second {
					t.Fatalf("one in %v", r.Gap())
				}
			}
		}
		if s := newSlotSearch(t, nil); s.UnmarshalBinary(slots) == nil {
			if !bytes.Equal(slotBytes(s), slots) {
				t.Fatalf("%x is written as %x", slots, slotBytes(s))
			}
			for range 300 {
				at += random.Int64N(sec)
				if s.Full(); random.IntN(9) == 0 {
					s.Overloaded(at, random.Int64N(sec))
				}
				if s.Ended(at); s.Ready(at) {
					s.Raise(at)
				}
				if s.Limit() < 1 || s.Limit() > 1000 {
					t.Fatalf("%d slots", s.Limit())
				}
			}
		}
	})
}
