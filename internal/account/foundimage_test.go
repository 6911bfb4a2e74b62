package account

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/wire"
)

var someBounds = []SearchBounds{
	{}, rates(60, 6000), rates(1, 1_000_000_000), rates(600, 600), slots(1, 1), slots(3, 100), {10, 1000, 4, 100}, {1, 60, 1, 10_000},
}

func someFound(random *rand.Rand) (f state.Found) {
	for _, field := range state.FoundFields {
		*field.Of(&f) = random.Int64N(1<<20) << random.IntN(20)
	}
	f.Rate.Streak, f.Slots.Streak = f.Rate.Streak&7, f.Slots.Streak&7
	f.Anew, f.Told = random.Int64N(4), random.IntN(4) == 0
	return f
}

func foundLimitsOf(t *testing.T, image []byte) *FoundLimits {
	t.Helper()
	r := wire.NewReader(image)
	l := readFoundLimits(r)
	if err := r.End(); err != nil {
		t.Fatal(err)
	}
	return l
}

// user uses limits at instants of a time line.
type foundUser struct {
	at, wall int64
	charged  []int64 // the instants of calls that have not ended
}

// step does the same with all limits.
func (u *foundUser) step(all []*FoundLimits, random *rand.Rand) {
	u.at += random.Int64N(second) << random.IntN(2)
	switch random.IntN(300) {
	case 0:
		u.at += random.Int64N(3 * hour)
	case 1:
		u.wall += random.Int64N(hour) - hour/2
	}
	what, amount, wait := random.IntN(40), random.IntN(5), random.Int64N(2*second)
	sharers, bounds, told := random.IntN(3), someBounds[random.IntN(len(someBounds))], random.IntN(3) == 0
	ends := random.IntN(len(u.charged) + 1)
	for _, l := range all {
		switch {
		case what < 20:
			if l.isDue(u.at) {
				l.goOn(u.at)
			}
			l.count(u.at, amount, len(u.charged)+amount, sharers)
		case what < 26 && ends < len(u.charged):
			l.ended(u.at)
		case what < 29 && ends < len(u.charged):
			l.uncount(u.charged[ends])
		case what < 31:
			l.Refuse(ProviderRefusal{Overload: told, Took: wait / 2, Wait: wait}, u.at)
		case what == 31:
			l.Tell(told)
		case what == 32 && amount == 0:
			l.bind(bounds, u.at, u.at+u.wall)
		case what == 34 && amount == 0:
			l.Forget()
		case what == 35:
			l.count(u.at-hour/60, amount, 1, sharers)
		}
	}
	switch {
	case what < 20:
		u.charged = append(u.charged, u.at)
	case what < 29 && ends < len(u.charged):
		u.charged = append(u.charged[:ends], u.charged[ends+1:]...)
	}
}

// agree compares all that limits say and are.
func (u *foundUser) agree(t *testing.T, got, want *FoundLimits) {
	t.Helper()
	a, b := *got, *want
	a.stored.Told, b.stored.Told = false, false // nobody asks: Limits.told holds
	if a != b {
		t.Fatalf("at %d:\n%+v, want\n%+v", u.at, a, b)
	}
	if !bytes.Equal(got.appendImage(nil), want.appendImage(nil)) {
		t.Fatal("the images differ")
	}
	says := func(l *FoundLimits) string {
		rpm, slots := l.Found(u.at)
		return fmt.Sprint(l.Present(u.at, u.at+u.wall), rpm, slots, l.IsTold(), l.Bounds(), l.isDue(u.at),
			l.opens(), l.opensAtBest(len(u.charged)), l.mostSlots(0, u.at), l.mostSlots(1, u.at))
	}
	if a, b := says(got), says(want); a != b {
		t.Fatalf("at %d: %s, want %s", u.at, a, b)
	}
}

// Limits that were read go on as those that were written, also into searches that begin later.
func TestFoundImageGoesOn(t *testing.T) {
	for seed := range uint64(40) {
		random := rand.New(rand.NewPCG(seed, 30))
		u := &foundUser{at: random.Int64N(hour), wall: hour}
		all := []*FoundLimits{newFoundLimits(someBounds[random.IntN(len(someBounds))], u.at, seed+1), nil}
		if seed%4 == 0 {
			all[0] = storedFoundLimits(someFound(random), seed+1)
		}
		for range 20 {
			all[1] = foundLimitsOf(t, all[0].appendImage(nil))
			for range random.IntN(60) {
				u.agree(t, all[1], all[0])
				u.step(all, random)
			}
		}
	}
}

