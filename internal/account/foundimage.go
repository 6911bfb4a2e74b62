package account

import (
	"encoding"
	"math"

	"dappco.re/go/core/go-ratelimit/internal/state"
	"dappco.re/go/core/go-ratelimit/internal/wire"
)

const (
	// mostKeeps is beyond what FoundLimits.count lets keeps become: a minute of gaps, and a charge.
	mostKeeps = 1 << 41
	// longestSearch is how many bytes a search takes at most.
	longestSearch = 1 << 10
)

// appendImage appends the limits as bytes from which readFoundLimits makes limits that behave in
// the same way from then on, if they were made with a seed. The same limits have the same bytes.
func (l *FoundLimits) appendImage(to []byte) []byte {
	if l == nil {
		return wire.AppendBool(to, false)
	}
	to = wire.AppendBool(to, true)
	for _, n := range l.bounds.numbers() {
		to = wire.AppendUint(to, uint64(*n))
	}
	to = wire.AppendUint(to, l.seed)
	to = wire.AppendBool(to, l.told)
	for _, instant := range l.instants() {
		to = wire.AppendInt(to, *instant)
	}
	to = wire.AppendUint(to, uint64(l.keeps))
	to = wire.AppendUint(to, uint64(l.together))
	if l.bounds == (SearchBounds{}) {
		return l.appendStored(to)
	}
	if l.bounds.FloorRPM > 0 {
		to = appendSearch(to, &l.rate)
	}
	if l.bounds.FloorSlots > 0 {
		to = appendSearch(to, &l.slots)
	}
	return to
}

// readFoundLimits reads an image. It returns nil for that of nil FoundLimits and after an error.
func readFoundLimits(r *wire.Reader) *FoundLimits {
	if !r.Bool() {
		return nil
	}
	var b SearchBounds
	for _, n := range b.numbers() {
		*n = int(r.UpTo(math.MaxInt))
	}
	if b != b.ofQuota() {
		r.Fail("bounds that no quota has")
		return nil
	}
	l := newFoundLimits(b, 0, r.Uint())
	l.told = r.Bool()
	for _, instant := range l.instants() {
		*instant = r.Int()
	}
	l.keeps = int64(r.UpTo(mostKeeps))
	l.together = int(r.UpTo(uint64(min(l.keeps, math.MaxInt))))
	if b == (SearchBounds{}) {
		l.readStored(r)
	}
	if b.FloorRPM > 0 {
		readSearch(r, &l.rate)
		l.gap = int64(l.rate.Gap())
	}
	if b.FloorSlots > 0 {
		readSearch(r, &l.slots)
	}
	if r.Err() != nil {
		return nil
	}
	return l
}

func (b *SearchBounds) numbers() [4]*int {
	return [4]*int{&b.FloorRPM, &b.CeilingRPM, &b.FloorSlots, &b.CeilingSlots}
}

// ofQuota returns the bounds of the quota that has these.
func (b SearchBounds) ofQuota() SearchBounds {
	return SearchBoundsOf(&state.Quota{
		AdaptiveFloorRPM: b.FloorRPM, AdaptiveCeilingRPM: b.CeilingRPM,
		AdaptiveFloorInFlight: b.FloorSlots, AdaptiveCeilingInFlight: b.CeilingSlots,
	})
}

func (l *FoundLimits) instants() [4]*int64 { return [4]*int64{&l.used, &l.since, &l.latest, &l.base} }

// appendStored appends what a file or another process has found. FoundLimits.told has its Told.
func (l *FoundLimits) appendStored(to []byte) []byte {
	for _, field := range state.FoundFields {
		to = wire.AppendInt(to, *field.Of(&l.stored))
	}
	return wire.AppendUint(to, uint64(l.stored.Anew))
}

func (l *FoundLimits) readStored(r *wire.Reader) {
	for _, field := range state.FoundFields {
		*field.Of(&l.stored) = r.Within(field.Least, field.Most)
	}
	l.stored.Anew = int64(r.UpTo(state.RateAnew | state.SlotsAnew))
	l.stored.Told = l.told
}

func appendSearch(to []byte, s encoding.BinaryAppender) []byte {
	data, err := s.AppendBinary(nil)
	if err != nil {
		panic(err) // of integers
	}
	return wire.AppendString(to, string(data))
}

func readSearch(r *wire.Reader, s encoding.BinaryUnmarshaler) {
	if data := r.String(longestSearch); s.UnmarshalBinary([]byte(data)) != nil {
		r.Fail("search that is none between these bounds")
	}
}
