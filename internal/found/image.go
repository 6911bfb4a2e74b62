package found

import (
	"math"

	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/wire"
)

// longestSearch bounds the image of a search, in bytes.
const longestSearch = 1024

// AppendImage appends the limits as bytes from which Read makes limits that go on as these. The same
// limits have the same bytes.
func (l *Limits) AppendImage(to []byte) []byte {
	b := &l.bounds
	for _, n := range [...]int{b.FloorRPM, b.CeilingRPM, b.FloorSlots, b.CeilingSlots} {
		to = wire.AppendUint(to, uint64(n))
	}
	if *b == (Bounds{}) {
		for _, f := range state.FoundFields {
			to = wire.AppendInt(to, *f.Of(&l.stored))
		}
		to = wire.AppendUint(wire.AppendBool(to, l.stored.Told), uint64(l.stored.Anew))
	}
	if b.FloorRPM > 0 {
		data, _ := l.rate.AppendBinary(nil)
		to = wire.AppendString(to, string(data))
	}
	if b.FloorSlots > 0 {
		data, _ := l.slots.AppendBinary(nil)
		to = wire.AppendString(to, string(data))
	}
	to = wire.AppendBool(wire.AppendInt(wire.AppendInt(to, l.used), l.since), l.told)
	to = wire.AppendUint(wire.AppendInt(to, l.latest), uint64(l.together))
	return wire.AppendUint(wire.AppendInt(to, l.base), uint64(l.keeps))
}

// Read reads an image. After an error it returns nil.
func Read(r *wire.Reader) *Limits {
	const farthest = int64(1) << 62
	b := Bounds{int(r.UpTo(math.MaxInt)), int(r.UpTo(math.MaxInt)), int(r.UpTo(math.MaxInt)), int(r.UpTo(math.MaxInt))}
	if !b.isValid() {
		r.Fail("bounds of a search that no quota has")
		return nil
	}
	l := New(b, 0)
	if b == (Bounds{}) {
		for _, f := range state.FoundFields {
			*f.Of(&l.stored) = r.Within(f.Least, f.Most)
		}
		l.stored.Told, l.stored.Anew = r.Bool(), int64(r.UpTo(state.RateAnew|state.SlotsAnew))
	}
	if b.FloorRPM > 0 && l.rate.UnmarshalBinary([]byte(r.String(longestSearch))) != nil {
		r.Fail("search for a rate that cannot be")
	}
	if b.FloorSlots > 0 && l.slots.UnmarshalBinary([]byte(r.String(longestSearch))) != nil {
		r.Fail("search for calls in flight that cannot be")
	}
	if b.FloorRPM > 0 {
		l.gap = int64(l.rate.Gap())
	}
	l.used, l.since, l.told = r.Within(-farthest, farthest), r.Within(-farthest, farthest), r.Bool()
	l.latest, l.together = r.Within(never, farthest), int(r.UpTo(math.MaxInt>>1))
	l.base, l.keeps = r.Within(-farthest, farthest), int64(r.UpTo(math.MaxInt64>>1))
	if r.Err() != nil {
		return nil
	}
	return l
}

// isValid reports whether a quota can search between the bounds.
func (b Bounds) isValid() bool {
	q := state.Quota{
		AdaptiveFloorRPM: b.FloorRPM, AdaptiveCeilingRPM: b.CeilingRPM,
		AdaptiveFloorInFlight: b.FloorSlots, AdaptiveCeilingInFlight: b.CeilingSlots,
	}
	return b == BoundsOf(&q)
}