// The seed alone decides the jitter: two searches of one seed are the same from the first call on,
// those of two seeds are not.
func TestSeedDecidesTheJitter(t *testing.T) {
	lived := func(seed uint64) *FoundLimits {
		l := storedFoundLimits(state.Found{Rate: state.Search{Level: thousand}}, seed)
		l.bind(rates(60, 6000), second, second)
		for at := second; at < 20*second; at += second {
			l.goOn(at)
			l.count(at, 5, 5, 0)
		}
		return l
	}
	if a, b := lived(7), lived(7); *a != *b {
		t.Errorf("one seed: %+v and %+v", *a, *b)
	}
	if a, b := lived(7), lived(8); a.rate == b.rate {
		t.Error("two seeds have the same jitter")
	}
}

func TestFoundImageOfNil(t *testing.T) {
	var none *FoundLimits
	if l := foundLimitsOf(t, none.appendImage(nil)); l != nil {
		t.Errorf("nil is read as %+v", l)
	}
}

// A field that is new has to be in the image, or to follow from those that are.
func TestFoundImageKnowsAllFields(t *testing.T) {
	if n := reflect.TypeFor[FoundLimits]().NumField(); n != 13 {
		t.Errorf("Limits has %d fields: is the new one in the image?", n)
	}
}

func TestReadFoundLimitsRefuses(t *testing.T) {
	for _, tt := range []struct {
		name, want string
		l          *FoundLimits
		change     func(l *FoundLimits)
	}{
		{"nothing", "", newFoundLimits(SearchBounds{10, 1000, 4, 100}, 5, 0), func(*FoundLimits) {}},
		{"a ceiling below its floor", "bounds that no quota has", newFoundLimits(rates(1, 2), 5, 0), func(l *FoundLimits) { l.bounds.CeilingRPM = 0 }},
		{"a ceiling without a floor", "bounds that no quota has", newFoundLimits(slots(1, 2), 5, 0), func(l *FoundLimits) { l.bounds.FloorSlots = 0 }},
		{"a floor beyond all", "bounds that no quota has", newFoundLimits(slots(1, 2), 5, 0), func(l *FoundLimits) { l.bounds.FloorSlots = 2_000_000 }},
		{"negative gaps", "number out of range", newFoundLimits(SearchBounds{}, 5, 0), func(l *FoundLimits) { l.keeps = -1 }},
		{"more calls than gaps", "number out of range", newFoundLimits(rates(1, 2), 5, 0), func(l *FoundLimits) { l.together = 1 }},
		{"a level below the floor", "search that is none", newFoundLimits(rates(10, 40), 5, 0), func(l *FoundLimits) { l.bounds.FloorRPM = 30 }},
		{"slots beyond the ceiling", "search that is none", newFoundLimits(slots(4, 8), 5, 0), func(l *FoundLimits) { l.bounds = slots(4, 7) }},
		{"a negative level", "number out of range", storedFoundLimits(state.Found{}, 0), func(l *FoundLimits) { l.stored.Rate.Level = -1 }},
		{"windows of other searches", "number out of range", storedFoundLimits(state.Found{}, 0), func(l *FoundLimits) { l.stored.Anew = 4 }},
	} {
		tt.change(tt.l)
		r := wire.NewReader(tt.l.appendImage(nil))
		got := readFoundLimits(r)
		if err := fmt.Sprint(r.End()); (got == nil) != (tt.want != "") || tt.want != "" && !strings.Contains(err, tt.want) {
			t.Errorf("%s: %+v, %s, want %q", tt.name, got, err, tt.want)
		}
	}
}

// No bytes panic, nor the limits that are read from them. What is accepted is what is written for
// it.
func FuzzReadFoundLimits(f *testing.F) {
	random := rand.New(rand.NewPCG(3, 30))
	for i, b := range someBounds {
		u, all := &foundUser{at: hour}, []*FoundLimits{newFoundLimits(b, hour, uint64(i)+1)}
		for range 5 {
			f.Add(all[0].appendImage(nil), random.Uint64(), u.at)
			for range 50 {
				u.step(all, random)
			}
		}
	}
	f.Add(storedFoundLimits(someFound(random), 9).appendImage(nil), uint64(1), hour)
	f.Fuzz(func(t *testing.T, image []byte, seed uint64, at int64) {
		r := wire.NewReader(image)
		l := readFoundLimits(r)
		if r.End() != nil {
			return
		}
		if again := l.appendImage(nil); !bytes.Equal(again, image) {
			t.Fatalf("%x are accepted, and written as %x", image, again)
		}
		if l == nil || l.seed == 0 {
			return
		}
		u, all := &foundUser{at: at}, []*FoundLimits{l, foundLimitsOf(t, image)}
		random := rand.New(rand.NewPCG(seed, 0))
		for range 100 {
			u.step(all, random)
		}
		u.agree(t, all[1], all[0])
	})
}
