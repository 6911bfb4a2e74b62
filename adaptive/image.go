package adaptive

import (
	"fmt"
	"math"

	"dappco.re/go/core/go-ratelimit/internal/wire"
)

// AppendBinary appends all that the search is, beside its config: a search of the same config that
// reads it goes on exactly as this one, at the same instants, jitter included. Other versions of
// this package may refuse the bytes: State and Resume are for what is to last. The error is nil.
func (s *RateSearch) AppendBinary(to []byte) ([]byte, error) {
	return s.image().append(to), nil
}

// UnmarshalBinary makes the search one that AppendBinary has written. Where the bytes are no search
// of this config, it returns an error and changes nothing.
func (s *RateSearch) UnmarshalBinary(data []byte) error {
	read := *s
	if err := read.image().read(data); err != nil {
		return fmt.Errorf("read adaptive rate search: %w", err)
	}
	read.late = read.lag > read.window/2
	read.gap = gapOf(read.level)
	*s = read
	return nil
}

// AppendBinary is RateSearch.AppendBinary for slots.
func (s *SlotSearch) AppendBinary(to []byte) ([]byte, error) {
	return s.image().append(to), nil
}

// UnmarshalBinary is RateSearch.UnmarshalBinary for slots.
func (s *SlotSearch) UnmarshalBinary(data []byte) error {
	read := *s
	if err := read.image().read(data); err != nil {
		return fmt.Errorf("read adaptive slot search: %w", err)
	}
	*s = read
	return nil
}

// image is what of a search is no part of its config and does not follow from the rest.
type image struct {
	numbers []number
	flags   []*bool
	chance  *chance
}

// number is a field of an image, and between which values it is.
type number struct {
	field       *int64
	least, most int64
}

func (i image) append(to []byte) []byte {
	for _, n := range i.numbers {
		to = wire.AppendInt(to, *n.field)
	}
	for _, flag := range i.flags {
		to = wire.AppendBool(to, *flag)
	}
	return wire.AppendUint(to, uint64(*i.chance))
}

func (i image) read(data []byte) error {
	r := wire.NewReader(data)
	for _, n := range i.numbers {
		*n.field = r.Within(n.least, n.most)
	}
	for _, flag := range i.flags {
		*flag = r.Bool()
	}
	*i.chance = chance(r.Uint())
	return r.End()
}

// instant is a field that may have any value.
func instant(field *int64) number { return number{field, math.MinInt64, math.MaxInt64} }

func upTo(most int64, field *int64) number { return number{field, 0, most} }

func (c *course) image() image {
	longest := max(c.window, int64(longestLag)) + c.window // see RateSearch.open
	return image{
		numbers: []number{
			{&c.level, max(c.floor, 1), c.ceiling}, // 0 is of no config
			upTo(c.ceiling, &c.knee), upTo(c.ceiling, &c.step), upTo(c.ceiling, &c.raised),
			upTo(lost, &c.streak), upTo(rivalsStay, &c.rivals),
			upTo(c.ceiling, &c.top), upTo(topStays, &c.stays),
			instant(&c.lowered), instant(&c.opened), upTo(longest+longest/4, &c.length),
		},
		flags:  []*bool{&c.near, &c.begun},
		chance: &c.chance,
	}
}

func (s *SlotSearch) image() image {
	i := s.course.image()
	i.numbers = append(i.numbers, upTo(mostSlots+1, &s.ended))
	i.flags = append(i.flags, &s.full)
	return i
}

func (s *RateSearch) image() image {
	i, d, c := s.course.image(), &s.drought, &s.crowd
	i.numbers = append(i.numbers,
		upTo(math.MaxInt64, &s.passed), upTo(int64(longestLag), &s.lag), upTo(s.window, &s.pause),

		instant(&d.tally.from), upTo(longestSum, &d.tally.now), upTo(longestSum, &d.tally.before),
		instant(&d.full.from), upTo(longestSum, &d.full.now), upTo(longestSum, &d.full.before),
		instant(&d.began), upTo(s.ceiling, &d.high), upTo(longestSum, &d.sent), upTo(longestSum, &d.refused),
		instant(&d.held), upTo(s.ceiling, &d.some), instant(&d.probed), upTo(s.ceiling, &d.allowed), instant(&d.until),

		upTo(s.ceiling, &c.served), instant(&c.servedAt), upTo(s.ceiling, &c.latest), upTo(crowdSigns, &c.signs),
		upTo(s.ceiling, &c.high), upTo(s.ceiling, &c.back), upTo(crowdPasses, &c.passes), upTo(crowdDeaf, &c.deaf),
		instant(&c.stepped), upTo(longestSum, &c.sent), instant(&c.until), upTo(s.ceiling, &c.from),
		upTo(crowdSlow, &c.slow), instant(&c.barred),
	)
	i.flags = append(i.flags, &d.holds, &c.holds, &c.trial, &c.met)
	return i
}
